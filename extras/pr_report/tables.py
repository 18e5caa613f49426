"""What a report's tables list: cases, layers, losses, optimizers, and the worst of their rows."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from twincheck.common.logs.key import Key
from twincheck.common.verdict.row import FAILING, SEVERITY
from twincheck.extras.pr_report.results import Found, Run

Keyed = list[tuple[Key, dict]]  # rows, each with its key taken apart
_LOSS_OF_STEP = re.compile(r"(?P<setup>.*?)/?(?P<step>\d{3})/loss")
_OF_A_TRAINING = ("train/drift", "train/final", "train/order", "train/lr", "seeds/")


def worst(rows: Sequence[dict]) -> str:
    """Return the worst of some rows' verdicts; a dash for none."""
    return max((row["verdict"] for row in rows), key=SEVERITY.index, default="–")


def largest(rows: Sequence[dict], name: str) -> float | None:
    """Return the largest of the rows' differences; None where one of them is undefined."""
    values = [r[name] for r in rows if r[name] is not None or r["verdict"] in FAILING]
    return None if not values or None in values else max(values)


def _by_case(keyed: Iterable[tuple[Key, dict]]) -> dict[str, Keyed]:
    of_case: dict[str, Keyed] = {}
    for key, row in keyed:
        of_case.setdefault(key.case, []).append((key, row))
    return of_case


def _keyed(run: Run) -> Keyed:
    return [(Key.parse(row["key"], run.cases), row) for row in run.said["rows"]]


def layers(run: Run) -> dict[str, Keyed]:
    """Return the modules' outputs, case by case."""
    return _by_case(
        (k, r) for k, r in _keyed(run) if not (k.kind or k.is_input or k.local or k.choice)
    )


def split_layers(keyed: Keyed) -> tuple[list[dict], str | None, list[dict]]:
    """Return the rows inside no numbered layer, the first such layer's name, and its parts."""
    outer = [row for key, row in keyed if not re.search(r"\.\d+\.", key.site)]
    layer = next((m[1] for k, _ in keyed if (m := re.match(r"(.*?\.\d+)\.", k.site))), None)
    parts = [row for key, row in keyed if layer and key.site.startswith(f"{layer}.")]
    return outer, layer, parts


def gradients(run: Run) -> dict[str, Keyed]:
    """Return the gradients of the parameters before any optimizer's step, case by case."""
    keyed = [(k, r) for k, r in _keyed(run) if not k.site.startswith("witness/")]
    return _by_case((k, r) for k, r in keyed if k.kind == "grad" and not k.run)


def losses(run: Run) -> tuple[list[tuple], list[tuple]]:
    """Return what is trained on, and the loss's other forms: key, both values, verdict."""
    verdicts = {row["key"]: row["verdict"] for row in run.said["rows"]}
    values = run.facts["values"].items()
    told = [(key, *both, verdicts[key]) for key, both in values if key in verdicts]
    is_trained = [key.rpartition("/")[2] == "loss" for key, *_ in told]
    trained, others = (
        [one for one, its in zip(told, is_trained, strict=True) if its == wanted]
        for wanted in (True, False)
    )
    return trained, others


def optimizers(run: Run) -> list[tuple[str, list[tuple], list[dict], float]]:
    """Return each set-up of an optimizer: its steps' losses, its rows, how far losses differ."""
    told: dict[str, list] = {}
    for key, both in run.facts["values"].items():
        step = _LOSS_OF_STEP.fullmatch(key)
        if step:
            told.setdefault(step["setup"], []).append((int(step["step"]) + 1, *both))
    return [
        (
            setup,
            steps,
            [row for row in run.said["rows"] if row["key"].startswith(f"{setup}/")],
            max(abs(a - b) for _, a, b in steps),
        )
        for setup, steps in told.items()
    ]


def drift(run: Run) -> list[dict]:
    """Return the rows of a training that are of no tensor."""
    return [row for row in run.said["rows"] if row["key"].startswith(_OF_A_TRAINING)]


def top_outputs(found: Found) -> list[tuple[Run, dict]]:
    """Return logits; where nothing is called so, each output that is a list of scores a sample."""
    outputs = [(run, one) for run in found.of(1, None) for one in run.facts["outputs"]]
    told = [(run, one) for run, one in outputs if "top" in one]
    logits = [(run, one) for run, one in told if "logits" in one["key"].rpartition("/")[2]]
    return logits or [(run, one) for run, one in told if len(one["shape"]) == 2]


def unequal(rows: Sequence[dict], *ways: str) -> int:
    """Count the entries that do not come back with the same bits on one of these ways."""
    return sum(not all(row.get(way) for way in ways) for row in rows)


def conversions(rows: Sequence[dict]) -> list[tuple[tuple[str, str], int]]:
    """Return how many entries of each kind of layer are converted in which way."""
    return list(Counter((row["kind"], row["change"]) for row in rows).items())
