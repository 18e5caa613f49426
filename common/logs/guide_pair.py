"""The guide's pair: the values that the reproduction guide asks for, selected from the full logs.

A step's full logs, `forward_all_torch.npy` and `forward_all_paddle.npy`, hold every probe and carry
the verdict.  Beside them `forward_torch.npy` and `forward_paddle.npy` hold what a contest entry
holds, under the guide's keys:

    forward      logits            each head's; where a case's outputs have none, every output
    metric       acc, macro_f1, …  the scores
    loss         loss              the one that is trained with
    bp_align     loss_0 … loss_9, lr_0 … lr_9    of the SGD set-up's ten steps
    train_align  acc, macro_f1, …  the scores at the end of the training

Keys of the first case are bare, those of the others behind its name: `classification/logits`.
Every value stands in the full log, bit by bit; the sidecar says under which key.  Only a score that
is no share of 1 is divided by torch's, and its key says so: `mse_over_torch` is 1 on the torch
side, and the guide's 0.0015 are 0.15 % of torch's score, whatever its unit is.  The check selects
them, the workers know nothing of it.  NumPy only.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from twincheck.common.logs.reader import Log, read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import Sidecar, seal, sidecar_of, write_sidecar
from twincheck.common.logs.writer import LogWriter
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.hashes import file_sha256, same_bits
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import printable

SETUP = "sgd"  # reprod_log's own compare_loss_and_backward takes ten SGD steps too
# What a sidecar says of tensors, weights and draws that a pair does not hold.
_NOT_OF_A_PAIR = (
    *("flips", "choices", "modules", "converted", "outputs", "elapsed_s", "certificate"),
    *("paddle_to_torch", "hidden_rows", "read_back", "draws", "last_bias", "witness"),
    *("inexact", "wrong", "upcast", "sums", "booleans", "settings", "made"),
)

_STEP_OF_SETUP = re.compile(rf"{SETUP}/(\d{{3}})/(loss|lr)")
_CALL = re.compile(r"#\d+$")  # behind an output's name, where a module is called so as well
# Scores of forecasts that divide by each label: a near zero makes millions of a rounding.
_RELATIVE = ("mape", "mspe")
_NAMES = {"accuracy": "acc"}  # what the guide calls our scores, where it is something else
_NO_SHARE = ("mae", "mse", "rmse", "rse", "corr_informer", "bits_per_token", "bits_per_byte")
_OVER = "_over_torch"  # behind the name of a score that is divided by torch's


def is_no_share(name: str, of_torch: float) -> bool:
    """True for a score that is compared over torch's: known as no share, or beyond 1 there.

    One that nothing can be divided by, such as 0 or NaN, is compared as it is.
    """
    return 0.0 < abs(of_torch) < np.inf and (name in _NO_SHARE or abs(of_torch) > 1.0)


def is_over_torch(key: str, full_key: str) -> bool:
    """True where the pair holds this value of the full log's over torch's."""
    return key.endswith(_OVER) and not full_key.endswith(_OVER)


def guide_value(key: str, full_key: str, log: Mapping, torch_log: Mapping) -> np.ndarray:
    """Return a side's value of its pair's `key`: its full log's `full_key`, maybe over torch's."""
    value = log[full_key]
    return np.divide(value, torch_log[full_key]) if is_over_torch(key, full_key) else value


def _outputs(keys: list[str], log: Log, sidecar: Sidecar, prefix: str) -> dict[str, str]:
    """Return each head's logits; every output of a case that returns none."""
    of_case = set(sidecar.outputs.get(prefix.rstrip("/") or "main", ()))
    outputs = {_CALL.sub("", key): key for key in keys if prefix + key in of_case}
    logits = {name: key for name, key in outputs.items() if "logits" in name.split("/")[-1]}
    return logits or outputs


def _scores(keys: list[str], log: Log, sidecar: Sidecar, prefix: str) -> dict[str, str]:
    """The scores: single floats, where everything else is an array or counts something."""
    scores = [k for k in keys if log.shape(prefix + k) == () and log.dtype(prefix + k).kind == "f"]
    scores = [key for key in scores if key not in _RELATIVE]
    return {key if _NAMES.get(key) in scores else _NAMES.get(key, key): key for key in scores}


def _losses(keys: list[str], log: Log, sidecar: Sidecar, prefix: str) -> dict[str, str]:
    """The losses and the learning rates of the SGD set-up's steps."""
    found = {key: _STEP_OF_SETUP.fullmatch(key) for key in keys}
    return {f"{step[2]}_{int(step[1])}": key for key, step in found.items() if step}


_SELECT: Mapping[str, Callable[[list[str], Log, Sidecar, str], dict[str, str]]] = {
    "forward": _outputs,
    "metric": _scores,
    "loss": lambda keys, *_: {"loss": "loss"} if "loss" in keys else {},  # that is trained with
    "bp_align": _losses,
    "train_align": _scores,
}
STEMS = tuple(_SELECT)  # in the order of the steps


def has_pair(stem: str) -> bool:
    """True where the guide asks for a pair of this name."""
    return stem in _SELECT


def full_stem(stem: str) -> str:
    """The stem of the full logs: the pair's and `_all`; its own where there is no pair."""
    return f"{stem}_all" if has_pair(stem) else stem


def _selected(stem: str, log: Log, sidecar: Sidecar, torch_log: Log) -> tuple[dict, dict]:
    """The guide's key -> the full log's, in the log's order; case's prefix there -> in the pair."""
    prefixes = list(sidecar.batches) or [""]
    of_case: dict[str, list[str]] = {prefix: [] for prefix in prefixes}
    for key in log:
        fitting = [prefix for prefix in prefixes if key.startswith(prefix)]
        if fitting and key not in sidecar.sums:
            prefix = max(fitting, key=len)
            of_case[prefix].append(key[len(prefix) :])
    selected = {
        prefix: _SELECT[stem](keys, log, sidecar, prefix) for prefix, keys in of_case.items()
    }
    for first in ("", prefixes[0]):  # not bare, where a bare key is another case's key as well
        called = {prefix: prefix for prefix in prefixes} | {prefixes[0]: first}
        pairs = [
            (called[prefix] + key, prefix + full)
            for prefix, keys in selected.items()
            for key, full in keys.items()
        ]
        if _SELECT[stem] is _scores:  # under a name that says so where it is over torch's
            over = [
                full in torch_log and is_no_share(key.rpartition("/")[2], float(torch_log[full]))
                for key, full in pairs
            ]
            pairs = [(k + _OVER * o, full) for (k, full), o in zip(pairs, over, strict=True)]
        if len(dict(pairs)) == len(pairs):
            break
    return dict(pairs), called


def bring_pair(folder: Path, stem: str, anew: bool = False) -> bool:
    """Select the pair of a stem in a result folder, where it is missing or from other logs.

    anew   write it even where it is there
    Returns False where the logs hold nothing that the guide asks for: then there is no pair.  Call
    `pair_problems` before, unless `anew`: what somebody has edited is not to be overwritten.
    """
    files = ResultFolder(folder)
    with ExitStack() as stack:
        selections = [_Selection(stack, files, stem, side) for side in SIDES]
        if not any(selection.keys for selection in selections):
            return False
        for selection in selections:
            if anew or not selection.is_there():
                selection.write()
    return True


def pair_problems(folder: Path, stem: str) -> list[str]:
    """Return what is wrong with a pair: what it holds, or says, and its full logs do not.

    A log of the pair that is missing, or was selected from another full log, is no problem: it is
    selected anew.
    """
    with ExitStack() as stack:
        selections = [_Selection(stack, ResultFolder(folder), stem, side) for side in SIDES]
        return [problem for selection in selections for problem in selection.problems()]


class _Selection:
    """The keys that one side's log of a pair takes of the full log, and the file that is there."""

    def __init__(self, stack: ExitStack, files: ResultFolder, stem: str, side: str):
        self.stem = stem
        self.path = files.log(stem, side)
        self.full_path = files.log(full_stem(stem), side)
        self.told = sidecar_of(self.full_path)
        paths = self.full_path, files.log(full_stem(stem), SIDES[0])
        self.logs = [stack.enter_context(read_log(path)) for path in paths]  # its own, and torch's
        self.keys, self.called = _selected(stem, self.logs[0], self.told, self.logs[1])

    def is_there(self) -> bool:
        """True where the file was selected from this very full log."""
        if not self.path.is_file():
            return False
        source = sidecar_of(self.path).selected
        return source.get("sha256") == self.told.log_sha256

    def write(self) -> None:
        with LogWriter(self.path) as writer:
            for key, full_key in self.keys.items():
                writer.add(key, guide_value(key, full_key, *self.logs))
        write_sidecar(self.path, self.sidecar(writer.sha256))

    def sidecar(self, sha256: str) -> Sidecar:
        """Return the pair's sidecar: the full log's for these keys, and where they are from."""
        told, nothing = self.told, Sidecar()
        source = {"log": self.full_path.name, "sha256": told.log_sha256, "keys": self.keys}
        without = {name: getattr(nothing, name) for name in _NOT_OF_A_PAIR}
        sidecar = replace(
            replace(told, **without),
            step=self.stem,
            log_sha256=sha256,
            selected=source,
            batches={self.called[prefix]: length for prefix, length in told.batches.items()},
            places={k: told.places[f] for k, f in self.keys.items() if f in told.places},
            classes={k: told.classes[f] for k, f in self.keys.items() if f in told.classes},
        )
        return replace(sidecar, seal=seal(sidecar))

    def problems(self) -> list[str]:
        name, full = self.path.name, self.full_path.name
        again = Kind.PAIR_SELECT_AGAIN(log=name, full=full)
        if not self.path.exists() and not self.path.is_symlink():
            return []
        sidecar = sidecar_of(self.path)
        if not sidecar.selected:
            return [Kind.PAIR_WITHOUT_SOURCE(log=name, again=again)]
        if not self.is_there():
            return []
        if sidecar.log_sha256 != file_sha256(self.path):
            return [Kind.PAIR_NOT_ITS_SIDECARS(log=name, again=again)]
        with read_log(self.path) as log:
            if list(log) != list(self.keys):
                odd = sorted(set(log).symmetric_difference(self.keys)) or list(log)
                key = printable(odd[0])
                return [Kind.PAIR_OF_OTHER_KEYS(log=name, full=full, key=key, again=again)]
            for key, full_key in self.keys.items():
                if not same_bits(log[key], np.asarray(guide_value(key, full_key, *self.logs))):
                    keys = {"key": printable(key), "full_key": printable(full_key)}
                    return [Kind.PAIR_OF_OTHER_VALUES(log=name, full=full, again=again, **keys)]
        if sidecar != self.sidecar(sidecar.log_sha256):
            return [Kind.PAIR_OF_ANOTHER_SIDECAR(stem=self.path.stem, full=full, again=again)]
        return []
