"""report.html: one page that shows every row of a check, opens from disk, and asks no network.

The template, the style and the script are in page/.  All that comes from a log is put in as text:
Jinja2 escapes what the template writes, the rows are JSON that no markup can end, and the page's
own policy runs no script but the one whose hash it names.
"""

import base64
import gzip
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from urllib.parse import quote

from twincheck.common.logs.sidecar import Sidecar
from twincheck.common.report import html_charts as charts
from twincheck.common.report import html_facts as facts
from twincheck.common.report import html_words, terminal
from twincheck.common.report.acceptance import met, questions, together
from twincheck.common.report.commands import look, mend_of_start, next_commands
from twincheck.common.report.findings import beside, findings_of
from twincheck.common.report.html_flow import flow_of
from twincheck.common.report.html_rows import PackedRows, reasons_of, rows_shown
from twincheck.common.report.html_tree import tree_of
from twincheck.common.report.html_values import DECADES, MOST_VALUES, values_of
from twincheck.common.report.html_words import visible
from twincheck.common.report.initial import RECIPE
from twincheck.common.report.not_run import lines_not_run, never_ran, source_of
from twincheck.common.report.scores import figure, scores_of
from twincheck.common.report.sentences import fewest_digits, number, step_title
from twincheck.common.report.source_lines import source_context
from twincheck.common.report.summary import ALIGNED, NOT_ALIGNED, NOT_COMPARED, UNDECIDED, outcome
from twincheck.common.system.files import write_text
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind, is_of
from twincheck.common.verdict.row import AGREEING, FAILING, SEVERITY, count_verdicts, worst_row

FILE = "report.html"
SHOWN_WITHOUT_SCRIPT = 20  # rows of a result: the worst
SCRIPTS = ("tree.js", "charts.js", "page.js")
_PAGE = Path(__file__).parent / "page"

# What each verdict means, in a few words; the page's key to them.
MEANINGS = {
    "IDENTICAL": Kind.MEANS_IDENTICAL(),
    "ROUNDING": Kind.MEANS_ROUNDING(),
    "INSIDE": Kind.MEANS_INSIDE(),
    "CLOSE": Kind.MEANS_CLOSE(),
    "FLIP": Kind.MEANS_FLIP(),
    "CONSTANT": Kind.MEANS_CONSTANT(),
    "CARRIED": Kind.MEANS_CARRIED(),
    "UNDECIDED": Kind.MEANS_UNDECIDED(),
    "PRECISION": Kind.MEANS_PRECISION(),
    "DIVERGED": Kind.MEANS_DIVERGED(),
    "INVALID": Kind.MEANS_INVALID(),
}
# A check's outcome, as a heading begins with it.
_OUTCOMES = {
    ALIGNED: Kind.PAGE_ALIGNED(),
    NOT_ALIGNED: Kind.PAGE_NOT_ALIGNED(),
    UNDECIDED: Kind.PAGE_UNDECIDED(),
    NOT_COMPARED: Kind.PAGE_NOT_COMPARED(),
}


def write_page(path: Path, results: Sequence, command: str, base: str) -> None:
    """Write the page of some results, whole or not at all; raises UserError where it cannot.

    command  what was typed to have them; empty: a call in Python
    base     what the page calls these results: the step, or `steps 1 to 5`
    """
    write_text(path, page(results, command, base))


def page(results: Sequence, command: str, base: str) -> str:
    """The page's text."""
    words = html_words.both()
    packed, told, sides = PackedRows(words), [], []
    text = packed.texts.number
    shown = rows_shown(results)
    for index, result in enumerate(results):
        step, name = result.step, _name(result)
        of_step = Kind.STEP_ROW(number=step.number, title=step_title(step))
        title = Kind.PAGE_STEP_OF(step=of_step, model=result.model)
        found = {s: list(facts.sidecars_of(result.folder, step.judged, s)) for s in SIDES}
        tree = tree_of(result.rows, shown[index], result, found)
        values = values_of(result, shown[index], tree["of"], MOST_VALUES // len(results))
        sides.append((title, {side: own[0] for side, own in found.items() if own}))
        told.append(_tell(index, name, title, result, found, of_step))
        packed.add(name, title, result, shown[index], visible(look(result, "KEY")), _ledger(found))
        more = {"values": values, "flow": flow_of(result, shown[index])}
        drawn = (*told[-1].depth, *told[-1].training, *told[-1].drift)
        more["charts"] = [chart.as_json(text) for chart in drawn]
        packed.results[-1] |= {"tree": tree} | more
    passed = all(one.passed for one in told) and bool(told)
    models = list(dict.fromkeys(visible(result.model) for result in results))
    style = (_PAGE / "style.css").read_text("utf-8")
    script = "".join((_PAGE / name).read_text("utf-8") for name in SCRIPTS)
    data = packed.as_json() | {
        "tones": terminal.TONES,
        "meanings": {verdict: text(said) for verdict, said in MEANINGS.items()},
        "decades": [*DECADES],
        "words": html_words.of_script(script, words),
        "turned": html_words.read() is not None,
    }
    data = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    # Packed by gzip, as letters that end no script element.
    data = base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()
    return _template().render(
        base=base,
        results=told,
        steps=list(dict.fromkeys(one.step for one in told)),
        told={id(one.result): one for one in told},
        overall=together(results),
        cells={(one.step, visible(one.result.model)): one for one in told},
        models=models,
        passed=passed,
        clean=passed and not any(result.guide_passed is False for result in results),
        outcome=_OUTCOMES[outcome(results)],
        undecided=outcome(results) == UNDECIDED,
        language=html_words.beside(),
        acceptance=met(results),
        not_run=[
            (file, said, source_of(file, files[file]))
            for files in lines_not_run(results).values()
            for file, said in never_ran(files)
        ],
        remarks=_remarks(told),
        asked=[questions([r for r in results if visible(r.model) == model]) for model in models],
        failed=sum(not one.passed for one in told),
        counts=count_verdicts([row for result in results for row in result.rows]),
        total=sum(len(result.rows) for result in results),
        left=sum(len(r.rows) for r in results) - sum(map(len, shown)),
        command=command,
        folder=os.getcwd(),
        environments=facts.environments(sides),
        written=time.strftime("%Y-%m-%d %H:%M:%S %z"),
        style=style,
        script=script,
        data=data,
    )


@cache
def _template():
    return templates().get_template("report.html.j2")


def templates(*folders: Path, words: Callable[[], html_words.Words] = html_words.both):
    """Return Jinja2's environment, with further folders of templates; it is imported here first.

    words  gives the languages that they have
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([*folders, _PAGE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("say", "text", "either", "label"):
        environment.filters[name] = partial(_said, name, words)
    environment.filters.update(number=number, anchor=_anchor, figure=figure, visible=visible)
    environment.filters.update(lines=_lines, facts=terminal.facts_of, words=facts.diff_log_words)
    environment.filters.update(guide=terminal.guide_word, used=terminal.used_part)
    environment.filters.update(id=id, hash=_hash)
    environment.globals.update(Kind=Kind, sides=html_words.SIDE_NAMES)
    environment.globals.update(meanings=MEANINGS, tones=terminal.TONES)
    environment.globals.update(severity=SEVERITY, count_of=count_verdicts)
    environment.globals.update(shown_origins=terminal.SHOWN_ORIGINS, recipe=RECIPE)
    return environment


def _said(name: str, words: Callable[[], html_words.Words], *of: object, **how: object) -> str:
    """A text in the words of now."""
    return getattr(words(), name)(*of, **how)


def _hash(text: str) -> str:
    """Return the hash by which a content security policy names an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _name(result) -> str:
    other = f"-{result.step.other}" if result.step.other else ""
    return f"step{result.step.number}{other}/{visible(result.model)}"


def _anchor(name: str, key: str = "") -> str:
    """The fragment that leads to a result, or to one of its rows."""
    return "#" + quote(f"{name}/{visible(key)}" if key else name, safe="/")


def _ledger(sidecars: Mapping[str, Sequence[Sidecar]]) -> set[str]:
    return {key for sidecar in sidecars["torch"] for key in sidecar.choices}


def _tell(index: int, name: str, title: str, result, sidecars, of_step: str) -> SimpleNamespace:
    """All that the page says of one result beside its rows."""
    problems: list[str] = []
    curves: list[charts.Chart] = []
    if result.step.trains and not result.error:
        try:
            curves += charts.training_charts(result.folder, result.rows)
        except facts.UNREADABLE as error:
            problems.append(Kind.PAGE_CURVES_UNDRAWN(error=str(error)))
    step, rows, off = result.step, result.rows, findings_of(result)
    first_of = {side: found[0] for side, found in sidecars.items() if found}
    kind = {1: "", 4: "grad"}.get(step.number)
    depth = [] if kind is None else list(charts.depth_charts(rows, result.cases, kind))
    return SimpleNamespace(
        index=index,
        step=of_step,
        name=name,
        title=title,
        result=result,
        passed=result.exit_code == 0,
        worst=worst_row(rows, result.allow),
        failing=[
            f"{n:,} {verdict}" for verdict, n in count_verdicts(rows).items() if verdict in FAILING
        ],
        above=sum(row.guide_passed is False for row in rows),
        digits=fewest_digits(rows, result.cases),
        scores=scores_of(result.folder, step.guide_stem, step.guide_threshold),
        findings=off,
        beside=[] if off else beside(result),
        diff_log=result.guide_report and result.folder / result.guide_report,
        depth_title=Kind.PAGE_NOISE_AND_GAP() if kind else Kind.PAGE_ERROR_AGAINST_DEPTH(),
        depth=depth,
        drift=list(charts.drift_charts(rows, result.cases)),
        training=curves,
        choices=facts.choices_of(result.folder, step.judged, rows, _ledger(sidecars)),
        look=look(result, "KEY"),
        next_commands=next_commands(result, off) if off else mend_of_start(result),
        ran=facts.what_ran(first_of),
        worst_rows=sorted(rows, key=terminal.origins_first, reverse=True)[:SHOWN_WITHOUT_SCRIPT],
        problems=problems,
    )


def _remarks(told: Sequence[SimpleNamespace]) -> list[tuple]:
    """Return what does not plainly agree, worst first: each result's findings, then verdicts."""
    found = []
    for one in told:
        for f in one.findings[: terminal.SHOWN_ORIGINS]:
            found.append((one, f.row, f.row.verdict, f.sentence, 1 + len(f.further)))
        passed_over = {*AGREEING, *(FAILING if one.findings else ())}
        for verdict in {row.verdict for row in one.result.rows} - passed_over:
            of = [row for row in one.result.rows if row.verdict == verdict]
            found.append((one, of[0], verdict, reasons_of(of[0]), len(of)))
    return sorted(found, key=lambda entry: (-SEVERITY.index(entry[2]), entry[0].index))


def _lines(place: str) -> tuple:
    """The lines of source around a place: number, text, whether it is the place itself."""
    place = place.fields["line"] if is_of(place, Kind.WHERE_USED) else place
    lines = source_context(place)
    texts = dedent("\n".join(visible(line.text.expandtabs()) for line in lines)).split("\n")
    return tuple((line.number, text, line.here) for line, text in zip(lines, texts, strict=False))
