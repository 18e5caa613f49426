"""Steps 2 to 5: metric, loss, gradients, optimizers, training."""

import re
from collections.abc import Callable, Iterator

from twincheck.common.logs.key import Key
from twincheck.extras.pr_report.claims import (
    Claim,
    Kind,
    claim,
    judged_rows,
    largest,
    largest_of,
    loss_table,
    met,
    notes,
    number,
    red_rows,
    run_name,
    steps_table,
    tensors,
    value,
    worst,
)
from twincheck.extras.pr_report.document import Folded, Picture, Say, Table
from twincheck.extras.pr_report.results import Found, Run


def step_claims(step: int, evidence: str) -> Callable:
    def claims(found: Found, kind: Kind) -> Iterator[Claim]:
        for run in found.of(step):
            measured = _measured(run, evidence)
            if run.said["guide_passed"] is None or evidence == "gradients":
                yield claim(evidence, run, measured, "–", None)
            else:
                limit = Say("guide_limit", {"value": f"{run.said['guide_threshold']:g}"})
                yield claim(evidence, run, measured, limit, run.said["guide_passed"])

    return claims


def _measured(run: Run, evidence: str) -> Say:
    """The largest difference of what the guide asks for in a step; of gradients, of all."""
    told = run.facts
    if evidence == "gradients":
        return largest_of("max", largest(_rows_of(run, evidence), "max_abs"))
    if evidence == "metric":
        pairs = [(torch, paddle) for _, torch, paddle, _ in told["scores"]]
    else:
        losses = {k: v for k, v in told["values"].items() if k.rpartition("/")[2] == "loss"}
        asked = [both for key, both in losses.items() if re.search(r"(^|/)sgd/\d{3}/", key)]
        pairs = asked or list(losses.values())  # of an optimizer's steps the guide asks for SGD's
    values = [None if None in both else abs(both[0] - both[1]) for both in pairs]
    off = None if not values or None in values else max(values)
    return largest_of("score_difference" if evidence == "metric" else "loss_difference", off)


def _rows_of(run: Run, evidence: str) -> list[dict]:
    """The rows of a step that a section is about."""
    keyed = [(Key.parse(row["key"], run.cases), row) for row in run.said["rows"]]
    keyed = [(k, r) for k, r in keyed if not k.site.startswith("witness/")]
    if evidence == "gradients":
        return [r for k, r in keyed if k.kind == "grad" and not k.run]
    if evidence == "optimizer":
        return [r for k, r in keyed if k.run]
    if evidence == "loss":
        return [r for k, r in keyed if k.site == "loss" or k.site.startswith("losses/")]
    return [r for _, r in keyed]


def metric(found: Found, kind: Kind) -> Iterator:
    for run in found.of(2):
        yield from [*_scores(run, "metric_said"), steps_table([run]), *red_rows(run), *notes(run)]


def _scores(run: Run, said: str) -> list:
    """The scores that a run gave, below what is said of them; nothing where it gave none."""
    rows = []
    for name, torch, paddle, limit in run.facts["scores"]:
        off = None if torch is None or paddle is None else abs(torch - paddle)
        passed = met(off is not None and off <= limit)
        rows.append((name, value(torch), value(paddle), number(off), f"{limit:g}", passed))
    table = Table("score torch paddle difference limit limit_met", rows)
    return [Say(said), table] if rows else []


def loss(found: Found, kind: Kind) -> Iterator:
    for run in found.of(3):
        verdicts = {row["key"]: row["verdict"] for row in run.said["rows"]}
        rows = [
            (
                f"`{key}`",
                *map(value, both),
                number(abs(both[0] - both[1])),
                Say("v_" + verdicts[key]),
            )
            for key, both in run.facts["values"].items()
            if key in verdicts
        ]
        columns = "loss_name torch paddle difference our_verdict"
        trained = [row for row in rows if row[0].strip("`").rpartition("/")[2] == "loss"]
        others = [row for row in rows if row not in trained]
        yield from [Say("loss_said", {"run": run_name(run)}), Table(columns, trained)]
        if others:
            title = Say("losses_said", {"count": len(others)})
            yield Folded(title, [Table(columns, others)])
        yield from [*red_rows(run), *notes(run)]


def gradients(found: Found, kind: Kind) -> Iterator:
    for run in found.of(4):
        of_case: dict[str, list[dict]] = {}
        for row in _rows_of(run, "gradients"):
            of_case.setdefault(Key.parse(row["key"], run.cases).case, []).append(row)
        lines = []
        for case, rows in of_case.items():
            figures = (number(largest(rows, n)) for n in ("mean_abs", "max_abs"))
            zero = str(sum(bool(row.get("noise_only")) for row in rows))
            verdict = Say("v_" + worst([row["verdict"] for row in rows]))
            lines.append((case.rstrip("/") or "main", str(len(rows)), *figures, zero, verdict))
        table = Table("case gradients_count largest_mean largest_max zero our_verdict", lines)
        yield from [Say("gradients_said", {"run": run_name(run)}), table]
        first = next(iter(of_case.values()), [])
        keyed = [(Key.parse(row["key"], run.cases), row) for row in first]
        title = Say("gradients_all", {"count": len(keyed)})
        yield Folded(title, [tensors(keyed)])
        yield from [*red_rows(run), *notes(run)]


_LOSS_OF_STEP = re.compile(r"(?P<setup>.*?)/?(?P<step>\d{3})/loss")


def optimizer(found: Found, kind: Kind) -> Iterator:
    for run in found.of(4):
        losses: dict[str, list] = {}
        for key, both in run.facts["values"].items():
            step = _LOSS_OF_STEP.fullmatch(key)
            if step:
                losses.setdefault(step["setup"], []).append((int(step["step"]) + 1, *both))
        lines = []
        for setup, told in losses.items():
            rows = [row for row in run.said["rows"] if row["key"].startswith(f"{setup}/")]
            largest = max(abs(a - b) for _, a, b in told)
            verdict = Say("v_" + worst([row["verdict"] for row in rows]))
            lines.append((f"`{setup}`", str(len(told)), str(len(rows)), number(largest), verdict))
        if not lines:
            continue
        fields = {"run": run_name(run)}
        yield Say("optimizer_said", fields)
        yield Table("setup steps rows largest_loss our_verdict", lines)
        for setup, told in losses.items():
            title = Say("setup_said", {"setup": setup})
            yield Folded(title, [loss_table(told, every=True)])


def optimizer_claims(found: Found, kind: Kind) -> Iterator[Claim]:
    for run in found.of(4):
        alone = Found(found.model, found.pair, [run])
        if any(optimizer(alone, kind)):
            yield from step_claims(4, "optimizer")(alone, kind)


# ---- training


def training_claims(found: Found, kind: Kind) -> Iterator[Claim]:
    for run in found.of(5):
        told = run.facts.get("training") or {}
        measured = largest_of("loss_difference", told.get("largest"))
        yield claim("training", run, measured, Say("by_eye"), None)


_OF_A_TRAINING = ("train/drift", "train/final", "train/order", "train/lr", "seeds/")
_OF_LOSSES = ("mean", "median", "mean_abs", "relative", "largest")


def training(found: Found, kind: Kind) -> Iterator:
    for run in found.of(5):
        told = run.facts.get("training")
        yield Say("training_said", {"run": run_name(run)})
        settings = [(f"`{n}`", str(v)) for n, v in run.said.get("settings", {}).items()]
        yield Table("item value", settings)
        if told:
            rows = [
                (Say("steps"), str(told["steps"])),
                (Say("equal_first"), str(told["equal_first"])),
                *((Say(f"d_{n}"), number(told[n])) for n in _OF_LOSSES),
                (Say("signs"), f"{told['above']}/{told['below']}"),
            ]
            yield from [loss_table(told["shown"]), Table("item value", rows)]
        picture = run.path / "train_curves.png"
        if picture.is_file():
            yield Picture(Say("curves", {"model": found.model}), picture)
        yield from _scores(run, "scores_said")
        drift = [row for row in run.said["rows"] if row["key"].startswith(_OF_A_TRAINING)]
        yield from [Say("drift_said"), judged_rows(drift), *red_rows(run), *notes(run)]
