"""The lines that give a port's layers torch's initial values, and Paddle's initialisers for them.

They go into the port's constructor, behind what it builds: `model` is `self` there.
"""

import json
from collections.abc import Iterable, Sequence

from twincheck.common.verdict.initial import CUT, Drawn, Part, Start

# Layers whose weight is (in, out) in Paddle; all others keep torch's order, (out, in, …).
_TURNED = ("Linear",)
_FANS = {  # in, out, both of `{0}`, which is a weight
    False: ("{0}[0].size", "{0}.size // {0}.shape[1]", "{0}[0].size + {0}.size // {0}.shape[1]"),
    True: ("{0}.shape[0]", "{0}.shape[1]", "sum({0}.shape)"),
}
# What Paddle calls the rules of common initialisers: (family, c, fan) -> a call.
_NAMED = {
    ("uniform", 1.0, "in"): 'KaimingUniform(negative_slope=5**0.5, nonlinearity="leaky_relu")',
    ("uniform", 6.0, "in"): "KaimingUniform()",
    ("uniform", 6.0, "both"): "XavierUniform()",
    ("normal", 2.0, "in"): "KaimingNormal()",
    ("normal", 2.0, "both"): "XavierNormal()",
}


def call(drawn: Drawn) -> str:
    """Paddle's initialiser of a distribution; empty where it has none by name or number."""
    if drawn.family in ("table", "other") or drawn.padding >= 0:
        return ""
    if drawn.family == "constant":
        return f"Constant({drawn.mean:g})"
    if (drawn.family, round(drawn.c, 6), drawn.fan) in _NAMED and not drawn.mean:
        return _NAMED[drawn.family, round(drawn.c, 6), drawn.fan]
    return "" if drawn.fan else _call(drawn, f"{drawn.scale:.6g}")


def _call(drawn: Drawn, scale: str) -> str:
    if drawn.family == "uniform":
        low, high = (f"{drawn.mean:g} - {scale}", f"{drawn.mean:g} + {scale}")
        return f"Uniform({low}, {high})" if drawn.mean else f"Uniform(-{scale}, {scale})"
    ends = f", a=-{CUT:g} * {scale}, b={CUT:g} * {scale}" if drawn.family == "truncated" else ""
    mean = f"mean={drawn.mean:g}, " if drawn.mean else ""
    return f"{'Truncated' if ends else ''}Normal({mean}std={scale}{ends})"


def recipe(start: Start, model: str = "model") -> list[str]:
    """The lines that draw these layers' values as torch does; none where no initialiser does."""
    if {"table", "other"} & {part.torch.family for part in start.parts}:
        return []
    some = _chosen(start)
    if some is None:
        lines = [
            f"for layer in {model}.sublayers(include_self=True):",
            f"    if isinstance(layer, nn.{start.kind}):",
        ]
    else:
        name, names = some
        if names == ("",):
            return [f"layer = {model}", *_drawing(start)]
        told = ", ".join(map(json.dumps, names)) + ("," if len(names) == 1 else "")
        lines = [
            f"for name, layer in {model}.named_sublayers(include_self=True):",
            f"    if {name} in ({told}):",
        ]
    return lines + [f"        {line}" for line in _drawing(start)]


def _chosen(start: Start) -> tuple[str, Sequence[str]] | None:
    """How the layers are told from others of their class: by the last of their names, or whole.

    None where there are no others.
    """
    if not start.others and start.is_of_paddle:
        return None
    lasts = list(dict.fromkeys(name.rpartition(".")[2] for name in start.layers))
    others = {name.rpartition(".")[2] for name in start.others}
    if others.isdisjoint(lasts) and len(lasts) < len(start.layers) and start.is_of_paddle:
        return 'name.split(".")[-1]', lasts
    return "name", tuple(start.layers)


def _drawing(start: Start) -> Iterable[str]:
    """The lines for one `layer`."""
    scales: dict[str, str] = {}  # an expression -> the name of its value
    for part in start.parts:
        own = _own(part.local)
        ahead = ""
        if part.local in start.optional:
            yield f"if {own} is not None:"
            ahead = "    "
        drawn, scale = part.torch, f"{part.torch.scale:.6g}"
        if drawn.fan and drawn.family != "constant":
            text = _scale(start, part)
            if text not in scales:
                scales[text] = "scale" if not scales else f"scale_{len(scales) + 1}"
                yield f"{ahead}{scales[text]} = {text}"
            scale = scales[text]
        made = call(drawn) if drawn.family == "constant" else _call(drawn, scale)
        yield f"{ahead}nn.initializer.{made}({own})"
        if drawn.padding >= 0:
            yield f"{ahead}with paddle.no_grad():"
            yield f"{ahead}    {own}[{drawn.padding}] = 0.0"


def _own(local: str) -> str:
    plain = all(name.isidentifier() for name in local.split("."))
    return f"layer.{local}" if plain else f"layer._parameters[{local!r}]"


def _scale(start: Start, part: Part) -> str:
    """The scale by the fan of its layer's weight."""
    weight = _own(part.local if len(part.shape) > 1 else "weight")
    fans = _FANS[start.kind in _TURNED]
    fan = fans[("in", "out", "both").index(part.torch.fan)].format(weight)
    c = part.torch.c
    if " " in fan:
        fan = f"({fan})"
    return f"{fan} ** -0.5" if c == 1 else f"({c:g} / {fan}) ** 0.5"
