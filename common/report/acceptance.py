"""What decides, in short: one word for each question, and the acceptance that the guide asks for.

The guide's sections are in acceptance.json, with their words in English and in Chinese.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from twincheck.common.report import summary, terminal
from twincheck.common.system.reasons import Kind, is_of
from twincheck.common.verdict.row import Row, first_bad_row, worst, worst_row

# node: whether acceptance (验收) asks for it; step: whose rows say the result, null where the tests
# run it; keys: which of them, "" for all, and for what reprod_log says of the guide's pair.
_FILE = Path(__file__).with_suffix(".json")
NODES = [SimpleNamespace(**entry) for entry in json.loads(_FILE.read_text(encoding="utf-8"))]

# Outcome -> the word that answers a question, the tone and the mark that it is shown with.
_ANSWERS = {
    summary.ALIGNED: (Kind.ANSWER_YES(), "good", "ROUNDING"),
    summary.NOT_ALIGNED: (Kind.ANSWER_NO(), "bad", "DIVERGED"),
    summary.UNDECIDED: (Kind.ANSWER_UNDECIDED(), "open", "UNDECIDED"),
    summary.NOT_COMPARED: (Kind.ANSWER_NOT_COMPARED(), "bad", "INVALID"),
    None: (Kind.ANSWER_NOT_RUN(), "quiet", ""),
}
_FAIL = (Kind.GUIDE_FAILED(), "bad", "DIVERGED")
_EXCUSED = (Kind.GUIDE_FAILED(), "mind", "PRECISION")
_PASSED = (Kind.GUIDE_PASSED(), "good", "ROUNDING")


@dataclass(frozen=True)
class Answer:
    """A word with its tone and mark, what is behind it, and the row that shows it best."""

    word: str
    tone: str
    mark: str
    said: str
    result: object = None
    row: Row | None = None


def met(results: Sequence) -> list[tuple[SimpleNamespace, list[Answer]]]:
    """The sections of the guide that these results answer, each with an answer for each result."""
    found = []
    for node in NODES:
        own = [r for r in results if r.step.number == node.step and not r.step.other]
        answers = [answer for result in own if (answer := _met_by(node, result))]
        if answers:
            found.append((node, answers))
    return found


def _met_by(node: SimpleNamespace, result) -> Answer | None:
    rows = [row for row in result.rows if re.search(node.keys, row.key)]
    if not rows:
        return Answer(*_ANSWERS[summary.NOT_COMPARED], "", result) if result.error else None
    verdict, bad = worst(row.verdict for row in rows), first_bad_row(rows, result.allow)
    row = bad or worst_row(rows) or rows[0]
    if node.keys or result.guide_passed is None:
        return Answer(verdict, terminal.TONES[verdict], verdict, "", result, row)
    if result.guide_passed and result.reprod_log is not False:
        return Answer(*_PASSED, verdict, result, row)
    return Answer(*(_FAIL if bad else _EXCUSED), verdict, result, row)


def questions(results: Sequence) -> list[tuple[str, Answer]]:
    """Return the questions that people ask of a model's results, each with its answer."""
    function = [result for result in results if not result.step.trains]
    training = [result for result in results if result.step.trains]
    guided = [result for result in results if result.guide_passed is not None]
    failing = [result for result in guided if not result.guide_passed]
    above = sum(row.guide_passed is False for result in results for row in result.rows)
    counts = {"passed": len(guided) - len(failing), "count": len(guided)}
    said = Kind.RESULTS_BY_THE_GUIDE(**counts)
    if above:
        said = Kind.RESULTS_BY_THE_GUIDE_ABOVE(above=above, **counts)
    rule = _PASSED if guided else ("–", "quiet", "")
    if failing:
        rule = _FAIL if any(result.exit_code for result in failing) else _EXCUSED
    modes = sorted({mode for result in results for mode in result.ran})
    alone = [r.modes for r in results if is_of(r.modes, Kind.MODE_ALONE, Kind.MODE_ALONE_BECAUSE)]
    mode = ("mind", "PRECISION") if alone else ("good", "ROUNDING") if modes else ("quiet", "")
    return [
        (Kind.ASKS_FUNCTION(), together(function)),
        (Kind.ASKS_TRAINING(), together(training)),
        (Kind.ASKS_GUIDE(), Answer(*rule, said, failing[0] if failing else None)),
        (
            Kind.ASKS_MODES(),
            Answer(
                Kind.PAGE_MODES(modes=modes) if modes else "–", *mode, alone[0] if alone else ""
            ),
        ),
    ]


def together(results: Sequence) -> Answer:
    """Return the one answer that results come to together: the outcome of the worst."""
    if not results:
        return Answer(*_ANSWERS[None], "")
    word = summary.outcome(results)
    first = next((result for result in results if summary.outcome([result]) == word), None)
    red = {} if word == summary.ALIGNED else {"step": first.step.number, "verdict": first.verdict}
    of = Kind.OF_STEP(**red) if red else ""
    tensors = sum(len(result.rows) for result in results)
    said = Kind.TENSORS_IN_STEPS(tensors=tensors, count=len(results), of=of)
    return Answer(*_ANSWERS[word], said, first if of else None)
