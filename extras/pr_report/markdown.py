"""A report for a pull request as Markdown: one structure (sections.py), in either language."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from twincheck.common.report import marks
from twincheck.common.system.extras import languages
from twincheck.common.system.files import whole
from twincheck.extras.pr_report.document import Code, Folded, Picture, Say, Section, Table
from twincheck.extras.pr_report.words import heading, joined, words


def markdown(title: Say, told: Sequence, language: str, stem: str) -> tuple[str, dict[str, object]]:
    """The whole text, and its pictures: the name beside it, which begins with `stem` -> source."""
    writer = _Writer(language, stem)
    lines = [f"# {writer.text(title)}", ""]
    number = 0
    for block in told:
        if not isinstance(block, Section):
            lines += [f"> {writer.text(block)}", ">"]
            continue
        number += 1
        lines += ["", f"## {heading(language, number, writer.text(Say(block.name)))}", ""]
        lines += [line for inner in block.blocks for line in writer.block(inner)]
    return "\n".join(lines).rstrip() + "\n", writer.pictures


def save_picture(source: Path | dict, target: Path) -> None:
    """Copy a picture, or draw two curves: torch's wide and light, Paddle's narrow upon it."""
    if isinstance(source, Path):
        with whole(target) as temporary:
            shutil.copyfile(source, temporary)
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    sides = (("torch", "PyTorch", marks.TORCH, 4.0), ("paddle", "Paddle", marks.PADDLE, 1.2))
    for side, label, mark, width in sides:
        axes.plot(source["steps"], source[side], label=label, color=mark["color"], linewidth=width)
    axes.set(xlabel="step", ylabel="loss")
    axes.legend()
    marks.save(figure, target)


class _Writer:
    def __init__(self, language: str, stem: str):
        self.language, self._stem = language, stem
        self.pictures: dict[str, object] = {}
        self._others = languages() if language != "en" else ()

    def _in_its_language(self, text: str) -> str:
        """What a check said, which is English in its result."""
        return next((other.translated(text) for other in self._others), text)

    def text(self, told: object) -> str:
        """A cell, a word or a sentence."""
        if not isinstance(told, Say):
            return str(told)
        fields = {
            name: joined(self.language, [self.text(one) for one in value])
            if isinstance(value, list)
            else (self._in_its_language(value) if name == "said" else self.text(value))
            for name, value in told.fields.items()
        }
        return words(self.language, told.word, fields)

    def block(self, block: object) -> list[str]:
        """The lines of a block, an empty one behind it."""
        if isinstance(block, Say):
            return [self.text(block), ""]
        if isinstance(block, Code):
            fence = "```" if "```" not in block.text else "~~~~"
            text = block.text if block.language else self._in_its_language(block.text)
            return [f"{fence}{block.language or 'text'}", text, fence, ""]
        if isinstance(block, Picture):
            number = f"-{len(self.pictures) + 1}" if self.pictures else ""
            name = f"{self._stem}{number}.png"
            self.pictures[name] = block.source
            return [f"![{self.text(block.told)}]({quote(name)})", ""]
        if isinstance(block, Folded):
            inner = [line for one in block.blocks for line in self.block(one)]
            summary = f"<summary>{_escaped(self.text(block.title))}</summary>"
            return ["<details>", summary, "", *inner, "</details>", ""]
        return self._table(block)

    def _table(self, table: Table) -> list[str]:
        names = [self.text(Say(name)) for name in table.columns.split()]
        rows = [[self.text(cell).replace("|", "\\|") for cell in row] for row in table.rows]
        lines = [f"| {' | '.join(row)} |" for row in (names, ["---"] * len(names), *rows)]
        return [*lines, ""]


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("`", "")
