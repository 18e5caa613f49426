"""Judge any two logs, without either framework.

    python -m common.compare REF.npy CAND.npy [--ref64 A.npy --cand64 B.npy] [--json FILE]

REF is the reference's float32 log (torch), CAND the candidate's (paddle); what reprod_log wrote
will do.  With both float64 logs every row gets the full verdict, without them none is better than
CLOSE.  Exit status: 0 aligned, 1 not aligned, 2 could not be compared.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from common.logs.pickle_machine import printable
from common.logs.sidecar import read_sidecar
from common.system.errors import UserError
from common.system.files import fill_standard_streams
from common.system.json_file import write_json
from common.verdict.independence import check_independence
from common.verdict.judge import Judgement, judge_logs
from common.verdict.row import SEVERITY, Row, count_verdicts, first_bad_row

SHOWN_ROWS = 10  # of the table: the worst
_LONGEST_KEY = 60


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    options = _parser().parse_args(arguments)
    fill_standard_streams()
    try:
        return _compare(options)
    except UserError as error:
        sentence = str(error)
    except BrokenPipeError:  # nobody reads on; nor may Python complain of it when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 2
    except OSError as error:
        name = getattr(error, "filename", None) or "standard output"
        if name == "standard output":
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sentence = f"{name}: {error.strerror or error}"
    except KeyboardInterrupt:
        sentence = "interrupted"
    except Exception as error:
        if options.debug:
            raise
        sentence = f"internal error: {type(error).__name__}: {error}; --debug shows the traceback"
    print(f"error: {sentence}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m common.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("ref", type=Path, metavar="REF.npy", help="the reference's float32 log")
    parser.add_argument("cand", type=Path, metavar="CAND.npy", help="the candidate's float32 log")
    parser.add_argument("--ref64", type=Path, metavar="A.npy", help="the reference's float64 log")
    parser.add_argument("--cand64", type=Path, metavar="B.npy", help="the candidate's float64 log")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every row as JSON")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


def _compare(options: argparse.Namespace) -> int:
    if (options.ref64 is None) != (options.cand64 is None):
        raise UserError("--ref64 and --cand64 are given together or not at all")
    judgement = judge_logs(options.ref, options.cand, options.ref64, options.cand64, step=0)
    pairs = [(options.ref, options.cand)]
    if options.ref64 is not None:
        pairs.append((options.ref64, options.cand64))
    notes = [note for pair in pairs for note in _provenance(*pair)]
    judgement.notes = list(dict.fromkeys(notes + judgement.notes))
    if options.json is not None:
        write_json(options.json, judgement.as_json())
    print("\n".join(_report(judgement, options)), flush=True)
    return judgement.exit_code


def _provenance(ref: Path, cand: Path) -> list[str]:
    """What is known about who made two logs; notes here, where check_stepN.py would refuse."""
    sidecars = [read_sidecar(ref), read_sidecar(cand)]
    if sidecars == [None, None]:
        notes = [f"provenance unknown: {ref.name} and {cand.name} have no sidecars"]
        problems = check_independence(ref, cand, None, None)
        return notes + [problem for problem in problems if "no sidecar" not in problem]
    return check_independence(ref, cand, *sidecars)


def _report(judgement: Judgement, options: argparse.Namespace) -> list[str]:
    """The lines that are printed."""
    counts = ", ".join(f"{n} {name}" for name, n in count_verdicts(judgement.rows).items())
    guide = {True: "passed", False: "FAIL", None: "nothing compared"}[judgement.guide_passed]
    lines = [
        f"{options.ref.name} (torch) against {options.cand.name} (paddle): {judgement.verdict}",
        f"rows: {counts or 'none'}; the guide's rule (mean |a-b|, 1e-6): {guide}",
    ]
    lines += [f"note: {note}" for note in judgement.notes]
    first = first_bad_row(judgement.rows)
    if first is not None:
        lines += ["", f"first that is not aligned: {printable(first.key)}: {first.verdict}"]
        lines += [f"  {line}" for line in facts(first)]
    elif any(row.note for row in judgement.rows if row.verdict in ("CONSTANT", "FLIP")):
        lines.append("")
        rows = [row for row in judgement.rows if row.verdict in ("CONSTANT", "FLIP")]
        lines += [f"{row.verdict} {printable(row.key)}: {row.note}" for row in rows[:SHOWN_ROWS]]
    if judgement.rows:
        lines += ["", *_table(judgement.rows)]
    return lines


def facts(row: Row) -> list[str]:
    """How many, how much, where and how much was allowed."""
    lines = [row.note] if row.note else []
    if row.beyond and row.allowed is not None:
        where = f", worst at {list(row.worst_index)}" if row.worst_index is not None else ""
        told = f"{row.beyond} of {row.size} elements beyond {row.allowed:.2e} (by {row.measure})"
        sample = f" of sample {row.sample}" if row.sample is not None else ""
        values = f": torch {row.worst_ref!r}, paddle {row.worst_cand!r}"
        lines.append(f"{told}{sample}{where}{values if row.worst_ref is not None else ''}")
    if row.noise_ref is not None:
        lines.append(
            f"float64 gap {_number(row.gap)}; float32 noise torch {_number(row.noise_ref)}, "
            f"paddle {_number(row.noise_cand)}; size {_number(row.scale)}"
        )
    if row.mean_abs is not None:
        lines.append(
            f"float32 |torch - paddle|: mean {_number(row.mean_abs)}, max {_number(row.max_abs)}"
        )
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2e}"


def _table(rows: Sequence[Row]) -> list[str]:
    """The worst rows: by verdict, then by the part of what was allowed that they used."""
    shown = sorted(rows, key=_badness, reverse=True)[:SHOWN_ROWS]
    width = min(_LONGEST_KEY, max(len(row.key) for row in shown))
    headings = ("gap", "allowed", "torch", "paddle", "size", "mean", "max")
    lines = [f"{'verdict':<10}{'key':<{width}}" + "".join(f"{name:>10}" for name in headings)]
    for row in shown:
        numbers = (row.gap, row.allowed, row.noise_ref, row.noise_cand, row.scale)
        numbers += (row.mean_abs, row.max_abs)
        key = row.key if row.key.isprintable() else ascii(row.key)
        key = key if len(key) <= width else f"…{key[1 - width :]}"
        line = f"{row.verdict:<10}{key:<{width}}"
        lines.append(line + "".join(f"{_number(value):>10}" for value in numbers))
    if len(rows) > len(shown):
        lines.append(f"and {len(rows) - len(shown)} rows that are no worse")
    return lines


def _badness(row: Row) -> tuple[int, float]:
    measured = row.gap if row.noise_ref is not None else row.max_abs
    used = measured / row.allowed if measured and row.allowed else 0.0
    return SEVERITY.index(row.verdict), used


if __name__ == "__main__":
    sys.exit(main())
