"""What two models return, under the same names: the outputs that both have.

Fields of a named output (a dict, a ModelOutput, a dataclass) are told by name.  Against one without
names, tensors are told by their shapes, in their order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twincheck.common.system.errors import UserError
from twincheck.extras.new_pair import Kind
from twincheck.extras.new_pair.described import Described, Outputs

ALONE = "output"  # of two tensors without a name


@dataclass(frozen=True)
class Output:
    """One output of both sides; a part of it may be None where a side returns it as it is."""

    name: str
    parts: dict[str, object]  # side -> the key, field or index that it stands under; None: all
    shape: tuple[int, ...]  # of torch's; of a nested one the first tensor's
    is_float: bool
    is_single: bool  # one tensor on both sides


@dataclass(frozen=True)
class Matched:
    """The outputs that both sides have."""

    outputs: list[Output]
    alike: bool  # both return the same tensors, sequences or dicts: nothing has to be said of them
    left_out: dict[str, list[str]]  # side -> what it alone returns


def match_outputs(torch: Described, paddle: Described) -> Matched:
    """The outputs of both sides under names; raises UserError where a side returns no tensor."""
    sides = {"torch": torch, "paddle": paddle}
    for one in sides.values():
        if not one.outputs.leaves:
            raise UserError(Kind.OUTPUT_MISSING(side=one.side, spec=str(one.spec)))
    fields = {side: _fields(one.outputs) for side, one in sides.items()}
    nested = {path[0] for one in sides.values() for path, *_ in one.outputs.leaves if path[1:]}
    kinds = [one.outputs.kind for one in sides.values()]
    if kinds == ["named", "named"]:
        names = [name for name in fields["torch"] if name in fields["paddle"]]
        pairs = [(name, name) for name in names]
    else:
        pairs = _by_shape(fields["torch"], fields["paddle"])
    if not pairs:
        said = {side: str(one.spec) for side, one in sides.items()}
        said |= {f"{side}_outputs": _told(fields[side]) for side in sides}
        raise UserError(Kind.OUTPUTS_DIFFER(**said))
    named = next((side for side, one in sides.items() if one.outputs.kind == "named"), None)
    outputs = []
    for of_torch, of_paddle in pairs:
        shape, is_float = fields["torch"][of_torch]
        parts = {"torch": of_torch, "paddle": of_paddle}
        name = parts[named] if named else ALONE if len(pairs) == 1 else f"{ALONE}_{len(outputs)}"
        is_single = not nested & {of_torch, of_paddle}
        outputs.append(Output(str(name), parts, shape, is_float, is_single))
    left = {
        side: [str(name) for name in fields[side] if name not in [pair[i] for pair in pairs]]
        for i, side in enumerate(sides)
    }
    alike = torch.outputs == paddle.outputs and not (named and torch.outputs.attributes)
    return Matched(outputs, alike, left)


def _fields(outputs: Outputs) -> dict[object, tuple[tuple[int, ...], bool]]:
    """Key, field or index (None: all) -> shape of its first tensor, and whether that is floats."""
    found: dict[object, tuple[tuple[int, ...], bool]] = {}
    for path, shape, is_float in outputs.leaves:
        found.setdefault(path[0] if path else None, (shape, is_float))
    return found


def _by_shape(torch: Mapping, paddle: Mapping) -> list[tuple[object, object]]:
    """Pair each of torch's names with the first of Paddle's of its shape that is still free."""
    if len(torch) == len(paddle) == 1:
        return [(*torch, *paddle)]
    pairs, waiting = [], list(paddle)
    for name, told in torch.items():
        fitting = [key for key in waiting if paddle[key] == told]
        if fitting:
            waiting.remove(fitting[0])
            pairs.append((name, fitting[0]))
    return pairs


def _told(fields: Mapping[object, tuple[Sequence[int], bool]]) -> list[str]:
    return [
        f"{name} {list(shape)}" if name is not None else f"{list(shape)}"
        for name, (shape, _) in fields.items()
    ]
