"""A new version of generated files, and what the user has edited in the former one.

Three versions of a file: the former as it was generated, the user's, and the new one.  Where only
one of them has changed, it is taken; where both have, git merges them line by line.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common.system.errors import UserError

_MARKS = ("<<<<<<< yours", ">>>>>>> new translation")
_NO_CONFLICT, _MOST_CONFLICTS = 0, 127  # git's exit status is how many there are


@dataclass(frozen=True)
class Conflict:
    """A place where the user's edit and the new version change the same lines; both are kept."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: your edit and the new translation differ; keep one"


def merge(
    former: Mapping[str, str], folder: Path, new: Mapping[str, str], finished: Path
) -> tuple[list[Conflict], list[str]]:
    """Write the new version into `finished`, with what the user has edited or added in `folder`.

    former   place -> text as it was generated last
    Returns the conflicts, under the names that their files have in `folder`, and the places whose
    edits were kept.  Raises UserError where a conflict of the last time still stands.
    """
    yours = _texts(folder)
    conflicts, kept = [], []
    for place in sorted({*former, *new, *yours}):
        before, mine, after = former.get(place), yours.get(place), new.get(place)
        if mine is None:
            text = after  # new, or removed by the user and wanted again by an import
        elif before is not None and mine == before:
            text = after
        else:
            text = mine
            kept.append(place)
            if after is not None and before is not None and after not in (before, mine):
                text, lines = _three_way(before, mine, after)
                conflicts += [Conflict(folder / place, line) for line in lines]
            elif after is not None and before is None and after != mine:
                text, lines = _three_way("", mine, after)
                conflicts += [Conflict(folder / place, line) for line in lines]
        if text is not None:
            target = finished / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    return conflicts, kept


def _texts(folder: Path) -> dict[str, str]:
    """Place -> text of the folder's files; raises UserError for one with marks of a conflict."""
    found = {}
    for path in sorted(folder.rglob("*")) if folder.exists() else ():
        place = path.relative_to(folder)
        if not path.is_file() or "__pycache__" in place.parts or place.name[0] == ".":
            continue
        try:
            found[place.as_posix()] = text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read as text: {error}") from None
        for number, line in enumerate(text.splitlines(), 1):
            if line in _MARKS:
                raise UserError(
                    f"{path}:{number}: a conflict of the last --update still stands here: keep one "
                    "of both versions, remove the marks, and start again"
                )
    return found


def _three_way(before: str, mine: str, after: str) -> tuple[str, list[int]]:
    """git's merge of a text, and the lines at which its conflicts begin."""
    git = shutil.which("git")
    if git is None:
        raise UserError("--update merges your edits with git, which is not installed")
    with tempfile.TemporaryDirectory() as name:
        names = []
        for version, text in (("yours", mine), ("former", before), ("new", after)):
            names.append(Path(name, version))
            names[-1].write_text(text, encoding="utf-8")
        labels = [
            part
            for label in ("yours", "former translation", "new translation")
            for part in ("-L", label)
        ]
        finished = subprocess.run(
            [git, "merge-file", "-p", "--diff3", *labels, *map(str, names)],
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
    if not _NO_CONFLICT <= finished.returncode <= _MOST_CONFLICTS:
        raise UserError(f"git merge-file failed: {finished.stderr.strip()[:300]}")
    lines = finished.stdout.splitlines()
    return finished.stdout, [i for i, line in enumerate(lines, 1) if line == _MARKS[0]]
