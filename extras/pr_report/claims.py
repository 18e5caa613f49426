"""Whom a report is for, with which limits; and what every section says in the same way."""

from collections.abc import Sequence
from dataclasses import dataclass

from twincheck.common.logs.key import Key
from twincheck.common.verdict.row import FAILING, SEVERITY
from twincheck.extras.pr_report.document import Code, Folded, Say, Table
from twincheck.extras.pr_report.results import Run

_MOST_WHY = 20  # rows whose notes are shown
MOST_ROWS = 400  # of a table; a longer one says how many it leaves out
_KEY_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 300, 500, 1000, 2000)


@dataclass(frozen=True)
class Kind:
    """For whom a report is: what is measured against which limit, and in which order."""

    forward: tuple[str, float]  # mean or max of an output's difference
    half: tuple[str, float]
    order: tuple[str, ...]


_LANGUAGE = ("forward", "half", "top", "generation", "agreement", "weights", "loss", "gradients")
_VISION = ("forward", "agreement", "half", "weights", "metric", "loss", "gradients", "optimizer")
_CONTEST = ("guide", "forward", "metric", "loss", "gradients", "optimizer", "training", "weights")
KINDS = {
    "formers": Kind(
        ("mean", 1e-2),
        ("mean", 1e-2),
        (*_LANGUAGE, "optimizer", "training", "trainers", "metric", "unit", "guide"),
    ),
    "vision": Kind(
        ("max", 1e-4),
        ("max", 1e-2),
        (*_VISION, "training", "trainers", "top", "generation", "unit", "guide"),
    ),
    "contest": Kind(
        ("mean", 1e-5),
        ("mean", 1e-2),
        (*_CONTEST, "trainers", "half", "agreement", "top", "generation", "unit"),
    ),
}
AGREEMENT = 0.998
# What of today's reports a reader asks for, in the order of the table, and the guide's steps.
EVIDENCE = (
    *("forward", "half", "generation", "top", "agreement", "weights", "training", "trainers"),
    *("unit", "metric", "loss", "gradients", "optimizer"),
)


@dataclass(frozen=True)
class Claim:
    """A line of the summary: what was measured, their limit and whether it is met, our verdict."""

    evidence: str
    run: str  # which result
    measured: object  # a text or a Say
    limit: object
    met: bool | None
    verdict: str
    red: bool
    said: str = ""  # what is wrong, in the check's own words


def number(value: float | None) -> str:
    """A difference in three digits; 0 is exactly 0."""
    return "–" if value is None else "0" if value == 0 else f"{value:.2e}"


def value(number: float | None) -> str:
    """A loss or a score, in all digits of a float32."""
    return "–" if number is None else f"{number:.9g}"


def worst(verdicts: Sequence[str]) -> str:
    """The worst of some rows' verdicts; a dash for none."""
    return max(verdicts, key=SEVERITY.index, default="–")


def met(passed: bool | None) -> object:
    """Whether their limit is met."""
    return "–" if passed is None else Say("met" if passed else "not_met")


def run_name(run: Run) -> str:
    """Which result a line is of."""
    other = f" {run.other}" if run.other else ""
    asked = run.said["asked"]
    told = {n: " ".join(map(str, v)) if isinstance(v, list) else v for n, v in asked.items()}
    more = [f"{n.replace('_', '-')} {v}" for n, v in told.items() if n != "dtype"]
    return ", ".join([f"step {run.step}{other} {run.dtype}", *more])


def claim(evidence: str, run: Run, measured: object, limit: object, passed: bool | None) -> Claim:
    """A claim on a run: its verdict, and where it is red what its check said first."""
    said = run.said.get("headline", "")
    return Claim(
        evidence, run_name(run), measured, limit, passed, run.said["verdict"], run.red, said
    )


def largest(rows: Sequence[dict], name: str) -> float | None:
    """The largest of the rows' differences; None where one of them is undefined."""
    values = [r[name] for r in rows if r[name] is not None or r["verdict"] in FAILING]
    return None if not values or None in values else max(values)


def tensors(rows: Sequence[tuple[Key, dict]], more: bool = False) -> Table:
    """Tensors, a row each, without their case; `more`: with what each side's own error is."""
    figures = ("mean_abs", "max_abs", *(("noise_ref", "noise_cand") if more else ()))
    figures += ("gap", "allowed")
    lines = [
        (
            f"`{str(key)[len(key.case) :]}`",
            *(number(row.get(n)) for n in figures),
            Say("v_" + row["verdict"]),
        )
        for key, row in rows[:MOST_ROWS]
    ]
    if len(rows) > MOST_ROWS:
        left = Say("left_out", {"count": len(rows) - MOST_ROWS})
        lines.append((left, *"–" * (len(figures) + 1)))
    own = "error_torch error_paddle " if more else ""
    return Table(f"tensor mean max {own}gap allowed our_verdict", lines)


def red_rows(run: Run) -> list:
    """Every row that does not pass, the first of them with its lines."""
    rows = [row for row in run.said["rows"] if row["verdict"] in FAILING]
    rows.sort(key=lambda row: row["verdict"] == "CARRIED")
    if not rows or not run.red:
        return []
    blocks: list = [Say("red_rows", {"run": run_name(run), "count": len(rows)})]
    blocks.append(tensors([(Key.parse(row["key"]), row) for row in rows], more=True))
    why = [f"{row['key']}: {row['note']}" for row in rows[:_MOST_WHY] if row.get("note")]
    blocks += [Code("\n".join(why))] if why else []
    places = run.said.get("places", {})
    if places:
        blocks.append(Say("places", {side: place for side, place in places.items()}))
    return blocks


def notes(run: Run) -> list:
    """What the check noted, in its own words."""
    return noted(run_name(run), run.said["notes"])


def noted(name: str, told: Sequence[str]) -> list:
    """The same of any result."""
    return [Folded(Say("notes", {"run": name}), [Code("\n".join(told))])] if told else []


def judged_rows(rows: Sequence[dict]) -> Table:
    """Rows that no tensor stands behind."""
    lines = [
        (f"`{r['key']}`", number(r.get("gap")), number(r.get("allowed")), Say("v_" + r["verdict"]))
        for r in rows
    ]
    return Table("row difference allowed our_verdict", lines)


def largest_of(what: str, value: float | None) -> Say:
    """The largest of some differences, in words."""
    return Say("largest", {"what": Say(what), "value": number(value)})


def shape(sizes: Sequence[int]) -> str:
    """Numbers as a list is written."""
    return "[" + ", ".join(map(str, sizes)) + "]"


def steps_table(runs: Sequence[Run]) -> Table:
    """Whole results, a line each."""
    return Table("result rows mean max our_verdict", list(map(_step_row, runs)))


def _step_row(run: Run) -> tuple:
    rows = run.said["rows"]
    numbers = (number(largest(rows, name)) for name in ("mean_abs", "max_abs"))
    return (f"`{run_name(run)}`", str(len(rows)), *numbers, Say("v_" + run.said["verdict"]))


def loss_table(told: Sequence[tuple], every: bool = False) -> Table:
    """Both sides' losses beside each other: of a long training at the steps that reports show."""
    kept = told
    if not every and len(told) > len(_KEY_STEPS) + 4:
        last = told[-1][0]
        kept = [one for one in told if one[0] in _KEY_STEPS or one[0] == last]
    rows = [
        (str(step), value(a), value(b), "–" if None in (a, b) else f"{b - a:+.9f}")
        for step, a, b in kept
    ]
    return Table("step_number torch paddle paddle_less_torch", rows)
