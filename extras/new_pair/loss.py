"""The loss of a pair whose library's own is not compared: of its outputs, with what inputs it has.

With `labels` cross-entropy of the logits; without, the distance from drawn targets, of every output
of floats, so that each parameter that has a part in one gets a gradient.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from twincheck.common.system.errors import UserError
from twincheck.extras.new_pair import Kind
from twincheck.extras.new_pair.inputs import LABELS, Input
from twincheck.extras.new_pair.outputs import Output

# How the classes end whose logits are of the next token.
CAUSAL = ("ForCausalLM", "LMHead", "LMHeadModel")


@dataclass(frozen=True)
class Loss:
    """A scalar of the outputs."""

    labels: Input | None
    logits: Output | None = None
    shifted: bool = False  # each token's label is the next token
    class_axis: int = -1  # of the logits
    targets: tuple[tuple[str, Output], ...] = ()  # input -> the output that is compared with it


def choose_loss(name: str, inputs: Sequence[Input], outputs: Sequence[Output]) -> Loss:
    """The loss for a class of this name; raises UserError for labels that fit no output."""
    floats = [one for one in outputs if one.is_float and one.is_single]
    labels = next((one for one in inputs if one.kind == LABELS), None)
    if labels is None:
        several = len(floats) > 1
        return Loss(
            None, targets=tuple((f"{o.name}_targets" if several else "targets", o) for o in floats)
        )
    for one in sorted(floats, key=lambda one: one.name != "logits"):
        if one.shape[:-1] == labels.shape and one.shape[-1] >= labels.limit:
            shifted = name.endswith(CAUSAL) and len(labels.shape) == 2
            return Loss(labels, one, shifted)
        if len(one.shape) > 2 and one.shape[:1] + one.shape[2:] == labels.shape:
            return Loss(labels, one, class_axis=1)
    told = [f"{one.name} {list(one.shape)}" for one in floats] or [Kind.NONE_OF_FLOATS()]
    said = {"name": labels.name, "shape": str(list(labels.shape)), "limit": labels.limit}
    raise UserError(Kind.LABELS_FIT_NONE(**said, outputs=told))
