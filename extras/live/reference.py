"""Make torch's logs of a pair once, for checks where no torch is.

    twincheck reference DIR [--out DIR/reference] [--torch-python PATH]

Runs the torch side alone, of step 1, and of steps 3 and 4 where the pair has a loss.  The logs, the
weights and the inputs go into DIR/reference, with the SHA-256 of each file and one of all of them,
the root, in manifest.json.  A check takes them with --reference DIR/reference and runs Paddle
alone; the fixture `twincheck` of pytest verifies the hashes first.

Exit status: 0 made, 2 not.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from twincheck.common.check.options import Parser
from twincheck.common.check.steps import Step
from twincheck.common.check_all import all_steps
from twincheck.common.pair.pairs import Pair, load_pair, python_for
from twincheck.common.pair.request import RunRequest
from twincheck.common.pair.worker_process import WorkerProcess
from twincheck.common.report import terminal
from twincheck.common.system.door import shown, to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.folders import put_in_place, working_folder
from twincheck.common.system.hashes import file_sha256
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.program import guarded
from twincheck.extras.live import Kind

MANIFEST = "manifest.json"
STEPS = (1, 3, 4)  # those that take the pair's own inputs


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "reference")
    parser.add_argument("pair", metavar="DIR", help=Kind.OPTION_PAIR())
    parser.add_argument("--out", type=Path, metavar="DIR", help=Kind.OPTION_OUT())
    given = parser.take("torch-python", "debug").parse_args(arguments)
    return guarded(given.debug, lambda: _made(given))


def _made(given) -> int:
    pair = load_pair(given.pair)
    target = (given.out or pair.folder / "reference").absolute()
    python = python_for("torch", given.torch_python, [pair])
    steps = [step for step in all_steps() if step.number in STEPS and not step.why_not(pair)]
    target.parent.mkdir(parents=True, exist_ok=True)
    with working_folder(target.parent) as work:
        with terminal.progress() as on_progress:
            for step in steps:
                _run(step, pair, python, work / "made", on_progress)
        root = seal(work / "made")
        put_in_place(work / "made", target)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    said = {"steps": [str(step.number) for step in steps], "megabytes": size / 1e6}
    terminal.say(Kind.REFERENCE_MADE(**said, folder=shown(target), root=root))
    terminal.say(f"  {to_type('step1', given.pair, '--reference', target)}")
    return 0


def _run(step: Step, pair: Pair, python: str, out: Path, on_progress) -> None:
    """The torch side's runs of one step; raises UserError where one fails."""
    folder = out / step.name / pair.name
    with WorkerProcess(python, step.module("torch"), on_progress) as process:
        for number, launch in enumerate(step.launches):
            path = folder / f"request_torch_{number}.json"
            request = RunRequest(pair.model, keep="all", progress=True, **launch.request)
            process.ask(request, path)
            process.finish()
            path.unlink()


def seal(folder: Path) -> str:
    """Write what is in the folder, with hashes; returns the root."""
    files = hashes(folder)
    root = _root(files)
    write_json(folder / MANIFEST, {"files": files, "root": root})
    return root


def hashes(folder: Path) -> dict[str, str]:
    """Name below the folder -> SHA-256 of every file but the manifest."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    return {name: file_sha256(path) for name, path in names.items() if name != MANIFEST}


def _root(files: dict[str, str]) -> str:
    text = "".join(f"{name} {digest}\n" for name, digest in sorted(files.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def verify(folder: Path) -> str:
    """The root of a reference whose files are as they were made; raises UserError where not."""
    path = folder / MANIFEST
    if not path.is_file():
        said = {"folder": str(folder), "manifest": MANIFEST, "command": to_type("reference")}
        raise UserError(Kind.MANIFEST_MISSING(**said))
    told, now = load_json(path), hashes(folder)
    known = told.get("files")
    if not isinstance(known, dict) or told.get("root") != _root(known):
        raise UserError(Kind.ROOT_CHANGED(manifest=str(path)))
    for name in sorted({*known, *now}):
        if known.get(name) != now.get(name):
            kind = Kind.FILE_CHANGED if name in known else Kind.FILE_ADDED
            kind = kind if name in now else Kind.FILE_REMOVED
            raise UserError(kind(file=str(folder / name)))
    return told["root"]
