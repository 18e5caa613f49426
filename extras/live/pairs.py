"""A pair's folder checked for a test: `twincheck stepN DIR` in a process of its own."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from twincheck.common.check.reuse import differing_reference, find_reference
from twincheck.common.check_all import all_steps
from twincheck.common.pair.pairs import load_pair
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import mapped, read_reason
from twincheck.extras.live import Kind
from twincheck.extras.live.result import NotChecked, Result, last_said, shown


def checked(
    folder: Path, words: Sequence[str], numbers: Sequence[int], reference, report: Path | None
) -> Iterator[Result]:
    """The result of each step, one after another.

    reference   a folder of torch's logs
    Raises NotChecked, with one sentence, for what could not be compared.
    """
    steps = {step.number: step for step in all_steps()}
    unknown = [number for number in numbers if number not in steps]
    if unknown:
        raise NotChecked(Kind.STEP_UNKNOWN(step=str(unknown[0])))
    out = report or folder / "log"
    more = [*words, "--out", str(out)]
    try:
        pair = load_pair(str(folder))
        if report is not None:
            _keep(pair.folder, report)
        if reference is not None:
            more += ["--reference", str(_verified(Path(reference), pair, map(steps.get, numbers)))]
    except UserError as error:
        raise NotChecked(mapped(str(error), shown)) from None
    for number in numbers:
        yield Result(_document(number, folder, more), out / steps[number].name)


def _verified(reference: Path, pair, steps) -> Path:
    """A reference of the sources that are here, whose logs are as their sidecars describe them.

    A check alone would only note that they are others; a test must not pass on an old reference.
    """
    for step in steps:
        differs = differing_reference(find_reference(reference.absolute(), step, pair), pair)
        if differs:
            said = {"folder": str(reference), "why": differs}
            again = to_type("reference", pair.folder, "--out", reference)
            raise UserError(Kind.REFERENCE_DIFFERS(**said, command=again))
    return reference


def _keep(folder: Path, report: Path) -> None:
    """Have the page of all tests know the pair (plugin.py)."""
    link = report / "pair" / folder.name
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(folder)
    elif link.resolve() != folder.resolve():
        raise UserError(Kind.PAIR_OF_SAME_NAME(pair=str(folder), other=str(link.resolve())))


def _document(number: int, folder: Path, words: Sequence[str]) -> dict:
    with tempfile.TemporaryDirectory(prefix="twincheck-") as work:
        answer = Path(work) / "result.json"
        command = [sys.executable, "-m", "twincheck", f"step{number}", str(folder), *words]
        command += ["--json", str(answer)]
        done = subprocess.run(command, capture_output=True, text=True)
        document = json.loads(answer.read_text(encoding="utf-8")) if answer.is_file() else None
    if document is None:  # the command line could not be read
        raise NotChecked(Kind.OF_STEP(step=number, said=shown(last_said(done.stderr))))
    if document["exit_code"] == 2:
        told = read_reason(*document["findings"][0]["reasons"])
        raise NotChecked(Kind.OF_STEP(step=number, said=mapped(told, shown)))
    return document
