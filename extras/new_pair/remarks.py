"""What is to be said of a new pair beside its files, a line each."""

from collections.abc import Iterator, Sequence

from twincheck.common.system.frameworks import SIDES
from twincheck.extras.new_pair.inputs import SORTED, Input
from twincheck.extras.new_pair.paconvert import Translation
from twincheck.extras.new_pair.thin import Plan

# Settings that say nothing of what is computed.
_IDLE = {
    *("architectures", "model_type", "name_or_path", "_name_or_path", "transformers_version"),
    *("dtype", "torch_dtype", "return_dict", "use_return_dict", "use_cache", "paddlenlp_version"),
    *("paddleformers_version", "is_encoder_decoder", "progress", "pretrained"),
}
_MOST = 8  # settings in one line
_MOST_PLACES = 20  # that PaConvert left, a line each


def remarks(plan: Plan, asked: Sequence[Input]) -> Iterator[str]:
    """Lines on what was decided, and on what may make a check red."""
    torch, paddle = (plan.sides[side] for side in SIDES)
    for one in plan.inputs:
        if one not in asked:
            rising = ", in rising order" if one.kind == SORTED else ""
            yield (
                f"{one.name} is drawn from 0 to 1{rising}: on normal numbers torch fails, gives "
                "NaN, or searches in what does not rise"
            )
    for one in (torch, paddle):
        for name, place in one.call.items():
            if name != place:
                yield f"{one.side}: {name} is its {place}"
        yield from (f"{one.side}: {words}" for words in one.unknown)
        for key, value in one.set_for_cpu.items():
            yield f"{one.side}: {key} = {value}, since the kernel that it switches on is for GPUs"
        if one.stand_in:
            yield f"{one.side}: its torchvision is built for CUDA; {one.stand_in} is left out"
        for name, needed in one.bare.items():
            yield (
                f"{one.side}: the __init__.py of {name} is not run: it needs {needed}, which the "
                "model does not"
            )
        if not one.alike_in_training:
            yield (
                f"{one.side}: it returns something else in train mode, which a check runs too: see "
                f"to it in {one.side}_model.py's forward, or give --mode eval"
            )
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


def remarks_on_translation(translation: Translation) -> Iterator[str]:
    """Lines on what PaConvert left untranslated, and on whose edits an update has kept."""
    if translation.untranslated:
        yield f"PaConvert left {len(translation.untranslated)} in torch:"
        yield from (f"  {place}" for place in translation.untranslated[:_MOST_PLACES])
        if len(translation.untranslated) > _MOST_PLACES:
            yield f"  and {len(translation.untranslated) - _MOST_PLACES} more"
    for name in translation.kept:
        yield f"{translation.folder / name}: your edits are kept"
