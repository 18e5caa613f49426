"""Lines of a user's functions that no run of a check has run: what a green shows nothing of."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from twincheck.common.logs.sidecar import together_not_run
from twincheck.common.report.commands import shown
from twincheck.common.report.source_lines import source_context
from twincheck.common.system.reasons import Kind, Reason
from twincheck.common.system.words import printable

_SHOWN_FILES = 3  # by name in one line
_SHOWN_RANGES = 8


def lines_not_run(results: Sequence) -> dict[str, dict[str, list[int]]]:
    """Return model -> file -> lines that neither side has run in any of a model's results."""
    found: dict[str, dict[str, list[int]]] = {}
    for model in dict.fromkeys(result.model for result in results):
        some = [result for result in results if result.model == model]
        for file, functions in together_not_run([one.not_run for one in some]).items():
            lines = sorted({line for rest in functions.values() for line in rest})
            if lines:
                found.setdefault(model, {})[file] = lines
    return found


def never_ran(files: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, Reason]]:
    """(file, what is to be known of its lines) of those that did not run."""
    for file, lines in files.items():
        ranges = list(_ranges(lines))
        ranges[_SHOWN_RANGES:] = ["…"] if ranges[_SHOWN_RANGES:] else []
        kind = Kind.LINES_NEVER_RAN if lines[1:] else Kind.LINE_NEVER_RAN
        yield file, kind(file=printable(shown(Path(file))), lines=ranges)


def in_short(results: Sequence) -> str:
    """Return how many lines of which files did not run; empty where all did."""
    found = [each for files in lines_not_run(results).values() for each in files.items()]
    if found[_SHOWN_FILES:]:
        return Kind.NOT_RUN_IN_FILES(count=sum(len(ls) for _, ls in found), files=len(found))
    names = [Kind.NOT_RUN_OF(count=len(ls), file=printable(Path(file).name)) for file, ls in found]
    return Kind.NOT_RUN(files=names) if names else ""


def source_of(file: str, lines: Sequence[int], most: int = 60) -> list[tuple[int, str, bool]]:
    """The text of the first of these lines: number, text, whether none before it is left out."""
    found = []
    for number in lines[:most]:
        found += [(one.number, one.text) for one in source_context(f"{file}:{number}", 0, 0)]
    return [(number, text, number - 1 not in dict(found)) for number, text in found]


def _ranges(lines: Sequence[int]) -> Iterator[str]:
    start = lines[0]
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        if following != line + 1:
            yield f"{start}-{line}" if line > start + 1 else str(start)
            if line == start + 1:
                yield str(line)
            start = following
