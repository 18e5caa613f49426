"""Forward in float32 and in half precision, top-k, and reference values for a unit test."""

import re
from collections.abc import Iterator, Sequence

from twincheck.common.logs.key import Key
from twincheck.extras.pr_report.claims import (
    Claim,
    Kind,
    claim,
    largest,
    largest_of,
    met,
    notes,
    number,
    red_rows,
    run_name,
    shape,
    steps_table,
    tensors,
    value,
    worst,
)
from twincheck.extras.pr_report.document import Code, Folded, Say, Table
from twincheck.extras.pr_report.results import Found, Run


def _outputs(runs: Sequence[Run]) -> Iterator[tuple[Run, dict]]:
    for run in runs:
        for output in run.facts["outputs"]:
            yield run, output


_HEAD = "dtype seed case output"


def _head(run: Run, one: dict) -> tuple[str, ...]:
    """What an output's line begins with."""
    name = one["key"].removeprefix(f"{one['case']}/")
    return (run.dtype, str(run.seed), one["case"], f"`{name}`")


def forward_claims(found: Found, kind: Kind, half: bool = False) -> Iterator[Claim]:
    measure, limit = kind.half if half else kind.forward
    for run in found.of(1, half):
        values = [output[measure] for _, output in _outputs([run])]
        off = None if not values or None in values else max(values)
        passed = None if not values else off is not None and off < limit
        below = Say("below", {"what": Say(measure), "value": f"{limit:g}"})
        evidence = "half" if half else "forward"
        yield claim(evidence, run, largest_of(measure, off), below, passed)


def forward(found: Found, kind: Kind, half: bool = False) -> list:
    runs = found.of(1, half)
    if not runs:
        return []
    name = "half" if half else "forward"
    measure, limit = kind.half if half else kind.forward
    blocks: list = [Say(f"{name}_said")]
    rows, ours, more = [], [], []
    for run, one in _outputs(runs):
        head = _head(run, one)
        figures = (number(one[n]) for n in ("mean", "max", "rms", "p99"))
        cosine = "–" if one["cosine"] is None else f"{one['cosine']:.12f}"
        passed = one[measure] is not None and one[measure] < limit
        rows.append((*head, shape(one["shape"]), *figures, cosine, met(passed)))
        row = one["row"]
        numbers = (row["noise_ref"], row["noise_cand"], row["gap"], row["allowed"])
        ours.append((*head, *map(number, numbers), Say("v_" + row["verdict"])))
        numbers = (*one["means"], *one["deviations"])
        relative = (number(one[n]) for n in ("relative_mean", "relative_max"))
        more.append((*head, *map(value, numbers), *relative))
    if rows:
        fields = {"what": Say(measure), "value": f"{limit:g}"}
        blocks += [
            Say("limit_said", fields),
            Table(f"{_HEAD} shape mean max rms p99 cosine limit_met", rows),
        ]
        columns = f"{_HEAD} error_torch error_paddle gap allowed our_verdict"
        blocks += [Say(f"{name}_ours"), Table(columns, ours)]
        columns = f"{_HEAD} mean_torch mean_paddle std_torch std_paddle relative_mean relative_max"
        blocks.append(Folded(Say("more_figures"), [Table(columns, more)]))
    else:
        blocks.append(Say("no_outputs"))
    for run in runs:
        if half:
            blocks += [Say("worse_said", {"run": run_name(run), "worse": _worse(run)})]
        blocks += _layers(run)
        blocks += red_rows(run)
        blocks += notes(run)
    if half:
        steps = [*found.of(3, True), *found.of(4, True)]
        if steps:
            blocks += [Say("half_steps"), steps_table(steps)]
        blocks += [block for run in steps for block in (*red_rows(run), *notes(run))]
    return blocks


def _layers(run: Run) -> list:
    """The first case layer by layer, the parts of its first layer, then every case in a line."""
    rows_of: dict[str, list[tuple[Key, dict]]] = {}
    for row in run.said["rows"]:
        key = Key.parse(row["key"], run.cases)
        if not (key.kind or key.is_input or key.local or key.choice):
            rows_of.setdefault(key.case, []).append((key, row))
    blocks: list = []
    first = next(iter(rows_of.items()), None)
    if first is None:
        return blocks
    case, rows = first
    whole = [(k, r) for k, r in rows if not re.search(r"\.\d+\.", f"{k.site}")]
    fields = {"case": case.rstrip("/") or "main", "run": run_name(run)}
    blocks += [Say("layers_said", fields), tensors(whole)]
    inner = next((m for k, _ in rows if (m := re.match(r"(.*?\.\d+)\.", k.site))), None)
    if inner is not None:
        parts = [(k, r) for k, r in rows if k.site.startswith(inner[1] + ".")]
        title = Say("parts_said", {"layer": inner[1], "case": fields["case"]})
        blocks.append(Folded(title, [tensors(parts)]))
    title = Say("all_said", {"count": len(rows), "case": fields["case"]})
    blocks.append(Folded(title, [tensors(rows)]))
    lines = []
    for case, own in rows_of.items():
        told = [row for _, row in own]
        figures = (number(largest(told, n)) for n in ("mean_abs", "max_abs"))
        verdict = Say("v_" + worst([row["verdict"] for row in told]))
        lines.append((case.rstrip("/") or "main", str(len(own)), *figures, verdict))
    table = Table("case rows largest_mean largest_max our_verdict", lines)
    return [*blocks, Say("cases_said"), table]


# ---- top k, unit tests


def _top_outputs(found: Found) -> list[tuple[Run, dict]]:
    """Logits; where nothing is called so, every output that is a list of scores a sample."""
    told = [(run, one) for run, one in _outputs(found.of(1, None)) if "top" in one]
    logits = [(run, one) for run, one in told if "logits" in one["key"].rpartition("/")[2]]
    return logits or [(run, one) for run, one in told if len(one["shape"]) == 2]


def top_claims(found: Found, kind: Kind) -> Iterator[Claim]:
    """Their measure: the ids at one position, that of the next token; the worst case's."""
    told = _top_outputs(found)
    for run in {id(run): run for run, _ in told}.values():
        own = [one for r, one in told if r is run]
        same = [sum(map(int.__eq__, *one["next_ids"])) for one in own]
        least = min(range(len(own)), key=lambda i: same[i] / own[i]["top"])
        every, positions = (sum(one[name] for one in own) for name in ("same_top", "positions"))
        fields = {"same": same[least], "of": own[least]["top"], "every": every, "all": positions}
        passed = same[least] == own[least]["top"]
        yield claim("top", run, Say("same_ids", fields), Say("percent", {"value": "100"}), passed)


def top(found: Found, kind: Kind) -> list:
    rows, ids = [], []
    for run, one in _top_outputs(found):
        head = _head(run, one)
        cosine = "–" if one["cosine"] is None else f"{one['cosine']:.12f}"
        same = (f"{one[name]}/{one['positions']}" for name in ("same_top1", "same_top"))
        rows.append((*head, str(one["top"]), *same, cosine))
        ids.append((*head, *(", ".join(map(str, side)) for side in one["next_ids"])))
    if not rows:
        return []
    table = Table(f"{_HEAD} k same_top1 same_top cosine", rows)
    last = Table(f"{_HEAD} torch paddle", ids)
    return [Say("top_said"), table, Say("top_ids_said"), last]


def unit_claims(found: Found, kind: Kind) -> Iterator[Claim]:
    for run in found.of(1):
        for one in run.facts["outputs"][:1]:
            pairs = list(zip(*one["first"], strict=True))
            undefined = any(None in pair for pair in pairs)
            off = None if undefined else max(abs(a - b) for a, b in pairs)
            limit = Say("below", {"what": Say("max"), "value": "0.01"})
            passed = off is not None and off < 1e-2
            yield claim("unit", run, largest_of("max", off), limit, passed)


def unit(found: Found, kind: Kind) -> Iterator:
    for run in found.of(1):
        for one in run.facts["outputs"][:1]:
            fields = {"count": len(one["first"][0]), "output": one["key"], "run": run_name(run)}
            lists = [", ".join(map(value, values)) for values in one["first"]]
            lines = "torch = [{}]\npaddle = [{}]".format(*lists)
            yield from [Say("unit_said", fields), Code(lines, "python")]


def half(found: Found, kind: Kind) -> list:
    return forward(found, kind, half=True)


def half_claims(found: Found, kind: Kind) -> Iterator[Claim]:
    yield from forward_claims(found, kind, half=True)
    for run in [*found.of(3, True), *found.of(4, True)]:
        yield claim("half", run, _worse(run), "–", None)


def _worse(run: Run) -> Say:
    """How many tensors Paddle computes less exactly than PyTorch in half precision."""
    worse = sum(row["verdict"] == "PRECISION" for row in run.said["rows"])
    return Say("worse", {"count": worse, "of": len(run.said["rows"])})
