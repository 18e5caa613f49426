"""The one table of tolerances: every number of the verdict, its reason, and what was measured."""

from typing import NamedTuple


class Tolerance(NamedTuple):
    """A number of the rule, why it is what it is, and what was measured."""

    value: float
    reason: str
    measured: str


TOLERANCES = {
    "gap": Tolerance(
        1e-4,
        "same function: the float64 gap is this small against the reference's float32 noise",
        "correct ports 4e-9, up to 1e-5 with a float32 attribute; wrong ones 1e-2 to 1e5",
    ),
    "cap": Tolerance(
        1e-4,
        "noise above this part of the tensor's (for gradients and optimizer rows: its kind's) "
        "scale excuses no more gap",
        "n_t / s is 1e-7 to 1e-5 for sound float32; 9e-2 where a fully masked row blinds it",
    ),
    "floor": Tolerance(
        1e-12,
        "gap that float64 itself leaves, since a scalar's n_t can be 0 by luck",
        "float64 rounding of deep models: 1e-16 to 1e-13 of s",
    ),
    "measured_gap": Tolerance(
        8.0,
        "times how far moves of eight float64 roundings bring the reference: the same function",
        "correct ports 1e-3 to 0.5, up to 4; a norm's epsilon kept in float32 10 to 300, of which "
        "the plain rule passes nearly all; other constants 1e5 to 1e8",
    ),
    "saturated": Tolerance(
        2.0**-16,
        "of what moves of float32's size make: more of it by moves of 2^-26 of that size is no "
        "rounding's, and the noise is not known there (but for an optimizer's steps)",
        "2^-26 in smooth tensors, less where there are non-smooth points; 1 where a mask was moved",
    ),
    "constant": Tolerance(
        2.4e-7,
        "two float32 epsilons of the tensor's own size: a constant kept in float32",
        "float32 attributes in Paddle 3.3.1: 2e-13 to 1.8e-7",
    ),
    "operator_reach": Tolerance(
        1e4,
        "times an operator's own difference: a larger one is not looked at once more with that "
        "operator computed exactly, which would cost a run; it is no verdict",
        "a selu of 3e-8 makes 1e-7 in the gradients behind it",
    ),
    "precision": Tolerance(
        16.0,
        "times the reference's noise (or one float32 epsilon of s): beyond it float32 was not used",
        "n_p / n_t of correct ports 0.4 to 1.7; TF32 about 1e3",
    ),
    "long_sum": Tolerance(
        4096.0,
        "terms: beyond it, what precision allows grows with the length, since Paddle adds terms "
        "one by one on CPU, with an error of up to N epsilons, and torch in a tree",
        "2e5 terms, n_p / s: sum 4.5e-6, var 3.6e-5, log_softmax 1.8e-5; n_p / n_t up to 1,100",
    ),
    "noise_only": Tolerance(
        1e-2,
        "s below this part of the float32 noise: the tensor is zero in exact arithmetic",
        "a bias that the loss does not depend on: 1e-3; a key's bias: 2e-9; real gradients: > 1e3",
    ),
    "half": Tolerance(
        2.0,
        "half precision: times the reference's error, each fed the reference's values; as much as "
        "four times as many roundings bring",
        "LLaMA, Paddle emulated against torch's kernels: 1.00 to 1.02; see docs/half-precision.md",
    ),
    "half_caused": Tolerance(
        1.1,
        "the same where the candidate is seen computing on a narrower type than the reference",
        "RMSNorm in bfloat16 1.2 to 1.8, along its vectors 2.1 to 4; softmax 1.2 to 1.4",
    ),
    "half_spread": Tolerance(
        2.0,
        "standard deviations of an error's measured size, chance where few values carry it",
        "half of one over the root of their number, at most: uniform roundings have less",
    ),
    "half_exact": Tolerance(
        0.02,
        "epsilons of half precision: a smaller error, and the reference does not round the tensor; "
        "inside, the candidate may then round it once",
        "one rounding: 0.2 in root mean square; attention's weights, of which some are 1: 0.1",
    ),
    "guide": Tolerance(1e-6, "the guide's rule: mean |a - b|", "reprod_log's default"),
    "close": Tolerance(
        1e-3,
        "float32 logs alone: no element differs by more than this part of the reference's rms",
        "12-layer transformer as initialised: 1e-6",
    ),
}


def tolerance(name: str) -> float:
    """A number of the rule."""
    return TOLERANCES[name].value
