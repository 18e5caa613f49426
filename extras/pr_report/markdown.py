"""A report for a pull request as Markdown: report.md.j2, filled with results, in a language."""

import shutil
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import quote

from twincheck.common.report import marks
from twincheck.common.system.extras import languages
from twincheck.common.system.files import whole
from twincheck.common.system.reasons import ENGLISH, read_reason
from twincheck.extras.pr_report import claims, tables
from twincheck.extras.pr_report.results import Found, Run
from twincheck.extras.pr_report.words import heading, words

TEMPLATE = Path(__file__).with_name("report.md.j2")
_MOST_ROWS = 400  # of a table; a longer one says how many it leaves out


def markdown(found: Found, kind: str, language: str, stem: str) -> tuple[str, dict[str, object]]:
    """Return the whole text, and its pictures: the name beside it, from `stem` on -> source."""
    from jinja2 import Environment, StrictUndefined

    speak, limits = partial(words, language), claims.KINDS[kind]
    spoken = languages() if language != "en" else ()
    others = next((one.LANGUAGE for one in spoken), ENGLISH)
    pictures: dict[str, object] = {}

    def picture(source: object) -> str:
        name = f"{stem}-{len(pictures) + 1}.png" if pictures else f"{stem}.png"
        pictures[name] = source
        return quote(name)

    def spoken_of(told: object) -> str:
        return others.said(read_reason(told))

    def told(measured: claims.Told) -> str:
        if measured is None:
            return "–"
        word, fields = measured
        return speak(word, **{n: speak(v) if n == "what" else v for n, v in fields.items()})

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        cosine=lambda value: "–" if value is None else f"{value:.12f}",
        dash=lambda value: "–" if value is None else value,
        either=lambda value, yes, no: "–" if value is None else speak(yes if value else no),
        head=_head,
        number=claims.number,
        numbers=lambda row, names: [claims.number(row.get(name)) for name in names],
        percent=lambda share: "–" if share is None else f"{100 * share:.4f}%",
        plain=lambda text: text.replace("\n", "⏎").replace("|", "¦").replace("`", "ʼ"),
        plain_name=claims.plain_name,
        # What a check said, of which its result has the reasons too.
        notes_of=lambda said: (said.get("guide") or [{}])[0].get("notes") or said.get("notes"),
        note=lambda row: others.joined(map(spoken_of, row.get("reasons") or [row["note"]]), ""),
        spoken=spoken_of,
        told=told,
        value=lambda number: "–" if number is None else f"{number:.9g}",  # as float32 has digits
        verdict=lambda verdict: speak(f"v_{verdict}"),
        word=speak,
        worse=claims.worse,
    )
    for function in (tables.conversions, tables.drift, tables.largest, tables.unequal):
        environment.filters[function.__name__] = function
    environment.filters.update(split_layers=tables.split_layers, worst=tables.worst)
    lines, number = claims.claims(found, limits), count(1)
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        found=found,
        kind=kind,
        limits=limits,
        claims=lines,
        failed=[one for _, one in sorted({c.run: c for c in lines[::-1] if c.red}.items())],
        missing=claims.missing(found, lines),
        to_repeat=claims.commands(found),
        least_agreement=claims.AGREEMENT,
        most_rows=_MOST_ROWS,
        layers_of=tables.layers,
        losses_of=tables.losses,
        gradients_of=tables.gradients,
        optimizers_of=tables.optimizers,
        top_outputs=tables.top_outputs,
        words=speak,
        comma="、" if language == "zh" else "; ",
        heading=lambda text: heading(language, next(number), text),
        columns=lambda names: _columns([speak(name) for name in names.split()]),
        line=_line,
        picture=picture,
        zip=zip,
    )
    return text.rstrip() + "\n", pictures


def _head(run: Run, output: dict) -> list[str]:
    """Return the first cells of an output's line."""
    name = output["key"].removeprefix(f"{output['case']}/")
    return [run.dtype, str(run.seed), output["case"], f"`{name}`"]


def _line(cells: Sequence[object]) -> str:
    escaped = (str(cell).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _columns(names: Sequence[str]) -> str:
    return f"{_line(names)}\n{_line(['---'] * len(names))}"


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
