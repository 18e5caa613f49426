"""What is to be said of a new pair beside its files, a line each."""

from collections.abc import Iterator, Sequence

from twincheck.common.system.frameworks import SIDES
from twincheck.extras.new_pair import Kind
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
            kind = Kind.DRAWN_RISING if one.kind == SORTED else Kind.DRAWN_FROM_0_TO_1
            yield kind(name=one.name)
    for one in (torch, paddle):
        for name, place in one.call.items():
            if name != place:
                yield Kind.INPUT_CALLED(side=one.side, name=name, parameter=place)
        yield from (Kind.SIDE_SAYS(side=one.side, said=words) for words in one.unknown)
        for key, value in one.set_for_cpu.items():
            yield Kind.SET_FOR_CPU(side=one.side, setting=key, value=str(value))
        if one.stand_in:
            yield Kind.TORCHVISION_FOR_CUDA(side=one.side, module=one.stand_in)
        for name, needed in one.bare.items():
            yield Kind.PACKAGE_LEFT_BARE(side=one.side, package=name, needed=needed)
    for side, names in plan.matched.left_out.items():
        if names:
            yield Kind.OUTPUTS_OF_ONE_SIDE(names=names, side=side)
    told = [
        f"{key} {value!r} / {paddle.settings[key]!r}"
        for key, value in torch.settings.items()
        if key in paddle.settings and key not in _IDLE and value != paddle.settings[key]
    ]
    if len(told) > _MOST:
        told[_MOST - 1 :] = [Kind.DEFAULTS_LEFT_OUT(last=told[_MOST - 1], count=len(told) - _MOST)]
    if told:
        yield Kind.DEFAULTS_DIFFER(settings=told)


def remarks_on_translation(translation: Translation) -> Iterator[str]:
    """Lines on what PaConvert left untranslated."""
    if translation.untranslated:
        yield Kind.UNTRANSLATED_COUNTED(count=len(translation.untranslated))
        for place in translation.untranslated[:_MOST_PLACES]:
            yield Kind.INDENTED(line=place.reason)
        left_out = len(translation.untranslated) - _MOST_PLACES
        if left_out > 0:
            yield Kind.INDENTED(line=Kind.UNTRANSLATED_LEFT_OUT(count=left_out))
