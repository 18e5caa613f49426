"""Judge any two logs, without either framework.

    twincheck compare REF.npy CAND.npy [--ref64 A.npy --cand64 B.npy] [--json FILE]

REF is the reference's float32 log (torch), CAND the candidate's (paddle); what reprod_log wrote
will do.  With both float64 logs every row gets the full verdict, without them none is better than
CLOSE.  Two logs that one framework wrote, as their sidecars tell, or that hold the same bytes with
no sidecars to say that two did, show nothing and are refused, unless --allow same says that this is
meant.  Exit status: 0 aligned, 1 not aligned, 2 could not be compared.
"""

from collections.abc import Sequence
from pathlib import Path

from twincheck.common.check.options import Parser
from twincheck.common.logs.independence import check_independence, from_one_side
from twincheck.common.logs.sidecar import Sidecar, sidecar_of
from twincheck.common.report import terminal as report
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import in_language
from twincheck.common.system.json_file import write_json
from twincheck.common.system.program import guarded
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.judge import Judgement, judge_logs
from twincheck.common.verdict.row import first_bad_row


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "compare")
    parser.add_argument("ref", type=Path, metavar="REF.npy", help=Kind.HELP_REF())
    parser.add_argument("cand", type=Path, metavar="CAND.npy", help=Kind.HELP_CAND())
    parser.add_argument("--ref64", type=Path, metavar="A.npy", help=Kind.HELP_REF64())
    parser.add_argument("--cand64", type=Path, metavar="B.npy", help=Kind.HELP_CAND64())
    parser.take_other("allow", choices=("same",), help=Kind.HELP_ALLOW_SAME())
    options = parser.take("strict", "json", "debug").parse_args(arguments)
    return guarded(options.debug, lambda: _compare(options))


def _compare(options) -> int:
    if (options.ref64 is None) != (options.cand64 is None):
        raise UserError(Kind.FLOAT64_LOG_ALONE())
    pairs = [(options.ref, options.cand)]
    if options.ref64 is not None:
        pairs.append((options.ref64, options.cand64))
    for pair in pairs if "same" not in options.allow else ():
        found = from_one_side(*pair, *map(sidecar_of, pair))
        if found:  # that they agree shows nothing
            raise UserError(Kind.LOGS_SHOW_NOTHING(found=found))
    judgement = judge_logs(
        *(options.ref, options.cand, options.ref64, options.cand64), step=0, strict=options.strict
    )
    notes = [note for pair in pairs for note in _who_made_them(*pair)]
    judgement.notes = list(dict.fromkeys(notes + judgement.notes))
    if options.json is not None:
        write_json(options.json, judgement.as_json())
    _show(judgement, options)
    return judgement.exit_code


def _who_made_them(ref: Path, cand: Path) -> list[str]:
    """What is known about who made two logs; notes here, where check_stepN.py would refuse."""
    sidecars = [sidecar_of(ref), sidecar_of(cand)]
    problems = check_independence(ref, cand, *sidecars)
    if sidecars != [Sidecar(), Sidecar()]:
        return problems
    notes = [Kind.LOGS_WITHOUT_MAKERS(reference=ref.name, candidate=cand.name)]
    return notes + [each for each in problems if each.kind is not Kind.LOG_WITHOUT_SIDECAR]


def _show(judgement: Judgement, options) -> None:
    """Print the verdict, the notes, the first row that is not aligned, and the worst rows."""
    names = {"reference": options.ref.name, "candidate": options.cand.name}
    report.say(Kind.LOGS_COMPARED(**names, verdict=judgement.verdict))
    guide = report.guide_word(judgement.guide_passed)
    counts = report.counted(judgement.rows) or Kind.NONE()
    report.say(Kind.LOGS_ROWS(counts=counts, guide=guide))
    whose = Kind.NOTE()
    for note in judgement.notes:
        report.say(Kind.NOTE_OF(whose=whose, note=note))
    first = first_bad_row(judgement.rows)
    if first is None:
        report.show_excused(((None, row) for row in judgement.rows), whose)
    else:
        report.say("")
        told = {"key": report.visible(first.key), "verdict": first.verdict}
        report.say(Kind.FIRST_NOT_ALIGNED(**told))
        for line in report.describe(first):
            report.say(f"  {in_language(line)}")
    if judgement.rows:
        report.show_rows(judgement.rows)
