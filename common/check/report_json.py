"""--json: every row of a check, what they come to, and what a program goes by (document.py).

A row takes one line.  `make check`, whom nobody asked for a file, leaves a short one in log/: rows
that agree have there only what tables are made of.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path

from twincheck.common.check.document import document
from twincheck.common.check.result import Result, overall_exit
from twincheck.common.report.not_run import lines_not_run
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text
from twincheck.common.system.reasons import reasons_json
from twincheck.common.verdict.row import AGREEING, Row, worst

# What every row has, in this order; users rely on it.
PROMISED = ("step", "model", "key", "verdict", "mean_abs", "max_abs")
# What an agreeing row has beside that in a short report, where it says something.
_OF_TABLES = ("gap", "allowed", "guide_passed", "noise_only", "capped", "excuse", "note")
_OF_TABLES += ("excuses", "reasons")
# What a row has only where it says something.
_SOME = (
    *("excuses", "reasons", "fed", "proof", "repeated", "by_itself"),
    *("in_float64", "unlike", "other_shape", "shows_nothing"),
)
_NOW_AND_THEN = {one.name: one.default for one in fields(Row) if one.name in _SOME}
_NOW_AND_THEN |= {"excuses": [], "reasons": []}
_DIGITS = {"mean_abs": 7, "max_abs": 7, "gap": 3, "allowed": 3}


def json_text(
    results: Sequence[Result], short: bool = False, error: str = "", **more: object
) -> str:
    """The whole document: `report_text`, and what a program goes by.

    error  why nothing was compared, where that ended the check
    """
    if "summary" in more:
        more["summary_reasons"] = reasons_json([more["summary"]])
    return report_text(results, short, **document(results, error), **more)


@contextmanager
def told_in(path: Path | None) -> Iterator[None]:
    """Write an error that ends the check into --json's file, in place of a former result."""
    try:
        yield
    except UserError as error:
        with suppress(UserError):
            if path is not None:
                write_text(path, json_text([], error=str(error)))
        raise


def report_text(results: Sequence[Result], short: bool = False, **more: object) -> str:
    """The JSON of every row, of what they come to and of what else is given.

    short  leave out of rows that agree what neither is promised nor goes into a table
    """
    first = next((r.first_diverged for r in results if r.first_diverged is not None), None)
    guides = [r.guide_passed for r in results if r.guide_passed is not None]
    tensors = [r.guide_all_passed for r in results if r.guide_all_passed is not None]
    reports = [r.reprod_log for r in results if r.reprod_log is not None]
    answers: dict[str, dict[str, object]] = {}
    for result in results:
        if result.answers:
            answers.setdefault(result.model, {}).update(result.answers)
    never_run = lines_not_run(results)
    told = {
        "verdict": worst([r.verdict for r in results]),
        "exit_code": overall_exit(results),
        "guide_passed": all(guides) if guides else None,  # on the keys that the guide asks for
        "guide_all_passed": all(tensors) if tensors else None,  # on every tensor
        "reprod_log": all(reports) if reports else None,
        "first_diverged": first.key if first is not None else None,
        "answers": answers,
        "errors": {r.model: r.error for r in results if r.error},
        **({"not_run": never_run} if never_run else {}),
        "reasons": {r.model: reasons_json([r.error]) for r in results if r.error},
        **more,
    }
    head = json.dumps(told, indent=1, allow_nan=False).removesuffix("\n}")
    guide = [
        json.dumps(
            {
                "step": result.step.number,
                "model": result.model,
                "guide_passed": result.guide_passed,
                "guide_all_passed": result.guide_all_passed,
                "reprod_log": result.reprod_log,
                "report": result.guide_report,
                "modes": result.modes,
                **({"way": reasons_json(result.way)} if result.way else {}),
                **({"notes": reasons_json(result.told)} if result.told else {}),
                **({"variances": result.variances} if result.variances else {}),
            },
            separators=(",", ":"),
        )
        for result in results
        if not result.error
    ]
    rows = [_line(row, short) for result in results for row in result.rows]
    lists = [
        f' "{name}": [\n' + ",\n".join(lines) + "\n ]"
        for name, lines in (("guide", guide), ("rows", rows))
    ]
    return ",\n".join([head, *lists]) + "\n}\n"


_encoded = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _line(row: Row, short: bool) -> str:
    values = row.as_json()
    for name, usual in _NOW_AND_THEN.items():
        if values[name] == usual:
            del values[name]
    if short and row.verdict in AGREEING:
        more = {name: values.get(name) for name in _OF_TABLES}
        more = {name: value for name, value in more.items() if value not in (None, "", False)}
        if values["guide_passed"] is False:
            more["guide_passed"] = False
        values = {name: values[name] for name in PROMISED} | more
        for name, digits in _DIGITS.items():
            if values.get(name) is not None:
                values[name] = float(f"{values[name]:.{digits}g}")
    return _encoded(values)
