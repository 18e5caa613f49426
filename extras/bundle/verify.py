"""Verify a bundle that somebody handed in: neither framework is needed, nothing of it is executed.

    twincheck verify BUNDLE [--root ROOT] [--json FILE]

Every file is compared with the manifest, every verdict whose tensors are inside is derived again by
the rule, every line of reprod_log's reports is computed again, and the files are compared with what
they say of each other.  Python and NumPy do.  Exit status: 0 intact, aligned or not; 1 something
does not hold; 2 no bundle, or one that cannot be read.
"""

from collections.abc import Sequence
from pathlib import Path

from twincheck.common.system.json_file import write_json
from twincheck.common.system.program import Parser, guarded, say
from twincheck.common.system.words import escaped
from twincheck.extras.bundle import Kind
from twincheck.extras.bundle.verification import Verification, verify_bundle

_SHOWN = 20  # problems; --json has all
_GUIDE = {True: Kind.GUIDE_PASSED, False: Kind.GUIDE_NOT_PASSED, None: Kind.GUIDE_NOT_THERE}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "verify")
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help=Kind.OPTION_BUNDLE())
    parser.add_argument("--root", default="", metavar="ROOT", help=Kind.OPTION_ROOT())
    parser.add_argument("--json", type=Path, metavar="FILE", help=Kind.OPTION_JSON())
    options = parser.parse_args(arguments)
    return guarded(False, lambda: _verify(options))


def _verify(options) -> int:
    found = verify_bundle(options.bundle, options.root)
    if options.json is not None:
        write_json(options.json, found.as_json())
    _show(options.bundle, found, options.root)
    return 1 if found.problems else 0


def _list(problems: Sequence[str]) -> None:
    """Print the first problems, one a line."""
    for problem in problems[:_SHOWN]:
        say(Kind.FOUND_PROBLEM(problem=escaped(problem)))
    if len(problems) > _SHOWN:
        say(Kind.FOUND_PROBLEMS_MORE(more=len(problems) - _SHOWN))


def _show(path: Path, found: Verification, root: str) -> None:
    """Print what was found: the result first."""
    if found.changed:
        say(Kind.FOUND_CHANGED(path=str(path)))
        _list(found.problems)
        say(Kind.FOUND_CHANGED_ALONE())
        return
    aligned = sum(part["aligned"] for part in found.verdicts)
    intact = Kind.FOUND_INTACT(path=str(path), aligned=aligned, results=len(found.verdicts))
    say(Kind.FOUND_CONTRADICTION(path=str(path)) if found.problems else intact)
    _list(found.problems)
    for part in found.verdicts:
        told = {name: part[name] for name in ("part", "verdict", "rows")}
        say(Kind.FOUND_PART(**told, guide=_GUIDE[part["guide_passed"]]()))
    counted = {name: getattr(found, name) for name in Kind.FOUND_COUNTS.fields}
    say(Kind.FOUND_COUNTS(**counted))
    for reason, count in found.not_derived.items():
        say(Kind.FOUND_NOT_DERIVED(rows=count, reason=reason))
    for note in found.notes:
        say(Kind.FOUND_NOTE(note=escaped(note)))
    say(Kind.FOUND_COMMIT(commit=found.commit))
    say(Kind.FOUND_ROOT(root=found.root))
    if not root:
        say(Kind.ROOT_UNKNOWN())
