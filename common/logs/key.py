"""A log's key, taken apart once.

    main/adam/003/grad/encoder.0.norm.bias      case, run, kind and site
    main/grad_of/encoder.0.attention:in/0@2#3   kind, site, local name and call
    main/hash/1#2:scores                        site, call and part of a choice
    main/buffer/rotary.table:built              kind, site and local name

NumPy is not needed.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache

# Folders of a key that name a kind of tensor.
KINDS = ("grad", "grad_of", "weight", "moment1", "moment2", "velocity", "buffer")
BUFFER = "buffer"  # after a forward that changed it, or (`:built`) as the model was built with it
GRADIENTS = ("grad", "grad_of")
# Names that only an optimizer's steps log.
_OF_OPTIMIZER = {"weight", "moment1", "moment2", "velocity", "lr"}

# `adam/003/` or `train/003/`, but not the third batch that was read (`test/003/`).
_STEP = re.compile(r"(^|/)(?!batch/|test/)[^/]+/\d{3}/")
# Behind the key of a discrete choice: by how much it won, from which scores, and which of them the
# log has (common/logs/leading.py).
MARGIN, SCORES, PLACES = ":margin", ":scores", ":places"
_PARTS = "|".join(part[1:] for part in (MARGIN, SCORES, PLACES))
_SITE = re.compile(
    r"(?P<site>[^:#@]*)"
    rf"(?P<local>:(?!(?:{_PARTS})$)[^:#@]+)?"
    r"(?P<call>(?:[#@]\d+)*)"
    rf"(?P<choice>:(?:{_PARTS}))?",
)


@dataclass(frozen=True, slots=True)
class Key:
    """The parts of a log's key; `str` puts them together again."""

    case: str  # prefix of the case, with its slash: `main/`; empty where no such case is known
    run: str  # what stands before kind and site: an optimizer's set-up and step, `adam/003/`
    kind: str  # grad, grad_of, weight, …; empty for the values of a forward pass
    site: str  # a module, parameter or value; behind a slash which of a module's outputs
    local: str = ""  # of a module: `in/0` (an input), `p` (a dropout's rate), `running_mean`;
    # of a buffer: `built` (before weights were carried over)
    call: str = ""  # which use of a module it is: `#2`, `@2#3`
    choice: str = ""  # of a discrete choice: `scores`, `margin` or `places`; else empty
    _text: str = field(default="", init=False, repr=False, compare=False)  # once it was asked for

    @classmethod
    def parse(cls, text: str, cases: Iterable[str] = ()) -> "Key":
        """Take a key apart; `cases` are the prefixes that a sidecar's `batches` lists."""
        return _parse(text, tuple(cases))

    def __str__(self) -> str:
        if not self._text:
            local, choice = (f":{part}" if part else "" for part in (self.local, self.choice))
            kind = f"{self.kind}/" if self.kind else ""
            text = f"{self.prefix}{kind}{self.site}{local}{self.call}{choice}"
            object.__setattr__(self, "_text", text)
        return self._text

    @property
    def prefix(self) -> str:
        """Case and run: what the rows of one pass of a model have in common."""
        return self.case + self.run

    @property
    def setup(self) -> str:
        """The optimizer's set-up whose steps it is of; empty for a case's first pass."""
        return self.run.partition("/")[0]

    @property
    def group(self) -> str:
        """The path up to and including the kind: its tensors share one scale; empty for no kind.

        Buffers share none: one may be a table of ones, another a running mean.
        """
        return self.prefix + self.kind if self.kind not in ("", BUFFER) else ""

    @property
    def is_gradient(self) -> bool:
        """True for the gradient of a parameter, an input of the model, or a probed value."""
        return self.kind in GRADIENTS

    @property
    def case_name(self) -> str:
        """The case as it is spoken of: a pair's only one is `main`."""
        return self.case.rstrip("/") or "main"

    @property
    def is_step(self) -> bool:
        """True for what an optimizer's step logs."""
        return _STEP.search(self.run) is not None

    @property
    def is_optimizer(self) -> bool:
        """True for what optimizer steps have touched, losses and gradients at their weights too."""
        return self.is_step or not _OF_OPTIMIZER.isdisjoint(str(self).split("/"))

    @property
    def is_own_pass(self) -> bool:
        """True for the loss and gradients of an optimizer step, which no probe has looked into."""
        return self.is_step and _OF_OPTIMIZER.isdisjoint(str(self).split("/"))

    @property
    def is_input(self) -> bool:
        """True for a module's input, and for the gradient there."""
        return self.local.startswith("in/")

    @property
    def output(self) -> str:
        """The first output of this call of the module."""
        return str(replace(self, local="", choice=""))

    @property
    def value(self) -> str:
        """Return the key of the value that a probe's gradient is of; else the key itself."""
        return str(replace(self, kind="")) if self.kind == "grad_of" else str(self)

    def of_choice(self, part: str) -> str:
        """Return the key of this choice's `scores` or `margin`; with "" of what was chosen."""
        return str(replace(self, choice=part))

    def module(self, modules: Collection[str], prefix: str = "") -> str | None:
        """Return the one of `modules` that a probed value belongs to, None for none of them.

        prefix  what their names begin with, beside the site's
        `name/1/low` is an output of `name`.
        """
        name = prefix + self.site
        while name not in modules:
            if "/" not in name:
                return None
            name = name.rpartition("/")[0]
        return name


def parent_of(name: str) -> str:
    """The module around a module, or the one that has a parameter; "" for the model itself."""
    return name.rpartition(".")[0]


def in_any_layer(place: str) -> str:
    """Return a place with N for a layer's number, which makes it the same in all layers."""
    return re.sub(r"(?<=\.)\d+(?=[.:/]|$)", "N", place)


def parent_code(key: Key, modules: Collection[str]) -> str | None:
    """The module whose own code made a row's value, or handed its gradient back; None if none did.

    modules  the names of all probed modules of the case, without its prefix
    That is the parent of a module whose input it is (`a.b:in/0`), or whose output's gradient
    (`grad_of/a.b`); the whole model, "", also for its inputs' gradients.
    """
    if key.run:
        return None
    if key.kind == "grad" and key.site.startswith("inputs/"):
        return ""
    is_made_around = key.is_input if not key.kind else key.kind == "grad_of" and not key.local
    if not is_made_around or key.choice:
        return None
    name = key.module(modules)
    if name is None:
        return None
    while name:
        name = parent_of(name)
        if name in modules:
            return name
    return ""


@lru_cache(maxsize=1 << 15)  # of the largest logs: fewer would be of no use in pass after pass
def _parse(text: str, cases: tuple[str, ...]) -> Key:
    case = max((prefix for prefix in cases if text.startswith(prefix)), key=len, default="")
    rest = text[len(case) :]
    run, kind = "", ""
    folders = rest.split("/")
    for i, folder in enumerate(folders[:-1]):
        if folder in KINDS:
            run, kind = "".join(f"{name}/" for name in folders[:i]), folder
            rest = "/".join(folders[i + 1 :])
            break
    else:
        step = _STEP.search(rest)
        if step is not None:
            run, rest = rest[: step.end()], rest[step.end() :]
    parts = _SITE.fullmatch(rest)
    if parts is None:  # a name that somebody gave, with a colon or a number sign in it
        site, mark, choice = rest.rpartition(":")
        if mark + choice not in (MARGIN, SCORES, PLACES):
            return Key(case, run, kind, rest)
        return Key(case, run, kind, site, choice=choice)
    return Key(case, run, kind, *((part or "").removeprefix(":") for part in parts.groups()))
