"""Run a bundle's checks again in this checkout, and compare what comes out with what is in it.

Nothing of the bundle is executed: of it are taken numbers and names, such as the seed, and each is
looked at as those of any request are.  Built-in models come from this checkout, a user's own pair
from the folder that is named here.
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path

from twincheck.common.check.options import CheckOptions
from twincheck.common.check.record import ASKED
from twincheck.common.check.result import Result
from twincheck.common.check.runner import run_step
from twincheck.common.check_all import all_steps
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.pairs import MODELS, built_in_models, is_checkpoint, load_pair
from twincheck.common.pair.request import RunRequest
from twincheck.common.report import terminal as report
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.hashes import same_bits
from twincheck.common.system.json_file import parse_json
from twincheck.common.system.run_kind import RunKind
from twincheck.common.system.words import printable
from twincheck.common.verdict.context import Context
from twincheck.common.verdict.row import AGREEING
from twincheck.common.verdict.tensor import judge_tensor
from twincheck.extras.bundle import Kind
from twincheck.extras.bundle.plan import ROWS
from twincheck.extras.bundle.verification import Verification
from twincheck.extras.shared.archive import Archive

# What one side's tensor of then and of now is where rounding explains what differs.
_BY_ROUNDING = (*AGREEING, "CLOSE", "PRECISION")


def rerun(bundle: Path, pairs: Sequence[Path], found: Verification) -> None:
    """Run every part of a verified bundle again, and add to what verifying it found.

    pairs   the folders of users' own pairs; those of others are not run
    """
    steps = {step.name: step for step in all_steps()}
    own = {pair.name: pair for pair in (load_pair(str(path)) for path in pairs)}
    with tempfile.TemporaryDirectory(prefix="rerun-") as name, Archive(bundle) as archive:
        folder = Path(name)
        manifest, _ = archive.manifest()
        for entry in archive.entries:
            if entry != "manifest.json":
                archive.unpack(entry, folder / "bundle")
        for part in manifest["parts"]:
            title = f"{part['step']}, {printable(part['model'])}"
            step = steps.get(part["step"])
            asked = part.get("asked", {})
            try:
                model = _model(part, own)
                if step is None:
                    raise UserError(Kind.OTHER_CHECK())
                options = _options(asked, model, manifest, folder / "again")
                with report.progress() as on_progress:
                    result = run_step(step, options.taken_by(step.takes), on_progress)[0]
                if result.error:
                    raise UserError(result.error)
            except UserError as error:
                found.notes.append(Kind.NOT_RUN_AGAIN(part=title, reason=str(error)))
                continue
            _compare(part, folder / "bundle", result, title, found)


def _model(part: Mapping, own: Mapping) -> str:
    """What --model takes for a part's model, in this checkout; raises UserError."""
    name = part["model"]
    if part.get("asked", {}).get("built_in") is True and name in built_in_models():
        return str(MODELS / name)
    if name in own:
        return own[name].model
    raise UserError(Kind.OTHER_PAIR())


def _options(asked: Mapping, model: str, manifest: Mapping, out: Path) -> CheckOptions:
    """The options of the same check; raises UserError for a request that none could make."""
    told = {name: asked[name] for name in ASKED if name in asked}
    if is_checkpoint(told.get("weights")):  # who knows where it is here
        raise UserError(Kind.OTHER_WEIGHTS())
    request = RunRequest.of({"model": model, **told}, Kind.THIS_BUNDLE())
    return CheckOptions(
        run=replace(request, model=""),
        models=(model,),
        out=out,
        strict=bool(manifest["strict"]),
        allow=tuple(w for w in ("precision", "undecided", "nan") if w in manifest["allow"]),
        no_report=True,
    )


def _compare(part: Mapping, bundle: Path, result: Result, title: str, found: Verification) -> None:
    """Rows' verdicts and the tensors that are inside, against those of now."""
    folder = bundle / part["folder"]
    lines = (folder / ROWS).read_bytes().splitlines()
    rows = {row["key"]: row for row in (parse_json(line, ROWS) for line in lines)}
    now = {row.key: row for row in result.rows}
    odd = sorted(rows.keys() ^ now.keys())
    if odd:
        where = Kind.IN_THE_BUNDLE() if odd[0] in rows else Kind.NOW()
        said = {"part": title, "count": len(odd), "key": printable(odd[0]), "where": where}
        found.problems.append(Kind.AGAIN_ROWS_ONCE(**said))
    others = [key for key in rows if key in now and rows[key]["verdict"] != now[key].verdict]
    alike = {*AGREEING, "FLIP"}  # which of them it is may be rounding's choice on another machine
    wrong = [k for k in others if not {rows[k]["verdict"], now[k].verdict} <= alike]
    for key in wrong[:5]:
        said = {"part": title, "key": printable(key), "now": now[key].verdict}
        found.problems.append(Kind.AGAIN_OTHER_VERDICT(**said, then=rows[key]["verdict"]))
    _compare_tensors(part, folder, result, title, found)
    same = len(rows) - len(odd) - len(others)
    found.notes.append(Kind.AGAIN_SAME_VERDICTS(part=title, same=same, count=len(rows)))


def _compare_tensors(part, folder: Path, result: Result, title: str, found: Verification) -> None:
    """Tensors must be the same bits, or the same function's but for rounding on another machine."""
    bits = rounding = 0
    scales: dict[str, float] = {}  # key -> S of its group, of the rows of now
    for memo in result.memos.values():
        groups = memo.scales or {}
        scales |= {str(key): groups[key.group] for _, key in memo.made if key.group in groups}
    for stem, side in product(part["stems"], SIDES):
        _note_sources(folder, result.folder, stem, side, title, found)
        with ExitStack() as stack:
            paths = [
                ResultFolder(base).log(stem, side, run)
                for run in (RunKind.PLAIN, RunKind.FLOAT64)
                for base in (folder, result.folder)
            ]
            logs = [stack.enter_context(read_log(p)) if p.is_file() else {} for p in paths]
            for key in logs[0]:
                arrays = [log.get(key) for log in logs]
                if arrays[1] is None:
                    continue  # a row that is there once only
                context = Context(kind_scale=scales.get(key), allow_nan=True)
                if all(
                    a is b if a is None or b is None else same_bits(a, b)
                    for a, b in (arrays[:2], arrays[2:])
                ):
                    bits += 1
                elif judge_tensor(key, *arrays, context).verdict in _BY_ROUNDING:
                    rounding += 1
                else:
                    said = {"part": title, "side": side, "key": printable(key)}
                    found.problems.append(Kind.AGAIN_OTHER_TENSOR(**said))
    found.notes.append(Kind.AGAIN_SAME_BITS(part=title, bits=bits, rounding=rounding))


def _note_sources(
    old: Path, new: Path, stem: str, side: str, title: str, found: Verification
) -> None:
    """Say where the model's files, or the versions, are not those of the bundle."""
    told = [sidecar_of(ResultFolder(f).log(stem, side)) for f in (old, new)]
    if told[0].sources != told[1].sources:
        found.notes.append(Kind.AGAIN_OTHER_SOURCES(part=title, side=side))
    then, now = (printable(f"{s.framework} {s.framework_version}") for s in told)
    if then != now:
        found.notes.append(Kind.AGAIN_OTHER_VERSION(part=title, now=now, then=then))
