"""torch's older ways to make a narrow float, lifted: tensor types, and scripted functions.

    torch.FloatTensor(3)    x.type(torch.FloatTensor)    @torch.jit.script

Paddle has no counterpart to them.
"""

import functools

import torch

from common.sides import lift

_NARROW = ("FloatTensor", "HalfTensor", "BFloat16Tensor")


class _Type:
    """An old tensor type that makes wide tensors while lifting."""

    def __init__(self, own: type, wide: type):
        self.own, self.wide = own, wide

    @property
    def now(self) -> type:
        """The type that is meant now."""
        if lift.wanted():
            lift.note(f"made as {self.own.__name__}")
        return self.wide if lift.wanted() else self.own

    def __call__(self, *arguments, **options):
        return self.now(*arguments, **options)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, self.wide if lift.wanted() else self.own)

    def __getattr__(self, name: str) -> object:
        return getattr(self.own, name)


def type_names() -> dict[str, str]:
    """Narrow tensor types as texts, as `x.type("torch.FloatTensor")` takes them -> the wide ones."""
    places = ("torch", "torch.cuda")
    return {f"{place}.{name}": f"{place}.DoubleTensor" for place in places for name in _NARROW}


def patch_older(spelling: lift.Spelling) -> None:
    """Put the lift behind both."""
    for owner in (torch, torch.cuda):
        for name in _NARROW:
            setattr(owner, name, _Type(getattr(owner, name), owner.DoubleTensor))
    takes_types = [(torch.Tensor, "type"), (torch, "set_default_tensor_type")]
    lift.install([(owner, name, _with_own_types) for owner, name in takes_types])
    lift.install([(torch.jit, "script", _script)])


def _with_own_types(own):
    """`own`, which knows nothing of _Type."""

    @functools.wraps(own)
    def instead(*arguments, **options):
        arguments = [v.now if isinstance(v, _Type) else v for v in arguments]
        options = {k: v.now if isinstance(v, _Type) else v for k, v in options.items()}
        return own(*arguments, **options)

    return instead


def _script(own):
    """`own`, whose scripted functions run as plain Python while lifting: no cast can be seen in
    them otherwise.  What they compute is the same."""

    @functools.wraps(own)
    def script(function, *arguments, **options):
        _known_to_scripts()
        made = own(function, *arguments, **options)
        if arguments or options or not isinstance(made, torch.jit.ScriptFunction):
            return made

        @functools.wraps(function)
        def instead(*inputs, **named):
            return (function if lift.wanted() else made)(*inputs, **named)

        # Another function that is scripted may call this one.
        torch.jit._state._set_jit_function_cache(instead, made)
        return instead

    return script


@functools.cache
def _known_to_scripts() -> None:
    """Tell the compiler of scripts what the replaced functions of torch are."""
    known = torch.jit._builtins._get_builtin_table()
    for owner in (torch, torch.linalg, torch.fft, torch.special):
        for instead in vars(owner).values():
            own = getattr(instead, "__wrapped__", None)
            if id(own) in known:
                known[id(instead)] = known[id(own)]
