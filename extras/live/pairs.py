"""A pair's folder checked for a test: `twincheck stepN DIR` in a process of its own."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from twincheck.common.system.errors import UserError
from twincheck.extras.live.reference import verify
from twincheck.extras.live.result import NotChecked, Result


def checked(
    folder: Path, words: Sequence[str], steps: Sequence[int], reference, report: Path | None
) -> Iterator[Result]:
    """The result of each step, one after another.

    reference   a folder whose hashes are verified first
    Raises NotChecked, with one sentence, for what could not be compared.
    """
    out = report or folder / "log"
    more = [*words, "--out", str(out)]
    if reference is not None:
        try:
            verify(Path(reference))
        except UserError as error:
            raise NotChecked(str(error)) from None
        more += ["--reference", str(reference)]
    for step in steps:
        with tempfile.TemporaryDirectory(prefix="twincheck-") as work:
            answer = Path(work) / "result.json"
            command = [sys.executable, "-m", "twincheck", f"step{step}", str(folder)]
            command += [*more, "--json", str(answer)]
            done = subprocess.run(command, capture_output=True, text=True)
            document = json.loads(answer.read_text(encoding="utf-8")) if answer.is_file() else None
        if document is None or document["exit_code"] == 2:
            lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            told = lines[-1].removeprefix("error: ") if lines else ""
            told = told or document["findings"][0]["sentence"]
            raise NotChecked(f"step {step}: {told}")
        yield Result(document, out)
