"""What is wrong with a row, in one sentence before any number; and what decided it, with them."""

import math
import re
from collections.abc import Collection, Iterable, Mapping

from twincheck.common.logs.key import Key, parent_of
from twincheck.common.logs.pickle_machine import escaped as visible
from twincheck.common.logs.pickle_machine import printable
from twincheck.common.logs.sidecar import setting_text
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.row import AGREEING, FED, NO_STEP, NOT_FED, Row

_KINDS = {
    "weight": "the weight",
    "grad": "the gradient of",
    "moment1": "the first moment of",
    "moment2": "the second moment of",
    "velocity": "the velocity of",
}
# Of both sides' runs as a whole; any other claim is of one side's numbers alone.
_CLAIMS = {
    "train/drift": "the sides' losses drift further apart than rounding drives runs of one side",
    "train/order": "the sides trained on the samples in another order",
    "train/lr": "the sides trained with other learning rates",
    "train/final_": "the trainings end further apart than rounding drives runs of one side",
    "train/learnt": "the training shows nothing, since nothing was learnt",
    "init/": "a parameter begins with values that are distributed otherwise",
    "seeds/": "over the seeds the sides' scores differ by more than chance",
    "text": "the sides write other texts",
}
_SEED = re.compile(r"^seed_\d+/")
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*(e[-+]?\d+)?(?![\w])")
OTHER_NUMBERS = " (elsewhere other numbers)"  # of a sentence that stands for others too


def what_is_wrong(row: Row, class_name: str = "", cases: Collection[str] = ()) -> str:
    """One sentence on a row that does not pass.

    class_name  of the module that a probed value belongs to, as the torch side names it
    """
    if row.verdict == "UNDECIDED" and row.key.startswith("seeds/"):
        return "the guide's rule fails, and these seeds cannot tell that from chance"
    if row.measure == "claim":
        said = (told for begin, told in _CLAIMS.items() if _SEED.sub("", row.key).startswith(begin))
        side = row.key.rpartition("/")[2]
        side = f"the {side} side" if side in SIDES else "one side"
        return next(said, f"{side}'s own numbers contradict each other")
    if row.verdict == "UNDECIDED":
        return (
            "the float32 logs differ by more than passes; with both float64 logs it can be decided"
        )
    key = Key.parse(row.key, cases)
    site = printable(key.site)
    named = f"{site} ({class_name})" if class_name else site
    if row.key.endswith(":p"):
        return _of_dropout(row, key)
    if row.verdict == "INVALID":
        return row.note or "it cannot be compared"
    if row.by_itself:
        return f"fed torch's half precision values, Paddle is less exact at {named}"
    if row.verdict == "PRECISION":
        return "the same function, but Paddle's float32 is much less exact here"
    if row.verdict == "CARRIED":
        return "only what it was fed is wrong"
    if key.choice:
        return f"the {key.choice} that {site} chooses by are other numbers"
    if key.is_step:
        what = f"{_KINDS.get(key.kind, 'the')} {site}"
        return f"{what} is off after {_step(key.run)}"
    if key.kind == "grad":
        return f"the gradient of {site} is off"
    if key.kind == "grad_of":
        if key.is_input:
            return f"{named} hands another gradient back to what it was given"
        return f"another gradient comes back to what {named} gave"
    if key.is_input:
        around = parent_of(site.partition("/")[0]) or "the model itself"
        return f"{named} is given other values: look at the code of {printable(around)} before it"
    if row.inside:
        if row.fed == NOT_FED:
            return f"{named} gives another value; what it is given was not compared alone"
        return f"{named} computes something else from the same input"
    if site == "loss" or site.startswith("losses/"):
        return "the loss is off"
    return f"the model's {site} is off"


def _of_dropout(row: Row, key: Key) -> str:
    """The same of a dropout, whose row is its rate; a recurrent layer's is a row too."""
    site = printable((key.site + key.call).removesuffix(":p"))
    if row.verdict == "INVALID":
        return f"the dropout {site} is {row.note or 'on one side alone'}"
    rates = row.worst_ref, row.worst_cand
    if None in rates:
        return f"the dropout {site} has another rate"
    return f"the dropout {site} has the rate {rates[0]:g} in torch and {rates[1]:g} in Paddle"


def what_differs(row: Row, cases: Collection[str], settings: Mapping) -> tuple[str, tuple]:
    """The layer that goes wrong by how it is built, and (setting, torch's, Paddle's) of each other.

    Empty where none is known.

    settings  side -> layer -> what it was built with, as the sidecars say
    """
    key = Key.parse(row.key, cases)
    if row.verdict != "DIVERGED" or row.measure == "claim" or (key.is_input and not key.kind):
        return "", ()
    site = key.site.partition("/")[0]
    layers = [key.case + site, key.case + parent_of(site)]
    if key.local == "p":  # a dropout layer draws under the name of the module that calls it
        around = settings.get("torch", {})
        layers += [layer for layer in around if parent_of(layer) == layers[1]]
    for layer in layers:
        torch, paddle = (settings.get(side, {}).get(layer, {}) for side in SIDES)
        differing = tuple(
            (name, torch[name], paddle[name])
            for name in torch
            if name in paddle and not math.isclose(torch[name], paddle[name], rel_tol=1e-6)
        )
        if differing:
            return layer, differing
    return "", ()


def that_differs(name: str, torch: float, paddle: float) -> str:
    """Such as `epsilon is 1e-05 in torch and 1e-06 in Paddle`."""
    if name == "momentum":  # both as torch counts it, in the sidecars
        return (
            f"momentum is {torch:g} in torch and {1 - paddle:g} in Paddle, where {1 - torch:g} "
            "means the same (1 - torch's)"
        )
    its, mine = (setting_text(name, value) for value in (torch, paddle))
    return f"{name} is {its} in torch and {mine} in Paddle"


def _step(run: str) -> str:
    """`adam/003/` as a reader counts."""
    name, _, number = run.rstrip("/").rpartition("/")
    number = str(int(number) + 1) if number.isdecimal() else number
    return f"step {number} of {printable(name)}" if name else f"step {number}"


# ---- what decided --------------------------------------------------------------------------------


def number(value: float | None) -> str:
    """A figure in three digits; a dash where there is none."""
    return "–" if value is None else f"{value:.2e}"


def decided(row: Row) -> str:
    """Which of four ways decided a row, and its numbers, in one sentence; empty for none.

    plain: the four runs; measured: the noise that rounding makes; repeated: further runs; proven: a
    run that is fed torch's values, or whose operators or constants are made alike.
    """
    names = ("gap", "allowed", "noise_ref", "noise_cand", "scale")
    return decided_text(row).format(**{name: number(getattr(row, name)) for name in names})


def decided_text(row: Row) -> str:
    """That sentence with its numbers' names in braces: many rows have one."""
    lost = row.verdict == "PRECISION" or Kind.CLIPPED_LOSS in row.excuses
    if row.gap is None and not lost:
        alone = f"float32 alone: the difference may be {{allowed}} ({row.measure}); size {{scale}}"
        return "" if row.scale is None else alone
    if row.measure in ("claim", "count"):  # its note says what it is
        return "off by {gap}, allowed {allowed}"
    way, own, torchs = _way(row), "paddle's own error {noise_cand}", "torch's {noise_ref}"
    if lost:
        how = f" ({row.measure})" if row.by_itself else ""
        more = f"{own}{how} is more than {{allowed}}, beside {torchs}"
        return f"{way}: {more}; the float64 gap is {{gap}}; size {{scale}}"
    at_most = row.allowed is not None and row.gap <= row.allowed
    gap = f"the float64 gap {{gap}} is {'at most' if at_most else 'more than'} {{allowed}}"
    if row.verdict not in AGREEING:
        why = {"CARRIED": ", which what it was fed brings", "CONSTANT": f", of {Kind.OPERATOR()}"}
        gap += why.get(row.verdict, ", on torch's values" if way == "proven" else "")
        return (
            f"{way}: {gap}; own errors: torch {{noise_ref}}, paddle {{noise_cand}}; size {{scale}}"
        )
    if way == "repeated":
        own += ", the least of its repeated runs,"
    if way != "plain" and row.measured:
        moved = number((row.noise or 0.0) * (row.scale or 0.0))
        torchs += f" and the noise that rounding makes, measured as {moved}"
    return f"{way}: {gap}, and {own} is allowed beside {torchs}; size {{scale}}"


def _way(row: Row) -> str:
    """The name of what decided a row of four runs."""
    fed = row.by_itself or row.fed in (FED, NOT_FED)
    fed |= row.verdict == "CARRIED" and row.fed != NO_STEP
    if row.verdict == "INSIDE":
        return "inside"
    if fed or row.proof:
        return "proven"
    if Kind.REPEATED in row.excuses or row.repeated:
        return "repeated"
    asked = row.measured and row.verdict not in AGREEING
    return "measured" if asked or Kind.MEASURED in row.excuses else "plain"


def digits(row: Row) -> str:
    """`3.9 of 4.1 digits`: those that both sides share, of those that the function has.

    All in the run's own precision: the others are noise on either side.
    """
    if not row.difference:
        return "" if row.difference is None else "all digits"
    return f"{' of '.join(f'{count:.1f}' for count in counted_digits(row))} digits"


def counted_digits(row: Row) -> list[float]:
    """How many digits both sides share, and how many the function has, as far as is known."""
    if not row.difference:
        return []
    parts = [max(row.difference, row.noise), row.noise] if row.noise else [row.difference]
    return [max(0.0, -math.log10(part)) for part in parts]


def fewest_digits(rows: Iterable[Row], cases: Collection[str]) -> str:
    """The same of the output that lacks most of those that it has; empty for no output."""
    outputs = [row for row in rows if is_output(row, cases)]
    return digits(max(outputs, key=lambda r: r.difference / (r.noise or 1))) if outputs else ""


def is_output(row: Row, cases: Collection[str]) -> bool:
    """True for a value of the forward pass that decides, and is more than noise."""
    key = Key.parse(row.key, cases)
    parts = key.kind or key.run or key.local or key.choice
    return row.difference is not None and not (row.inside or row.noise_only or parts)


def named(results) -> str:
    """`step 1, one`, `steps 1 and 3, one and two`; of others how many there are, and the first."""
    places = dict.fromkeys((str(r.step.number), visible(r.model)) for r in results)
    steps, models = (dict.fromkeys(words) for words in zip(*places, strict=True))
    if len(places) != len(steps) * len(models):
        return f"{len(places)} results, such as {named(results[:1])}"
    return f"step{'s' * (len(steps) > 1)} {listed(steps)}, {listed(models)}"


def listed(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *before, last = words
    return f"{', '.join(before)} and {last}" if before else last


def folded(said: Iterable[tuple[object, str]]) -> list[tuple[list, str]]:
    """Sentences (whose, sentence) that differ in numbers alone as one: (whose, the first)."""
    found: dict[str, list[tuple[object, str]]] = {}
    for whose, sentence in said:
        found.setdefault(_NUMBER.sub("0", sentence), []).append((whose, sentence))
    return [
        (
            [whose for whose, _ in alike],
            alike[0][1] + (OTHER_NUMBERS if len({sentence for _, sentence in alike}) > 1 else ""),
        )
        for alike in found.values()
    ]
