"""Verify a bundle that somebody handed in: neither framework is needed, nothing of it is executed.

    twincheck verify BUNDLE [--root ROOT] [--rerun] [--json FILE]

Every file is compared with the manifest, every verdict whose tensors are inside is derived again by
the rule, every line of reprod_log's reports is computed again, and the files are compared with what
they say of each other.  Python and NumPy do.  Exit status: 0 intact, aligned or not; 1 something
does not hold; 2 no bundle, or one that cannot be read.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from twincheck.common.logs.pickle_machine import escaped
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import fill_standard_streams
from twincheck.common.system.json_file import write_json
from twincheck.common.system.words import number_of
from twincheck.extras.bundle.verification import Verification, verify_bundle
from twincheck.extras.shared.spoken import Parser, say, say_error

_SHOWN = 20  # problems; --json has all


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    options = _parser().parse_args(arguments)
    fill_standard_streams()
    try:
        return _verify(options)
    except BrokenPipeError:  # nobody reads on; nor may Python complain of it when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except UserError as error:
        say_error(escaped(str(error)))
    except OSError as error:
        say_error(f"{error.strerror or error}: {error.filename}")
    except KeyboardInterrupt:
        say_error("stopped: nothing was written")
    return 2


def _parser() -> Parser:
    parser = Parser("verify", __doc__)
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="the file: log/bundle.zip")
    parser.add_argument(
        "--root", default="", metavar="ROOT", help="what its author says it is: --root 3fa9…"
    )
    parser.add_argument(
        "--rerun",
        action="store_true",
        help="also run the recorded checks again here, with both frameworks, and compare",
    )
    parser.add_argument(
        "--pair",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="of --rerun, your copy of a pair that is not built in: --pair my_model",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write all that was found: --json found.json"
    )
    return parser


def _verify(options) -> int:
    found = verify_bundle(options.bundle, options.root)
    if options.rerun and found.problems:
        found.notes.append("not run again: what is there was changed, or contradicts itself")
    elif options.rerun:
        # For this alone are the checks, and with them the frameworks, needed.
        from twincheck.extras.bundle.again import rerun

        rerun(options.bundle, options.pair, found)
    if options.json is not None:
        write_json(options.json, found.as_json())
    _show(options.bundle, found, options.root)
    return 1 if found.problems else 0


def _list(problems: Sequence[str]) -> None:
    """Print the first problems, one a line."""
    for problem in problems[:_SHOWN]:
        say(f"  {escaped(problem)}")
    if len(problems) > _SHOWN:
        say(f"  and {len(problems) - _SHOWN:,} more (--json has all)")


def _show(path: Path, found: Verification, root: str) -> None:
    """Print what was found: the result first."""
    if found.changed:
        say(f"{path}: CHANGED since it was written")
        _list(found.problems)
        say("Nothing else of it was judged: ask its author for the bundle, and for its root.")
        return
    aligned = sum(part["aligned"] for part in found.verdicts)
    intact = f"intact; {aligned} of {number_of(len(found.verdicts), 'result')} aligned"
    say(f"{path}: {'something does not hold' if found.problems else intact}")
    _list(found.problems)
    for part in found.verdicts:
        guide = {True: "passed", False: "not passed", None: "none there"}[part["guide_passed"]]
        rows = number_of(part["rows"], "row")
        said = f"{part['verdict']}, {rows}; the guide's rule on its own keys: {guide}"
        say(f"  {part['part']}: {said}")
    say(
        f"{number_of(found.files, 'file')}; {number_of(found.rows, 'row')}, {found.derived:,} "
        f"derived again from their tensors; {found.lines:,} lines of reports computed again; "
        f"{found.arrays:,} of the guide's values are the logs' own, bit by bit"
    )
    for reason, count in found.not_derived.items():
        say(f"not derived again, {number_of(count, 'row')}: {reason}")
    for note in found.notes:
        say(f"note: {escaped(note)}")
    say(f"commit: {found.commit}")
    say(f"root:   {found.root}")
    if not root:
        say("Another root than the author tells you means another bundle: compare the two.")
