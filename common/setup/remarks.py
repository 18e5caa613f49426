"""What is to be said of a new pair beside its files, a line each."""

from collections.abc import Iterator, Sequence

from common.setup.thin import Plan
from common.system.frameworks import SIDES

# Settings that say nothing of what is computed.
_IDLE = {
    *("architectures", "model_type", "name_or_path", "_name_or_path", "transformers_version"),
    *("dtype", "torch_dtype", "return_dict", "use_return_dict", "use_cache", "paddlenlp_version"),
    *("paddleformers_version", "is_encoder_decoder", "progress", "pretrained"),
}
_MOST = 8  # settings in one line


def remarks(plan: Plan) -> Iterator[str]:
    """Lines on what was decided, and on what may make a check red."""
    torch, paddle = (plan.sides[side] for side in SIDES)
    for one in (torch, paddle):
        for name, place in one.call.items():
            if name != place:
                yield f"{one.side}: {name} is its {place}"
        for key, value in one.set_for_cpu.items():
            yield f"{one.side}: {key} = {value}, since the kernel that it switches on is for GPUs"
        if one.stand_in:
            yield f"{one.side}: its torchvision is built for CUDA; {one.stand_in} is left out"
    for side, names in plan.matched.left_out.items():
        if names:
            yield f"{', '.join(names)}: returned by {side} alone, not compared"
    told = [
        f"{key} {value!r} / {paddle.settings[key]!r}"
        for key, value in torch.settings.items()
        if key in paddle.settings and key not in _IDLE and value != paddle.settings[key]
    ]
    if told:
        more = f" and {len(told) - _MOST} more" if len(told) > _MOST else ""
        names = f"{', '.join(told[:_MOST])}{more}"
        yield f"differs by default (torch / paddle): {names}; --set KEY=VALUE makes it alike"


def shown_proofs(proofs: Sequence[str]) -> Iterator[str]:
    """The proofs of what goes where, those of equal names in one line."""
    equal = [line for line in proofs if _is_of_equal_names(line)]
    if equal:
        yield f"weights of the same name and shapes on both sides: {len(equal)}"
    yield from (line for line in proofs if line not in equal)


def _is_of_equal_names(line: str) -> bool:
    """True for `NAME is NAME: by its name ...`."""
    paddle, _, rest = line.partition(" is ")
    return rest.startswith(f"{paddle}: by its name")
