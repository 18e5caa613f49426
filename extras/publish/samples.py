"""The data that go into an exported repository, and how it trains on them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from twincheck.common.pair import sources
from twincheck.common.pair.case_hooks import data_preset, make_data, reads_file, training
from twincheck.common.pair.data import load_arrays
from twincheck.common.pair.pairs import Case, Pair
from twincheck.common.pair.windows import part_of
from twincheck.common.system.errors import UserError
from twincheck.extras.publish import Kind

# More than that is not put into a repository: its first samples are, and the README says so.
MOST_BYTES = 16 << 20
_FEW = {"train": 256, "test": 128}


@dataclass
class Samples:
    """Training and test data, and the training set-up."""

    train: dict[str, np.ndarray]
    test: dict[str, np.ndarray]
    settings: dict[str, object]
    cut: dict[str, tuple[int, int]]  # part -> how many samples it has here, and of how many

    @property
    def counts(self) -> str:
        """How many training and test samples there are."""
        parts = self.train, self.test
        return " + ".join(f"{len(next(iter(part.values()))):,}" for part in parts)

    @property
    def note(self) -> str:
        """How much of the data it is."""
        parts = [
            Kind.SAMPLES_OF_PART(part=part, kept=kept, of=of)
            for part, (kept, of) in self.cut.items()
        ]
        return Kind.SAMPLES_FIRST(parts=parts) if parts else Kind.SAMPLES_ALL()


def samples_of(
    pair: Pair, case: Case, options, on_progress: Callable
) -> tuple[Samples | None, str]:
    """The data of steps 2 and 5 where the exported model is the one that those steps train.

    Returns None and the reason where there are none.
    """
    preset, seed, path = options.preset, options.seed, options.data
    chosen = data_preset(pair, preset)
    complete = getattr(pair.case, "complete", dict)
    from_file = reads_file(pair, preset)
    if not hasattr(pair.case, "make_data") and not from_file:
        return None, Kind.NO_MAKE_DATA()
    if chosen not in pair.case.CONFIGS:
        return None, Kind.NO_PRESET(preset=chosen)
    is_other = complete(case.config) != complete(pair.case.CONFIGS[chosen])
    if is_other and not (from_file and chosen == preset):
        return None, Kind.PRESET_NOT_TRAINED(preset=preset, trained=chosen)
    if from_file:
        try:
            made = sources.prepare(pair, preset, path, seed, on_progress=on_progress)
        except UserError as error:
            if path is not None:
                raise
            return None, str(error)
        arrays = load_arrays(made.file)
        parts = {part: part_of(arrays, part) for part in ("train", "test")}
    else:
        parts = make_data(pair, preset, seed, path)
    cut: dict[str, tuple[int, int]] = {}
    kept = {part: _kept(part, parts[part], cut) for part in ("train", "test")}
    settings = training(pair, case.config, chosen)
    return Samples(kept["train"], kept["test"], settings, cut), ""


def _kept(part: str, arrays: Mapping[str, np.ndarray], cut: dict) -> dict[str, np.ndarray]:
    """A part's samples in few bytes: integers in the smallest type, not more than _FEW of many."""
    small = {name: _small(np.asarray(values)) for name, values in arrays.items()}
    count = len(next(iter(small.values())))
    if sum(values.nbytes for values in small.values()) > MOST_BYTES and count > _FEW[part]:
        cut[part] = _FEW[part], count
        small = {name: values[: _FEW[part]] for name, values in small.items()}
    return small


def _small(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iu" or values.size == 0:
        return values
    low, high = int(values.min()), int(values.max())
    return values.astype(np.promote_types(np.min_scalar_type(low), np.min_scalar_type(high)))
