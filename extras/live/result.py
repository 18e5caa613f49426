"""What twincheck.check found: a word, the findings with both sources, and the whole document."""

import html
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from twincheck.common.system.reasons import Kind as CoreKind
from twincheck.common.system.reasons import mapped, read_reason
from twincheck.extras.live import Kind
from twincheck.extras.live.cells import in_words

PAGE = "report.html"
_SIDES = ("torch", "paddle")
_OFTEN = 3  # findings that a message names beside the first
_OF_A_PACKAGE = re.compile(r"(?<![^\s'\"])/[^\s'\"]*/(?:site|dist)-packages/")


def shown(text: str) -> str:
    """A text with its paths as people read them: from the working folder, or from a package on."""
    text = in_words(text)
    for folder in sys.path:  # whole, for they may hold spaces
        if folder.endswith(("site-packages", "dist-packages")):
            text = text.replace(f"{folder}{os.sep}", "")
    text = _OF_A_PACKAGE.sub("", text)  # those of another Python
    return text.replace(f"{Path.cwd()}{os.sep}", "")


def last_said(told: str) -> str:
    """Return the last line that a check has left on standard error, without its "error:"."""
    *_, last = ["", *filter(str.strip, told.splitlines())]
    return last.removeprefix(_spoken(CoreKind.ERROR_SAID(sentence="")))


def _spoken(text: str) -> str:
    """A text in the language that people read; what says it is imported where it is asked for."""
    from twincheck.common.system.extras import in_language

    return in_language(text)


@dataclass(frozen=True)
class Place:
    """Lines of a side's source: the one that is meant, and those around it."""

    file: str
    line: int
    lines: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        return shown(f"{self.file}:{self.line}")

    def text(self) -> str:
        """The lines with their numbers, an arrow before the one that is meant."""
        return "\n".join(
            f"{'->' if number == self.line else '  '} {number:5} {text}"
            for number, text in self.lines
        )


@dataclass(frozen=True)
class Finding:
    """One cause, as docs/result.schema.json has it (docs/for-programs.md says how to use it)."""

    sentence: str
    verdict: str
    reasons: tuple[str, ...] = ()  # what more is said of it, such as how the line is wrong
    step: int | None = None
    key: str | None = None
    module: str | None = None
    torch: Place | None = None
    paddle: Place | None = None
    numbers: Mapping[str, object] = field(default_factory=dict)
    settings: tuple[Mapping, ...] = ()
    edits: tuple[Mapping, ...] = ()
    commands: tuple[Mapping, ...] = ()
    further: tuple[Mapping, ...] = ()

    @classmethod
    def of(cls, told: Mapping) -> "Finding":
        """A finding of the document."""
        values = {name: told[name] for name in ("verdict", "step", "key", "module")}
        values["sentence"], *more = map(read_reason, told["reasons"])
        values |= {side: _place(told[side]) for side in _SIDES}
        lists = {name: tuple(told[name]) for name in ("settings", "edits", "commands", "further")}
        return cls(**values, reasons=tuple(more), numbers=told["numbers"], **lists)

    def message(self) -> str:
        """The sentence, the numbers and the lines of both sides."""
        sentence = Kind.OF_STEP(step=self.step, said=self.sentence) if self.step else self.sentence
        lines = [_spoken(sentence)]
        if self.key:
            lines.append(f"  {self.verdict} {self.key}")
        gap, allowed = self.numbers.get("gap"), self.numbers.get("allowed")
        if gap is not None and allowed is not None:
            lines.append(f"  {_spoken(Kind.GAP_AND_ALLOWED(gap=gap, allowed=allowed))}")
        lines += [f"  {_spoken(reason)}" for reason in self.reasons]
        for side in _SIDES:
            place = getattr(self, side)
            if place is not None:
                lines += [f"  {side:7} {place}", *("    " + t for t in place.text().splitlines())]
        return "\n".join(lines)


def _place(told: Mapping | None) -> Place | None:
    if told is None or told["file"] is None or told["line"] is None:
        return None
    lines = tuple((each["number"], each["text"]) for each in told["lines"])
    return Place(told["file"], told["line"], lines)


class NotChecked(ValueError):
    """Two models that could not be compared, in a sentence; `args` has it in English."""

    def __str__(self) -> str:
        return _spoken(self.args[0])


class Result:
    """The result of twincheck.check.

    aligned    whether all that decides agrees
    findings   a Finding for each cause, the most important first; `first` of them, or None
    word       ALIGNED, NOT ALIGNED or NOT COMPARED; `modes` that were run
    page       the page of all rows; `folder` has the logs, too
    document   all of it, as --json has it; `to_json()` as text
    """

    def __init__(self, document: dict, folder: Path):
        self.document, self.folder = document, folder
        self.word: str = document["overall"]
        self.aligned: bool = document["exit_code"] == 0
        self.modes: tuple[str, ...] = tuple(document["modes"])
        self.findings = tuple(Finding.of(told) for told in document["findings"])

    def __bool__(self) -> bool:
        """Return whether all that decides agrees, for `assert twincheck.check(...)`."""
        return self.aligned

    @property
    def first(self) -> Finding | None:
        """The most important finding; None where there is none."""
        return self.findings[0] if self.findings else None

    @property
    def page(self) -> Path:
        """The page of all rows, of the steps together."""
        return self.folder / PAGE

    def to_json(self) -> str:
        """The document as text (docs/result.schema.json)."""
        return json.dumps(self.document, indent=1)

    @property
    def summary(self) -> str:
        """The result in a line."""
        return mapped(read_reason(self.document["summary_reasons"][0]), shown)

    def message(self) -> str:
        """Return what a failing test says: a summary, the first finding with both lines, others."""
        lines = [_spoken(self.summary)]
        if self.first is not None:
            lines += [self.first.message()]
        others = self.findings[1:]
        lines += [_spoken(Kind.FINDING_TOO(finding=one.sentence)) for one in others[:_OFTEN]]
        if len(others) > _OFTEN:
            lines.append(_spoken(Kind.FINDINGS_LEFT_OUT(count=len(others) - _OFTEN)))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.message()

    def _repr_html_(self) -> str:
        """A table of the steps, the first finding with both sources, and a link to the page."""
        from twincheck.common.report.sentences import titled

        heads = Kind.HEADING_STEP, Kind.HEADING_RESULT, Kind.HEADING_TENSORS, Kind.HEADING_MODES
        head = f"<tr>{''.join(f'<th>{_spoken(head())}' for head in heads)}</tr>"
        rows = "".join(
            f"<tr><td>{_spoken(Kind.STEP_NAMED(step=one['step'], title=titled(one['title'])))}"
            f"<td>{html.escape(one['overall'])}"
            f"<td>{_counts(one['counts'])}<td>{', '.join(one['modes'])}</tr>"
            for one in self.document["steps"]
        )
        summary = html.escape(_spoken(self.summary))
        parts = [f"<p><b>{summary}</b></p><table>{head}{rows}</table>"]
        if self.first is not None:
            parts.append(_first_html(self.first))
        link = f'<a href="{html.escape(_link(self.page))}">{_spoken(Kind.PAGE_LINKED())}</a>'
        parts.append(f"<p>{link}</p>")
        return "".join(parts)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {html.escape(verdict)}" for verdict, count in counts.items())


def _first_html(first: Finding) -> str:
    sources = "".join(
        f"<td style='vertical-align:top;text-align:left'>{side} {html.escape(str(place))}"
        f"<pre>{html.escape(place.text())}</pre></td>"
        for side in _SIDES
        if (place := getattr(first, side)) is not None
    )
    told = html.escape(first.message().partition(f"\n  {_SIDES[0]}")[0])
    return f"<pre>{told}</pre><table><tr>{sources}</tr></table>"


def _link(page: Path) -> str:
    """The page from the working folder, where it is below: a notebook's links begin there."""
    try:
        return page.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return page.as_uri()
