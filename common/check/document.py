"""What --json says to a program before the rows: what was found, where, and what to do next.

docs/result.schema.json says what is in it, docs/for-programs.md what it is for.  All of it comes
from where the terminal and the page have it (common/report/findings.py).
"""

from collections.abc import Sequence

from twincheck.common.check.result import Result, overall_exit
from twincheck.common.logs.sidecar import IN_WORDS
from twincheck.common.report.commands import module_of, next_commands
from twincheck.common.report.edits import edits_of
from twincheck.common.report.findings import Finding, beside, class_of, findings_of
from twincheck.common.report.sentences import counted_digits
from twincheck.common.report.source_lines import source_context
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind, reasons_json
from twincheck.common.verdict.row import count_verdicts

SCHEMA = "twincheck-result/1"
OVERALL = ("ALIGNED", "NOT ALIGNED", "NOT COMPARED")  # by exit status
_NUMBERS = ("gap", "allowed", "scale", "noise_ref", "noise_cand", "mean_abs", "max_abs")
_WORST = ("worst_index", "worst_ref", "worst_cand")
# What a finding has that is no row's: a model, or a whole check, that could not be compared.
_OF_AN_ERROR = {"kind": "error", "verdict": "INVALID", "key": None, "module": None, "note": ""}
_OF_AN_ERROR |= {"numbers": {}, "settings": [], "torch": None, "paddle": None}


def document(results: Sequence[Result], error: str = "") -> dict[str, object]:
    """Return what a program goes by: the overall word, the steps, the findings.

    error  why nothing was compared, where that ended the check
    """
    return {
        "schema": SCHEMA,
        "overall": OVERALL[overall_exit(results)],
        "modes": list(dict.fromkeys(mode for result in results for mode in result.ran)),
        "steps": [_step(result) for result in results],
        "findings": [_error(None, None, error)] if error else _findings(results),
        "initial": [_beside(result, one) for result in results for one in beside(result)],
    }


def _step(result: Result) -> dict[str, object]:
    """Return the verdict, the counts and the time of one step for one model."""
    told = {"step": result.step.number, "title": result.step.other or result.step.title}
    told |= {"model": result.model, "overall": OVERALL[result.exit_code]}
    told |= {"verdict": result.verdict, "exit_code": result.exit_code}
    told |= {"counts": count_verdicts(result.rows), "modes": list(result.ran)}
    return told | {"elapsed_s": round(result.elapsed_s, 2), "error": result.error or None}


def _findings(results: Sequence[Result]) -> list[dict]:
    """An entry for each cause, in the order of the steps: what differs in one differs behind it."""
    causes: dict[tuple, dict] = {}
    for result in sorted(results, key=lambda one: one.step.number):
        step, model = result.step.number, result.model
        if result.exit_code == 2:
            sentence = result.error or Kind.NO_ROWS()
            causes[result.step, model] = _error(step, model, sentence)
            continue
        for one in findings_of(result):
            keys = (one.row.key, *one.further)
            if (model, one.cause) not in causes:
                causes[model, one.cause], keys = _finding(result, one), one.further
            causes[model, one.cause]["further"] += [{"step": step, "key": key} for key in keys]
    return list(causes.values())


def _error(step: int | None, model: str | None, sentence: str) -> dict[str, object]:
    """Return the finding of what could not be compared; no step, no model: nothing could."""
    told = {"step": step, "model": model, "sentence": sentence, **_OF_AN_ERROR}
    return told | {"reasons": reasons_json([sentence]), "edits": [], "further": [], "commands": []}


def _finding(result: Result, one: Finding) -> dict[str, object]:
    """Return a cause as a program reads it: its row, numbers, settings, lines and commands."""
    row, values = one.row, one.row.as_json()
    digits = [round(count, 2) for count in counted_digits(row)]
    numbers = {name: values[name] for name in (*_NUMBERS, *_WORST)}
    numbers |= zip(("digits_shared", "digits_known"), (*digits, None, None), strict=False)
    told = {
        "step": result.step.number,
        "model": result.model,
        "kind": _kind(one),
        "verdict": row.verdict,
        "key": row.key,
        "module": module_of(result, row.key) or None,
        "sentence": one.sentence,
        "note": row.note,
        "reasons": reasons_json([one.sentence, *row.reasons]),
        "numbers": numbers,
        "settings": [_setting(*each) for each in one.differing],
        **{side: _source(result, side, one) for side in SIDES},
    }
    commands = [{"why": why, "command": typed} for why, typed in next_commands(result, [one])]
    told |= {"recipe": list(one.recipe)} if one.is_start else {}
    return told | {"edits": edits_of(told), "further": [], "commands": commands}


def _beside(result: Result, one: Finding) -> dict[str, object]:
    """Return the finding of layers that begin otherwise, where that decides nothing."""
    further = [{"step": result.step.number, "key": key} for key in one.further]
    return _finding(result, one) | {"further": further}


def _kind(one: Finding) -> str:
    if one.is_start:
        return "initial"
    return "setting" if one.differing else "tensor" if one.places else "claim"


def _setting(name: str, torch: float, paddle: float) -> dict[str, object]:
    """A setting as each side writes it, and as Paddle's would be for torch's: `wanted`.

    Both numbers count as torch does; Paddle's momentum is the other part of 1.
    """
    written = {"torch": torch, "paddle": paddle, "wanted": torch}
    if name == "momentum":
        written |= {"paddle": 1 - paddle, "wanted": 1 - torch}
    words = dict(enumerate(IN_WORDS.get(name, ())))
    values = {who: words.get(value, float(f"{value:.12g}")) for who, value in written.items()}
    return {"name": name, **values}


def _source(result: Result, side: str, one: Finding) -> dict[str, object] | None:
    """Return the lines in which a side computes a finding or builds its layer; None without any."""
    if not one.places:
        return None
    place = one.places[side]
    lines = source_context(place)
    return {
        "file": str(lines[0].path) if lines else None,
        "line": next((line.number for line in lines if line.here), None),
        "class": class_of(result, side, one.row.key) or None,
        "lines": [{"number": line.number, "text": line.text} for line in lines],
    }
