"""The gallery's pages, docs/gallery.md and docs/gallery.html, from stored results and findings.

Every count and verdict is read from the results; what is said by hand is in the findings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twincheck.common.report.terminal import TONES
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.files import write_text
from twincheck.examples.gallery.run import Check, Outcome, Result
from twincheck.examples.gallery.table import Finding, Line

PAGES = {"page.md.j2": ROOT / "docs" / "gallery.md", "page.html.j2": ROOT / "docs" / "gallery.html"}
STYLE = ROOT / "common" / "report" / "page" / "style.css"
COLUMNS = ((1, False), (3, False), (4, False), (1, True), (4, True))  # step, train
KINDS = {
    "theirs": "the published models differ",
    "default": "another default",
    "ours": "a fault of the workbench, which is corrected",
}


def heading(step: int, train: bool) -> str:
    """What a column is called."""
    return f"train {step}" if train else f"step {step}"


def write(lines: Sequence[Line], results: Sequence[Result], findings: Sequence[Finding]) -> None:
    """Write both pages, each whole or not at all."""
    for template, path in PAGES.items():
        write_text(path, render(template, lines, results, findings))


def render(
    template: str, lines: Sequence[Line], results: Sequence[Result], findings: Sequence[Finding]
) -> str:
    """One page's text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    jinja = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=template.endswith("html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters["cell"] = lambda text: text.replace("|", "\\|").replace("\n", " ")
    told = Told(list(lines), list(results), list(findings))
    style = STYLE.read_text(encoding="utf-8")
    return jinja.get_template(template).render(
        told=told, columns=COLUMNS, heading=heading, kinds=KINDS, tones=TONES, style=style
    )


def without_a_cause(results: Sequence[Result], findings: Sequence[Finding]) -> list[str]:
    """Pairs that are not aligned, and that no finding is about."""
    known = {name for finding in findings for name in finding.pairs}
    return [r.name for r in results if r.as_published.status != 0 and r.name not in known]


@dataclass(frozen=True)
class Told:
    """What the pages say, read from results and findings."""

    lines: list[Line]
    results: list[Result]
    findings: list[Finding]

    @property
    def families(self) -> Mapping[str, list[Result]]:
        """Family -> its results, in the order of the lines."""
        of = {line.name: line.family for line in self.lines}
        found: dict[str, list[Result]] = {}
        for result in self.results:
            found.setdefault(of[result.name], []).append(result)
        return found

    @property
    def aligned(self) -> list[Result]:
        """Those that are the same model."""
        return [result for result in self.results if result.as_published.status == 0]

    @property
    def differing(self) -> list[Result]:
        """Those that are not."""
        return [result for result in self.results if result.as_published.status == 1]

    @property
    def not_compared(self) -> list[Result]:
        """Those that could not be compared."""
        return [result for result in self.results if result.as_published.status == 2]

    @property
    def green_when_mended(self) -> list[Result]:
        """Of those that differ, those that are the same model with their mends."""
        return [r for r in self.differing if r.mended is not None and r.mended.status == 0]

    @property
    def set_up(self) -> list[Result]:
        """Those that twincheck new could set up."""
        return [result for result in self.results if not result.as_published.said]

    @property
    def checkouts(self) -> Mapping[str, list[Result]]:
        """The commits whose programs checked them -> which ones, most first."""
        found: dict[str, list[Result]] = {}
        for result in self.results:
            found.setdefault(result.checkout, []).append(result)
        return dict(sorted(found.items(), key=lambda each: -len(each[1])))

    @property
    def by_hand(self) -> list[Result]:
        """Those for which something was written by hand."""
        return [result for result in self.results if result.by_hand]

    @property
    def by_line(self) -> list[Result]:
        """Those that were set up with nothing written by hand."""
        return [result for result in self.set_up if not result.by_hand]

    @property
    def cpu_minutes(self) -> float:
        """Of all runs, those with mends too."""
        outcomes = [outcome for r in self.results for outcome in (r.as_published, r.mended)]
        return sum(outcome.cpu_seconds for outcome in outcomes if outcome is not None) / 60

    def versions(self, results: Sequence[Result]) -> list[str]:
        """What a family's pairs are of, each combination once."""
        told = (" against ".join(result.versions.values()) for result in results)
        return list(dict.fromkeys(told))

    def cell(self, outcome: Outcome, column: tuple[int, bool]) -> str:
        """The verdict of a column; empty where that was not run."""
        check = next((c for c in outcome.checks if (c.step, c.train) == column), None)
        if check is None:
            return ""
        return check.verdict if check.status != 2 else "not compared"

    def worst(self, outcome: Outcome) -> Check | None:
        """The first check that is not aligned."""
        return next((check for check in outcome.checks if check.status != 0), None)

    def about(self, name: str) -> list[Finding]:
        """The findings about a pair."""
        return [finding for finding in self.findings if name in finding.pairs]
