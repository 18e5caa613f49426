"""The last line of a check: what all results come to, where it is red, and what to type next.

ALIGNED 5/5 (eval and train) · guide 4/5 · log/report.html
NOT ALIGNED in 3 of 5 steps (eval and train) · step 1, one: DIVERGED at main/norm,
    one/paddle_model.py:41 · guide 1/5 · one/log/report.html · next: twincheck show …
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from twincheck.common.report import terminal
from twincheck.common.report.commands import again, mend_of_start, next_commands, shown
from twincheck.common.report.findings import NO_LINE, findings_of
from twincheck.common.report.not_run import in_short
from twincheck.common.report.sentences import named
from twincheck.common.system.reasons import Kind, Reason, is_of, plain
from twincheck.common.verdict.row import FAILING, count_verdicts

ALIGNED, NOT_ALIGNED, UNDECIDED = "ALIGNED", "NOT ALIGNED", "UNDECIDED"
NOT_COMPARED = "NOT COMPARED"
OTHER_START = Kind.OTHER_START()


def outcome(results: Sequence) -> str:
    """One word for all results: that of the worst, ALIGNED only where every one is."""
    words = {_word(result) for result in results} or {NOT_COMPARED}
    return next(word for word in (NOT_ALIGNED, NOT_COMPARED, UNDECIDED, ALIGNED) if word in words)


def _word(result) -> str:
    if result.exit_code != 1:
        return NOT_COMPARED if result.exit_code else ALIGNED
    failing = {row.verdict for row in result.rows if row.verdict in FAILING} - set(result.allow)
    return UNDECIDED if failing == {UNDECIDED} else NOT_ALIGNED


def last_line(
    results: Sequence,
    page: Path | None = None,
    left_out: Mapping[int, str] | None = None,
    says_next: bool = True,
) -> Reason:
    """Return the line, which a terminal colours.

    page       the report of these results, where there is one
    left_out   number -> why, of steps that do not apply
    says_next  end with the command that a reader types next, where one is red
    """
    word = outcome(results)
    words = dict.fromkeys((word, NOT_COMPARED, UNDECIDED))  # of each kind one place is named
    kinds = {kind: [r for r in results if _word(r) == kind] for kind in words}
    passes = _let_pass(kinds.get(ALIGNED, ()))
    modes = _modes(results)
    count = _count(word, kinds[word], results)
    parts = [Kind.COUNT_AND_MODES(count=count, modes=modes) if modes else count]
    parts += [_where(found) for kind, found in kinds.items() if found and kind != ALIGNED]
    parts += [passes] if passes else []
    parts += [_beginning(results)] if any(result.initial for result in results) else []
    if left_out:
        several = Kind.STEPS_LEFT_OUT if len(left_out) > 1 else Kind.STEP_LEFT_OUT
        why = list(dict.fromkeys(left_out.values()))
        parts.append(several(steps=[*map(str, left_out)], why=why))
    parts += [in_short(results)] if word == ALIGNED else []
    guides = [r.guide_passed for r in results if r.guide_passed is not None]
    if guides:
        parts.append(Kind.GUIDE_COUNT(passed=sum(guides), count=len(guides)))
    parts += [shown(page)] if page else []
    if says_next and word != ALIGNED and results:
        result = kinds[word][0]
        found = findings_of(result)
        command = next_commands(result, found, results)[0][1] if found else again(result)
        parts.append(Kind.NEXT(command=terminal.visible(command)))
    line = Kind.LAST_LINE_LETS_PASS if passes else Kind.LAST_LINE
    behind = Kind.PARTS_OF_A_LINE if parts[0] or not parts[1:] else Kind.PARTS_BEHIND_A_WORD
    return line(word=word, rest=behind(parts=parts))


def _beginning(results: Sequence) -> Reason:
    """Return that layers begin with other values than torch's, where that decides nothing."""
    found = [result for result in results if result.initial]
    starts = (start for result in found for start in result.starts)
    kinds = dict.fromkeys(terminal.visible(start.kind) for start in starts)
    what = Kind.OTHER_START_OF(layers=list(kinds)) if kinds else OTHER_START
    commands = [terminal.visible(command) for _, command in mend_of_start(found[0])]
    return Kind.AND_TYPE(what=what, command=commands[0]) if commands else what


def _count(word: str, alike: Sequence, results: Sequence) -> str:
    """Say how many are aligned, if all are (`5/5` of all five steps); else how many are not."""
    steps = {result.step.number for result in results}
    models = len({result.model for result in results})
    if word != ALIGNED:
        if len(results) < 2:
            return ""
        units = {len(steps): Kind.IN_SOME_STEPS, models: Kind.IN_SOME_MODELS}  # one of the other
        return units.get(len(results), Kind.IN_SOME_RESULTS)(count=len(alike), all=len(results))
    if len(results) != len(steps) * models:
        return Kind.IN_RESULTS(count=len(results))
    if len(steps) == 5:
        return Kind.FIVE_OF_FIVE() if models == 1 else Kind.FIVE_OF_FIVE_EACH(count=models)
    names = sorted(dict.fromkeys(f"{r.step.number} {r.step.other}".strip() for r in results))
    numbers = (Kind.IN_STEPS if len(steps) > 1 else Kind.IN_STEP)(steps=names)
    return numbers if models == 1 else Kind.MODELS_IN(count=models, steps=numbers)


def _modes(results: Sequence) -> str:
    """In which modes the models were checked, in short; the sentence itself is a note."""
    words: dict[str, list] = {}
    for result in results:
        if result.modes:
            words.setdefault(_in_short(result.modes), []).append(result)
    if len(words) < 2:
        return next(iter(words), "")
    parts = [Kind.MODES_IN(modes=word, results=named(alike)) for word, alike in words.items()]
    return Kind.TEXT(text=parts)


def _in_short(modes: str) -> str:
    if is_of(modes, Kind.MODES_BOTH):
        return Kind.MODES_EVAL_AND_TRAIN()
    if is_of(modes, Kind.MODES_THE_SAME):
        return Kind.MODES_EVAL_AS_TRAIN()
    if is_of(modes, Kind.MODE_ALONE, Kind.MODE_ALONE_BECAUSE):
        return Kind.MODES_ALONE(mode=modes.fields["ran"])
    return modes


def _where(found: Sequence) -> str:
    """Say where the first of several results of a kind is red, or why it was not compared."""
    result, row = found[0], found[0].first_diverged
    name = named([result])
    if row is None:
        why = result.error or Kind.HAS_NO_ROWS()
        if not (isinstance(why, Reason) and why.isprintable()):
            why = terminal.visible(" ".join(why.split()))
        return Kind.NOT_COMPARED_SINCE(name=name, why=why)
    places = findings_of(result)[0].places
    place = shown(Path(plain(places["paddle"]))) if places else NO_LINE
    known = place != NO_LINE
    at = [row.key, place] if known else [row.key]
    places = [terminal.visible(one) for one in at]
    return Kind.RED_AT(name=name, verdict=row.verdict, places=places)


def _let_pass(results: Sequence) -> str:
    """List the verdicts that let results pass without being shown to be the same function."""
    rows = [row for result in results for row in result.rows]
    counts = count_verdicts(row for row in rows if row.verdict in ("CLOSE", *FAILING))
    parts = [
        Kind.CLOSE_BY_FLOAT32(count=count)
        if verdict == "CLOSE"
        else Kind.VERDICT_ALLOWED(count=count, verdict=verdict)
        for verdict, count in counts.items()
    ]
    return Kind.LISTED(parts=parts) if parts else ""
