"""Show one tensor of the last check on both sides, around its worst element.

    twincheck show KEY [--step N] [--model NAME|FOLDER] [--out DIR] [--around N]

KEY is a row's key, or an end or a part of it that no other key has.  Reads the logs that are there
and needs neither framework.  Exit status: 0 shown, 2 no such row.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from twincheck.common.check.options import Parser, natural
from twincheck.common.check.steps import Step
from twincheck.common.check_all import all_steps
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.logs.sums import sample_of
from twincheck.common.report.findings import place_of
from twincheck.common.report.terminal import describe, say
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import in_language, of_pairs
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.program import guarded
from twincheck.common.system.reasons import Kind
from twincheck.common.system.run_kind import RunKind
from twincheck.common.system.words import call_sides, printable
from twincheck.common.verdict.judge import judge_logs
from twincheck.common.verdict.row import Row

# Column -> side and run of its log, reference first.
_RUNS = {"32": RunKind.PLAIN, "64": RunKind.FLOAT64}
LOGS = {f"{side}{bits}": (side, run) for bits, run in _RUNS.items() for side in SIDES}
AROUND = 4  # elements on each side of the worst
CANDIDATES = 12  # keys that a sentence lists
BEFORE = 2  # rows above, in the order in which they were computed


@dataclass(frozen=True)
class StepLogs:
    """The logs of one step of one model."""

    step: Step
    model: str
    folder: Path
    stem: str

    def paths(self) -> dict[str, Path]:
        """Column -> log, of those that are there."""
        files = ResultFolder(self.folder)
        paths = {column: files.log(self.stem, *log) for column, log in LOGS.items()}
        return {column: path for column, path in paths.items() if path.is_file()}

    def keys(self) -> list[str]:
        """Every key of any of the logs, the reference's first."""
        keys: dict[str, None] = {}
        for path in self.paths().values():
            with read_log(path) as log:
                keys |= dict.fromkeys(log)
        return list(keys)


@of_pairs("--out", behind=1)
def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "show")
    parser.add_argument("key", metavar="KEY", help=Kind.HELP_SHOWN_KEY())
    parser.add_argument("--step", type=int, choices=range(1, 6), help=Kind.HELP_SHOWN_STEP())
    parser.take_other("model", action="store", help=Kind.HELP_SHOWN_MODEL())
    parser.take_other("out", help=Kind.HELP_SHOWN_OUT())
    parser.add_argument(
        "--around",
        type=natural,
        default=AROUND,
        metavar="N",
        help=Kind.HELP_AROUND(),
    )
    parser.take("debug")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _show(options))


def _show(options) -> int:
    steps = [step for step in all_steps() if options.step in (None, step.number)]
    sources = list(_step_logs(steps, options.model, options.out))
    if not sources:
        if options.model:
            raise UserError(Kind.LOGS_OF_MODEL_MISSING(model=options.model))
        raise UserError(Kind.LOGS_MISSING())
    source, key = find(options.key, sources)
    for line in shown(source, key, options.around):
        say(line)
    return 0


def _step_logs(steps: Sequence[Step], model: str | None, out: Path | None) -> Iterator[StepLogs]:
    wanted = Path(model).resolve().name if model else None
    for step in steps:
        base = out / step.name if out else step.folder / "log"
        for folder in sorted(base.glob("[!.]*")):
            for stem in step.judged if wanted in (None, folder.name) else ():
                source = StepLogs(step, folder.name, folder, stem)
                if source.paths():
                    yield source


def find(wanted: str, sources: Sequence[StepLogs]) -> tuple[StepLogs, str]:
    """The source and the key that `wanted` means, of the first step that has it.

    Raises UserError, with the candidates, where it means none or more than one.
    """
    keys = {source: source.keys() for source in sources}
    name = printable(wanted)
    parts = f"/{wanted}", f".{wanted}"  # whole names at the end of a key's path
    ways = (str.__eq__, lambda key, _: key.endswith(parts), str.endswith, str.__contains__)
    for fits in ways:
        fitting = [(source, key) for source in sources for key in keys[source] if fits(key, wanted)]
        if not fitting:
            continue
        step = fitting[0][0].step
        candidates = [(source, key) for source, key in fitting if source.step == step]
        models = sorted({source.model for source, _ in candidates})
        if len(models) > 1:
            raise UserError(Kind.KEY_OF_SEVERAL_MODELS(key=name, models=models))
        if len(candidates) == 1:
            return candidates[0]
        listed = ", ".join(printable(key) for _, key in candidates[:CANDIDATES])
        left = len(candidates) - CANDIDATES
        listed = Kind.AND_MORE(some=listed, count=left) if left > 0 else listed
        raise UserError(Kind.KEY_OF_SEVERAL_ROWS(key=name, count=len(candidates), keys=listed))
    every = [key for source in sources for key in keys[source]]
    near = get_close_matches(wanted, dict.fromkeys(every), n=3)
    if wanted.startswith(("init/", "train/drift")) or "witness/" in wanted:
        hint = Kind.KEY_IS_A_CLAIM()
    elif near:
        hint = Kind.KEYS_MEANT(keys=[printable(key) for key in near])
    else:
        hint = Kind.KEYS_OTHERS(count=len(every))
    raise UserError(Kind.KEY_UNKNOWN(key=name, hint=hint))


def shown(source: StepLogs, key: str, around: int) -> list[str]:
    """Lines for people on one tensor: its verdict, where it was computed, values, rows above."""
    with ExitStack() as stack:
        logs = {c: stack.enter_context(read_log(path)) for c, path in source.paths().items()}
        arrays = {column: log[key] for column, log in logs.items() if key in log}
    rows = []
    if {"torch32", "paddle32"} <= source.paths().keys():
        paths = ResultFolder(source.folder).judged_logs(source.stem)
        rows = judge_logs(**paths, step=source.step.number, model=source.model).rows
    at = next((i for i, row in enumerate(rows) if row.key == key), None)
    row = rows[at] if at is not None else None
    verdict = Kind.PASSED_OVER() if rows else Kind.NOT_JUDGED()
    told = {"key": printable(key), "verdict": verdict if row is None else row.verdict}
    lines = [Kind.SHOWN_TENSOR(step=source.step.number, model=source.model, **told)]
    lines += [f"  {line}" for line in _shapes(arrays, logs)]
    if row is not None and arrays and row.shape not in {array.shape for array in arrays.values()}:
        large = Kind.TENSOR_LARGE(shape=str(list(row.shape)), count=sample_of(row.shape))
        lines.append(f"  {in_language(large)}")
    if row is not None:
        lines += [f"  {in_language(line)}" for line in describe(row)]
    for side in SIDES:
        sidecar = sidecar_of(ResultFolder(source.folder).log(source.stem, side))
        call_sides((sidecar.against or SIDES[0], sidecar.candidate or SIDES[1]))
        lines.append(f"  {side:<7} {place_of(sidecar.places, key)}")
    lines += ["", *_values(arrays, row, around)]
    if at:
        lines += ["", Kind.ROWS_BEFORE()]
        for above in rows[max(0, at - BEFORE) : at]:
            lines.append(f"  {above.verdict:<10}{printable(above.key)}")
    return lines


def _shapes(arrays: Mapping[str, np.ndarray], logs: Mapping) -> list[str]:
    """What each log holds; one line where all are alike."""
    kinds = {(array.dtype.kind, array.shape) for array in arrays.values()}
    if len(kinds) == 1 and len(arrays) == len(logs):
        shape = list(next(iter(arrays.values())).shape)
        dtypes = dict.fromkeys(str(array.dtype) for array in arrays.values())
        return [in_language(Kind.TENSOR_OF(shape=str(shape), dtypes=list(dtypes)))]
    lines = [f"{c:<9} {array.dtype}{list(array.shape)}" for c, array in arrays.items()]
    gone = in_language(Kind.TENSOR_NOT_THERE())
    return lines + [f"{column:<9} {gone}" for column in logs if column not in arrays]


def _values(arrays: Mapping[str, np.ndarray], row: Row | None, around: int) -> list[str]:
    """Both sides along the last axis around the worst element, then the rows beside it."""
    columns = {column: array.astype(np.float64) for column, array in arrays.items()}
    if len({array.shape for array in arrays.values()}) != 1:
        starts = {c: values.reshape(-1)[: 2 * AROUND + 1] for c, values in columns.items()}
        told = {c: [f"{value:.6g}" for value in start] for c, start in starts.items()}
        shapes = {c: str(list(arrays[c].shape)) for c in told}
        return [Kind.TENSOR_STARTS(column=c, shape=shapes[c], values=told[c]) for c in told]
    index = worst_index(arrays, row)
    shape = next(iter(arrays.values())).shape
    columns |= _differences(arrays)
    start = max(0, index[-1] - around) if shape else 0
    stop = min(shape[-1], index[-1] + around + 1) if shape else 1
    lines = [" " * 18 + "".join(f"{name:>14}" for name in columns)]
    for i in range(start, stop):
        here = (*index[:-1], i) if shape else ()
        mark = ">" if here == index else " "
        numbers = "".join(f"{values[here]:>14.6g}" for values in columns.values())
        lines.append(f"{mark} {str(list(here)):<16}{numbers}")
    difference = next((columns[n] for n in ("diff64", "diff32") if n in columns), None)
    if len(shape) > 1 and difference is not None:
        lines += ["", Kind.DIFFERENCE_BESIDE()]
        for r in range(max(0, index[-2] - 1), min(shape[-2], index[-2] + 2)):
            numbers = "".join(f"{v:>14.6g}" for v in difference[(*index[:-2], r)][start:stop])
            mark = ">" if r == index[-2] else " "
            at = f"[{', '.join(map(str, (*index[:-2], r)))}, {start}:{stop}]"
            lines.append(f"{mark} {at:<16}{numbers}")
    return lines


def worst_index(arrays: Mapping[str, np.ndarray], row: Row | None = None) -> tuple[int, ...]:
    """Where to look: the verdict's own worst element, else the first that is not finite on one
    side, else the largest difference."""
    shape = next(iter(arrays.values())).shape
    if row is not None and row.worst_index is not None and row.shape == shape:
        return tuple(int(i) for i in row.worst_index)
    for off in _differences(arrays).values():
        broken = ~np.isfinite(off)
        if off.any():
            flat = np.argmax(broken if broken.any() else np.abs(off))
            return tuple(int(i) for i in np.unravel_index(flat, shape))
    return (0,) * len(shape)


def _differences(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """torch - paddle, in the precisions that both sides have."""
    found = {}
    for bits in ("64", "32"):
        pair = [arrays[f"{side}{bits}"] for side in SIDES if f"{side}{bits}" in arrays]
        if len(pair) == 2:
            with np.errstate(invalid="ignore"):  # infinity minus infinity
                found[f"diff{bits}"] = np.subtract(*pair, dtype=np.float64)
    return found
