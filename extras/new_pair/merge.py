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

from twincheck.common.system.errors import UserError
from twincheck.extras.new_pair import Kind

_MARKS = ("<<<<<<< yours", ">>>>>>> new translation")
_NO_CONFLICT, _MOST_CONFLICTS = 0, 127  # git's exit status is how many there are


@dataclass(frozen=True)
class Conflict:
    """A place where the user's edit and the new version change the same lines; both are kept."""

    file: Path
    line: int

    @property
    def reason(self) -> str:
        """Return what is to be done, as a sentence."""
        return Kind.CONFLICT(file=str(self.file), line=self.line)


def merge(
    former: Mapping[str, str], yours: Mapping[str, str], new: Mapping[str, str], folder: Path
) -> tuple[dict[str, str], tuple[Conflict, ...], tuple[str, ...]]:
    """Place -> text of the new version with the user's edits, its conflicts, whose edits were kept.

    former   place -> text as it was generated last
    yours    place -> text as it is now
    folder   what places are relative to, in what is said of conflicts
    Raises UserError where a conflict of the last time still stands.
    """
    texts, conflicts, kept = {}, [], []
    for place in sorted({*former, *new, *yours}):
        before, mine, after = former.get(place), yours.get(place), new.get(place)
        _refuse_marks(folder / place, mine or "")
        if mine is None or mine == before:  # new, or as it was generated; None: no longer needed
            text = after
        elif after is None or after in (before, mine):
            text = mine
        else:
            text, lines = _three_way(before or "", mine, after)
            conflicts += [Conflict(folder / place, line) for line in lines]
        if before is not None and mine not in (None, before, after):
            kept.append(place)
        if text is not None:
            texts[place] = text
    return texts, tuple(conflicts), tuple(kept)


def texts_in(folder: Path) -> dict[str, str]:
    """Place -> text of a folder's files, hidden ones left out."""
    found = {}
    for path in sorted(folder.rglob("*")) if folder.exists() else ():
        place = path.relative_to(folder)
        if not path.is_file() or "__pycache__" in place.parts or place.name[0] == ".":
            continue
        try:
            found[place.as_posix()] = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UserError(Kind.TEXT_UNREADABLE(file=str(path), error=str(error))) from None
    return found


def _refuse_marks(path: Path, text: str) -> None:
    for number, line in enumerate(text.splitlines(), 1):
        if line in _MARKS:
            raise UserError(Kind.CONFLICT_STANDS(file=str(path), line=number))


def _three_way(before: str, mine: str, after: str) -> tuple[str, list[int]]:
    """git's merge of a text, and the lines at which its conflicts begin."""
    git = shutil.which("git")
    if git is None:
        raise UserError(Kind.GIT_MISSING())
    with tempfile.TemporaryDirectory() as name:
        versions = {"yours": mine, "former translation": before, "new translation": after}
        labels, names = [], []
        for label, text in versions.items():
            labels += ["-L", label]
            names.append(Path(name, label))
            names[-1].write_text(text, encoding="utf-8")
        finished = subprocess.run(
            [git, "merge-file", "-p", "--diff3", *labels, *map(str, names)],
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
    if not _NO_CONFLICT <= finished.returncode <= _MOST_CONFLICTS:
        raise UserError(Kind.GIT_FAILED(error=finished.stderr.strip()[:300]))
    lines = finished.stdout.splitlines()
    return finished.stdout, [i for i, line in enumerate(lines, 1) if line == _MARKS[0]]
