"""A loop that mends a port from --json alone, by two fixed rules and no judgement of its own.

It stands for the coding agent of docs/for-programs.md: what it can mend, one can that understands.

1. An edit that the document proposes is made.
2. Else Paddle's line becomes torch's, as the table of spellings has it: the line that is named,
   then those shown around it, the nearest first.

An edit stays where the finding is gone behind it, and is taken back where it is not.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tools.twins import translate

MOST = 20  # checks


def mend(check: Callable[[], dict]) -> list[dict]:
    """Edit until nothing is found, or nothing is left to try; returns the edits that stayed."""
    document, kept, tried = check(), [], set()
    for _ in range(MOST):
        asked = next((one for one in proposals(document) if _name(one[1]) not in tried), None)
        if asked is None:
            break
        finding, edit = asked
        tried.add(_name(edit))
        put(edit, edit["old"], edit["new"])
        after = check()
        if after["exit_code"] < 2 and not _is_listed(finding, after):
            document = after
            kept.append(edit)
        else:
            put(edit, edit["new"], edit["old"])
    return kept


def proposals(document: Mapping) -> Iterator[tuple[dict, dict]]:
    """(finding, edit) of all that the rules know of, the first finding's first."""
    for finding in document["findings"]:
        for edit in finding["edits"] or _spelled(finding):
            yield finding, edit


def _spelled(finding: Mapping) -> Iterator[dict]:
    """Torch's lines in the place of Paddle's that stand as far from the line that is named."""
    torch, paddle = finding["torch"], finding["paddle"]
    if not (torch and paddle and torch["lines"] and paddle["lines"]):
        return
    reference = {line["number"] - torch["line"]: line["text"] for line in torch["lines"]}
    for line in sorted(paddle["lines"], key=lambda one: abs(one["number"] - paddle["line"])):
        new = translate(reference.get(line["number"] - paddle["line"], line["text"]))
        if new != line["text"]:
            place = {"file": paddle["file"], "line": line["number"]}
            yield place | {"old": line["text"], "new": new}


def put(edit: Mapping, old: str, new: str) -> None:
    """Put a line in the place of another, which must be there."""
    path, at = Path(edit["file"]), edit["line"] - 1
    lines = path.read_text().split("\n")
    assert lines[at] == old, f"{path}:{edit['line']} is {lines[at]!r}, not {old!r}"
    lines[at] = new
    path.write_text("\n".join(lines))


def _name(edit: Mapping) -> tuple:
    return edit["file"], edit["line"], edit["new"]


def _is_listed(finding: Mapping, document: Mapping) -> bool:
    """True where a document still has the finding, by its key or behind another's."""
    listed = [f["key"] for f in document["findings"]]
    return finding["key"] in listed + [p["key"] for f in document["findings"] for p in f["further"]]
