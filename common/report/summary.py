"""The last line of a check: what all results come to, where it is red, and what to type next.

ALIGNED 5/5 (eval and train) · guide 4/5 · log/report.html
NOT ALIGNED in 3 of 5 steps (eval and train) · step 1, one: DIVERGED at main/norm,
    one/paddle_model.py:41 · guide 1/5 · one/log/report.html · next: twincheck show …
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.text import Text

from twincheck.common.report import terminal
from twincheck.common.report.commands import again, mend_of_start, next_commands, shown
from twincheck.common.report.findings import NO_LINE, findings_of
from twincheck.common.report.sentences import listed, named
from twincheck.common.verdict.row import FAILING, count_verdicts

ALIGNED, NOT_ALIGNED, UNDECIDED = "ALIGNED", "NOT ALIGNED", "UNDECIDED"
NOT_COMPARED = "NOT COMPARED"
OTHER_START = "initial values are not torch's"
_COLOURS = {ALIGNED: "green", NOT_ALIGNED: "red", UNDECIDED: "blue", NOT_COMPARED: "red"}


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
) -> Text:
    """The line; as a str it is plain.

    page       the report of these results, where there is one
    left_out   number -> why, of steps that do not apply
    says_next  end with the command that a reader types next, where one is red
    """
    word = outcome(results)
    words = dict.fromkeys((word, NOT_COMPARED, UNDECIDED))  # of each kind one place is named
    kinds = {kind: [r for r in results if _word(r) == kind] for kind in words}
    passes = _let_pass(kinds.get(ALIGNED, ()))
    colour = "yellow" if passes else _COLOURS[word]
    modes = _modes(results)
    parts = [_count(word, kinds[word], results) + (f" ({modes})" if modes else "")]
    parts += [_where(found) for kind, found in kinds.items() if found and kind != ALIGNED]
    parts += [passes] if passes else []
    parts += [_beginning(results)] if any(result.initial for result in results) else []
    if left_out:
        steps = f"step{'s' * (len(left_out) > 1)} {listed(map(str, left_out))}"
        parts.append(f"{steps} left out: {'; '.join(dict.fromkeys(left_out.values()))}")
    guides = [r.guide_passed for r in results if r.guide_passed is not None]
    if guides:
        parts.append(f"guide {sum(guides)}/{len(guides)}")
    parts += [shown(page)] if page else []
    if says_next and word != ALIGNED and results:
        result = kinds[word][0]
        found = findings_of(result)
        command = next_commands(result, found, results)[0][1] if found else again(result)
        parts.append(f"next: {terminal.visible(command)}")
    return Text.assemble((word, f"bold {colour}"), " · ".join(parts))


def _beginning(results: Sequence) -> str:
    """That layers begin with other values than torch's, where that decides nothing."""
    found = [result for result in results if result.initial]
    kinds = dict.fromkeys(start.kind for result in found for start in result.starts)
    counted = f"initial values of {listed(kinds)} are not torch's" if kinds else OTHER_START
    commands = "".join(f": {terminal.visible(c)}" for _, c in mend_of_start(found[0]))
    return counted + commands


def _count(word: str, alike: Sequence, results: Sequence) -> str:
    """How many are aligned, where all are: of all five steps `5/5`; else how many are not."""
    steps = {result.step.number for result in results}
    models = len({result.model for result in results})
    if word != ALIGNED:
        units = {len(steps): "steps", models: "models"}  # where there is one of the other
        unit = units.get(len(results), "results")
        return f" in {len(alike)} of {len(results)} {unit}" if len(results) > 1 else ""
    if len(results) != len(steps) * models:
        return f" in {len(results)} results"
    if len(steps) == 5:
        return " 5/5" if models == 1 else f": {models} models, 5/5 steps each"
    names = dict.fromkeys(f"{r.step.number} {r.step.other}".strip() for r in results)
    numbers = f" in step{'s' * (len(steps) > 1)} {listed(sorted(names))}"
    return numbers if models == 1 else f": {models} models{numbers}"


def _modes(results: Sequence) -> str:
    """In which modes the models were checked, in short; the sentence itself is a note."""
    words: dict[str, list] = {}
    for result in results:
        if result.modes:
            short = result.modes.removeprefix("checked in ").replace(" mode", "")
            words.setdefault(re.sub(r"; \w+ was not checked.*", "", short), []).append(result)
    if len(words) < 2:
        return next(iter(words), "")
    return "; ".join(f"{word} in {named(alike)}" for word, alike in words.items())


def _where(found: Sequence) -> str:
    """Where the first of several results of a kind is red, or why it could not be compared."""
    result, row = found[0], found[0].first_diverged
    name = named([result])
    if row is None:
        why = terminal.visible(" ".join(result.error.split())) or "it has no rows"
        return f"{name} could not be compared: {why}"
    places = findings_of(result)[0].places
    place = shown(Path(places["paddle"])) if places else NO_LINE
    known = place != NO_LINE
    at = [row.key, place] if known else [row.key]
    return f"{name}: {row.verdict} at {', '.join(map(terminal.visible, at))}"


def _let_pass(results: Sequence) -> str:
    """What lets results pass that are not shown to be the same function."""
    rows = [row for result in results for row in result.rows]
    counts = count_verdicts(row for row in rows if row.verdict in ("CLOSE", *FAILING))
    return ", ".join(
        f"{count} {verdict}" + (" (float32 alone)" if verdict == "CLOSE" else " allowed")
        for verdict, count in counts.items()
    )
