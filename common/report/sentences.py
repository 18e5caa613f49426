"""What is wrong with a row, in one sentence before any number; and what decided it, with them."""

import math
import re
from collections.abc import Collection, Iterable, Mapping

from twincheck.common.logs.key import Key, parent_of
from twincheck.common.logs.sidecar import setting_text
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind, Reason
from twincheck.common.system.words import escaped as visible
from twincheck.common.system.words import printable
from twincheck.common.verdict.row import AGREEING, FED, NO_STEP, NOT_FED, Row

_PARTS_OF_A_STEP = {
    "weight": Kind.STEP_WEIGHT,
    "grad": Kind.STEP_GRADIENT,
    "moment1": Kind.STEP_MOMENT1,
    "moment2": Kind.STEP_MOMENT2,
    "velocity": Kind.STEP_VELOCITY,
}
# Of both sides' runs as a whole; any other claim is of one side's numbers alone.
_CLAIMS = {
    "train/drift": Kind.LOSSES_DRIFT,
    "train/order": Kind.SAMPLES_IN_ANOTHER_ORDER,
    "train/lr": Kind.OTHER_LEARNING_RATES,
    "train/final_": Kind.TRAININGS_END_APART,
    "train/learnt": Kind.NOTHING_LEARNT,
    "init/": Kind.BEGINS_OTHERWISE,
    "seeds/": Kind.SCORES_BEYOND_CHANCE,
    "text": Kind.OTHER_TEXTS,
}
_TITLES = {
    "forward": Kind.TITLE_FORWARD,
    "metric": Kind.TITLE_METRIC,
    "loss": Kind.TITLE_LOSS,
    "backward": Kind.TITLE_BACKWARD,
    "train": Kind.TITLE_TRAIN,
    "parallel": Kind.TITLE_PARALLEL,
}
_SEED = re.compile(r"^seed_\d+/")
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*(e[-+]?\d+)?(?![\w])")


def what_is_wrong(row: Row, class_name: str = "", cases: Collection[str] = ()) -> Reason:
    """Return what is wrong with a row that does not pass, in one sentence.

    class_name  of the module that a probed value belongs to, as the torch side names it
    """
    if row.verdict == "UNDECIDED" and row.key.startswith("seeds/"):
        return Kind.SEEDS_CANNOT_TELL()
    if row.measure == "claim":
        key, side = _SEED.sub("", row.key), row.key.rpartition("/")[2]
        for begin, claim in _CLAIMS.items():
            if key.startswith(begin):
                return claim()
        if side in SIDES:
            return Kind.SIDE_CONTRADICTS_ITSELF(side=side)
        return Kind.ONE_SIDE_CONTRADICTS_ITSELF()
    if row.verdict == "UNDECIDED":
        return Kind.FLOAT32_LOGS_DIFFER()
    key = Key.parse(row.key, cases)
    site = printable(key.site)
    module = Kind.OF_CLASS(module=site, name=class_name) if class_name else site
    if row.key.endswith(":p"):
        return _of_dropout(row, key)
    if row.verdict == "INVALID":
        return Kind.TEXT(text=list(row.reasons)) if row.note else Kind.CANNOT_BE_COMPARED()
    if row.by_itself:
        return Kind.LESS_EXACT_BY_ITSELF(module=module)
    if row.verdict == "PRECISION":
        return Kind.LESS_EXACT()
    if row.verdict == "CARRIED":
        return Kind.FED_WRONG()
    if key.choice:
        return Kind.CHOSEN_BY_OTHER_NUMBERS(part=key.choice, choice=site)
    if key.is_step:
        what = _PARTS_OF_A_STEP.get(key.kind, Kind.STEP_OTHER)()
        return Kind.OFF_AFTER_STEP(what=what, weight=site, step=_step(key.run))
    if key.kind == "grad":
        return Kind.GRADIENT_OFF(weight=site)
    if key.kind == "grad_of":
        back = Kind.GRADIENT_HANDED_BACK if key.is_input else Kind.GRADIENT_COMES_BACK
        return back(module=module)
    if key.is_input:
        around = parent_of(site.partition("/")[0])
        around = printable(around) if around else Kind.MODEL_ITSELF()
        return Kind.GIVEN_OTHER_VALUES(module=module, around=around)
    if row.inside and row.fed == NOT_FED:
        return Kind.GIVES_ANOTHER_VALUE(module=module)
    if row.inside:
        return Kind.COMPUTES_SOMETHING_ELSE(module=module)
    if site == "loss" or site.startswith("losses/"):
        return Kind.LOSS_OFF()
    return Kind.OUTPUT_OFF(output=site)


def _of_dropout(row: Row, key: Key) -> Reason:
    """Say what is wrong with a dropout, whose row is its rate; a recurrent layer has one too."""
    site = printable((key.site + key.call).removesuffix(":p"))
    if row.verdict == "INVALID":
        what = Kind.TEXT(text=list(row.reasons)) if row.note else Kind.ON_ONE_SIDE_ALONE()
        return Kind.DROPOUT_IS(dropout=site, what=what)
    rates = row.worst_ref, row.worst_cand
    if None in rates:
        return Kind.DROPOUT_OF_ANOTHER_RATE(dropout=site)
    return Kind.DROPOUT_RATES(dropout=site, torch=rates[0], paddle=rates[1])


def what_differs(row: Row, cases: Collection[str], settings: Mapping) -> tuple[str, tuple]:
    """The layer that goes wrong by how it is built, and (setting, torch's, Paddle's) of each other.

    Empty where none is known.

    settings  side -> layer -> what it was built with, as the sidecars say
    """
    key = Key.parse(row.key, cases)
    if row.verdict != "DIVERGED" or row.measure == "claim" or (key.is_input and not key.kind):
        return "", ()
    site = key.site.partition("/")[0]
    # A dropout layer draws under the name of the module that calls it: the row has its own.
    own = row.key.removesuffix(":p")
    for layer in (own, key.case + site, key.case + parent_of(site)):
        torch, paddle = (settings.get(side, {}).get(layer, {}) for side in SIDES)
        differing = tuple(
            (name, torch[name], paddle[name])
            for name in torch
            if name in paddle and not math.isclose(torch[name], paddle[name], rel_tol=1e-6)
        )
        if differing:
            return layer, differing
    return "", ()


def that_differs(name: str, torch: float, paddle: float) -> Reason:
    """Return such as `epsilon is 1e-05 in torch and 1e-06 in Paddle`."""
    if name == "momentum":  # both as torch counts it, in the sidecars
        return Kind.MOMENTUM_DIFFERS(torch=torch, paddle=1 - paddle, meant=1 - torch)
    its, mine = (setting_text(name, value) for value in (torch, paddle))
    return Kind.SETTING_DIFFERS(setting=name, torch=its, paddle=mine)


def _step(run: str) -> Reason:
    """`adam/003/` as a reader counts."""
    name, _, number = run.rstrip("/").rpartition("/")
    number = str(int(number) + 1) if number.isdecimal() else number
    if name:
        return Kind.STEP_NUMBER_OF(number=number, setup=printable(name))
    return Kind.STEP_NUMBER(number=number)


# ---- what decided --------------------------------------------------------------------------------


def number(value: float | None) -> str:
    """A figure in three digits; a dash where there is none."""
    return "–" if value is None else f"{value:.2e}"


_NUMBERS = ("gap", "allowed", "noise_ref", "noise_cand", "scale")


def decided(row: Row) -> str:
    """Return which of four ways decided a row, and its numbers; empty for none.

    plain: the four runs; measured: the noise that rounding makes; repeated: further runs; proven: a
    run that is fed torch's values, or whose operators or constants are made alike.
    """
    return _decided(row, {name: number(getattr(row, name)) for name in _NUMBERS})


def decided_text(row: Row) -> str:
    """Return that sentence with its numbers' names in braces: many rows have one."""
    return _decided(row, {name: f"{{{name}}}" for name in _NUMBERS})


def _decided(row: Row, numbers: Mapping[str, str]) -> str:
    def of(kind: Kind, **others: object) -> Reason:
        return kind(**{n: numbers[n] for n in numbers if n in kind.fields} | others)

    lost = row.verdict == "PRECISION" or Kind.CLIPPED_LOSS in row.excuses
    if row.gap is None and not lost:
        return "" if row.scale is None else of(Kind.FLOAT32_ALONE_ALLOWED, measure=row.measure)
    if row.measure in ("claim", "count"):  # its note says what it is
        return of(Kind.OFF_BY)
    way = _way(row)
    if lost:
        how = Kind.IN_BRACKETS(what=row.measure) if row.by_itself else ""
        return of(Kind.DECIDED_LOST, way=way(), how=how)
    at_most = row.allowed is not None and row.gap <= row.allowed
    gap = of(Kind.GAP_AT_MOST if at_most else Kind.GAP_MORE_THAN)
    if row.verdict not in AGREEING:
        why = Kind.ON_TORCHS_VALUES() if way is Kind.WAY_PROVEN else ""
        known = {"CARRIED": Kind.WHICH_WAS_FED, "CONSTANT": Kind.OF_THE_OPERATOR}
        why = known[row.verdict]() if row.verdict in known else why
        return of(Kind.DECIDED_OFF, way=way(), gap=gap, why=why)
    own = of(Kind.OWN_LEAST_ERROR if way is Kind.WAY_REPEATED else Kind.OWN_ERROR)
    beside = of(Kind.TORCHS_ERROR)
    if way is not Kind.WAY_PLAIN and row.measured:
        moved = number((row.noise or 0.0) * (row.scale or 0.0))
        beside = of(Kind.TORCHS_ERROR_AND_NOISE, moved=moved)
    return of(Kind.DECIDED_ALIKE, way=way(), gap=gap, own=own, beside=beside)


def _way(row: Row) -> Kind:
    """Return the kind of sentence that says how a row of four runs was decided."""
    fed = row.by_itself or row.fed in (FED, NOT_FED)
    fed |= row.verdict == "CARRIED" and row.fed != NO_STEP
    if row.verdict == "INSIDE":
        return Kind.WAY_INSIDE
    if fed or row.proof:
        return Kind.WAY_PROVEN
    if Kind.REPEATED in row.excuses or row.repeated:
        return Kind.WAY_REPEATED
    asked = row.measured and row.verdict not in AGREEING
    return Kind.WAY_MEASURED if asked or Kind.MEASURED in row.excuses else Kind.WAY_PLAIN


def digits(row: Row) -> str:
    """Return such as `3.9 of 4.1 digits`: those that both sides share, and those there are.

    All in the run's own precision: the others are noise on either side.
    """
    if not row.difference:
        return "" if row.difference is None else Kind.ALL_DIGITS()
    shared, *known = counted_digits(row)
    return Kind.DIGITS_OF(shared=shared, known=known[0]) if known else Kind.DIGITS(shared=shared)


def counted_digits(row: Row) -> list[float]:
    """Return how many digits both sides share, and how many the function has, if known."""
    if not row.difference:
        return []
    parts = [max(row.difference, row.noise), row.noise] if row.noise else [row.difference]
    return [max(0.0, -math.log10(part)) for part in parts]


def fewest_digits(rows: Iterable[Row], cases: Collection[str]) -> str:
    """Return the `digits` of the output that lacks most of its own; empty for no output."""
    outputs = [row for row in rows if is_output(row, cases)]
    return digits(max(outputs, key=lambda r: r.difference / (r.noise or 1))) if outputs else ""


def is_output(row: Row, cases: Collection[str]) -> bool:
    """True for a value of the forward pass that decides, and is more than noise."""
    key = Key.parse(row.key, cases)
    parts = key.kind or key.run or key.local or key.choice
    return row.difference is not None and not (row.inside or row.noise_only or parts)


def step_title(step) -> str:
    """Return what a step, or a further check in its folder, is called."""
    return titled(step.other or step.title)


def titled(title: str) -> str:
    """Return a step's title, as its folder and JSON have it, as a reason."""
    return _TITLES[title]() if title in _TITLES else title


def named(results) -> Reason:
    """Return such as `step 1, one`, or how many results there are, and the first."""
    places = dict.fromkeys((str(r.step.number), visible(r.model)) for r in results)
    steps, models = (list(dict.fromkeys(words)) for words in zip(*places, strict=True))
    if len(places) != len(steps) * len(models):
        return Kind.NAMED_MANY(count=len(places), first=named(results[:1]))
    if len(steps) > 1:
        return Kind.NAMED_STEPS(steps=steps, models=models)
    return Kind.NAMED_MODELS(step=steps[0], models=models)


def listed(words: Iterable[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`, of names."""
    *before, last = words
    return f"{', '.join(before)} and {last}" if before else last


def folded(said: Iterable[tuple[object, str]]) -> list[tuple[list, str]]:
    """Sentences (whose, sentence) that differ in numbers alone as one: (whose, the first)."""
    found: dict[str, list[tuple[object, str]]] = {}
    for whose, sentence in said:
        found.setdefault(_NUMBER.sub("0", sentence), []).append((whose, sentence))
    several = ((alike, len({sentence for _, sentence in alike}) > 1) for alike in found.values())
    return [
        (
            [whose for whose, _ in alike],
            Kind.ELSEWHERE_OTHER_NUMBERS(sentence=alike[0][1]) if others else alike[0][1],
        )
        for alike, others in several
    ]
