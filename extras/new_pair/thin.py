"""The three files of a pair of two libraries, as one writes them by hand.

torch_model.py and paddle_model.py import what was named, and copy nothing.  Where both return the
same structure and take the same names, `build` returns the library's own model; else a module of
ten lines calls it, and names what it returns.
"""

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twincheck.extras.new_pair.described import Described
from twincheck.extras.new_pair.inputs import LABELS, MASK, POSITIVE, SORTED, Input, mask_of
from twincheck.extras.new_pair.loss import Loss
from twincheck.extras.new_pair.outputs import Matched
from twincheck.extras.new_pair.source import rename_source

WIDTH = 100
TRANSLATED = "translated"  # the folder in a pair's that PaConvert's translation is in
_ROLE = {"torch": "reference", "paddle": "candidate"}
_MODULE = {"torch": "Module", "paddle": "Layer"}
_TAKEN = {"build", "loss", "nn", "sys", "ModuleType", "cross_entropy", "regression_loss", "config"}


@dataclass(frozen=True)
class Plan:
    """All that a pair's files say."""

    config: Mapping[str, object]
    own: Mapping[str, Mapping[str, object]]  # side -> its own arguments
    inputs: Sequence[Input]
    sides: Mapping[str, Described]
    matched: Matched
    loss: Loss
    places: Mapping[str, str]  # side -> the folder in the pair's that its imports look into, or ""

    @property
    def wrapped(self) -> bool:
        """Return whether a module of the pair's own calls the libraries' models."""
        names = [one.name for one in self.inputs] + [name for name, _ in self.loss.targets]
        return not self.matched.alike or any(
            one.call_options
            or any(key != place for key, place in one.call.items())
            or any(name in one.takes and name not in one.call for name in names)
            for one in self.sides.values()
        )


# ---- case.py ------------------------------------------------------------------------------------


def inputs_text(plan: Plan | None, inputs: Sequence[Input]) -> str:
    """The function make_inputs; with the loss's targets where there is a plan."""
    masks = [one for one in inputs if one.kind == MASK]
    local = {one.name: "mask" if len(masks) == 1 else one.name for one in masks}
    lines = [f"    {local[one.name]} = {one.draw()}  # 1 = keep" for one in masks]
    entries, told = [], []
    for one in inputs:
        mask = mask_of(one, inputs)
        drawn = one.draw(mask and local[mask.name])
        entries.append(f'"{one.name}": {local.get(one.name, drawn)}')
        told.append(f"{one.name} {one.shape} {_kind(one)}")
    for name, output in plan.loss.targets if plan else ():
        entries.append(f'"{name}": rng.standard_normal({output.shape})')
        told.append(f"{name} {output.shape} float, for the loss")
    if any("rng." in entry for entry in entries):
        lines.insert(0, "    rng = np.random.default_rng(seed)")
    doc = _doc("; ".join(told), "    ")
    lines.append(laid_out("    return {", entries, "}"))
    return "\n".join(["def make_inputs(config, seed):", doc, *lines]) + "\n"


def case_text(plan: Plan, rename: Mapping[str, str], convert: str) -> str:
    """case.py."""
    torch, paddle = (plan.sides[side].spec for side in ("torch", "paddle"))
    entries = [f"{_literal(key)}: {_literal(value)}" for key, value in plan.config.items()]
    default = laid_out('CONFIGS = {"default": {', entries, "}}")
    if "\n" in default:
        lines = "".join(f"        {entry},\n" for entry in entries)
        default = 'CONFIGS = {\n    "default": {\n' + lines + "    }\n}"
    parts = [
        _doc(f"{_of(torch)} (torch) against {_of(paddle)} (Paddle).", "", "NumPy only."),
        "\nimport numpy as np\n",
        default,
    ]
    if rename:
        parts += ["\n# Paddle's name: torch's", rename_source(rename).rstrip("\n")]
    parts += ["\n", inputs_text(plan, plan.inputs).rstrip("\n")]
    if convert:
        parts += ["\n", convert.strip("\n")]
    return "\n".join(parts) + "\n"


def _kind(one: Input) -> str:
    told = {MASK: "int64, 1 = keep", LABELS: "int64, for the loss"}
    told |= {POSITIVE: "float from 0 to 1", SORTED: "float from 0 to 1, rising"}
    return told.get(one.kind, "float" if one.is_float else one.kind)


# ---- torch_model.py and paddle_model.py ---------------------------------------------------------


def model_text(plan: Plan, side: str) -> str:
    """torch_model.py or paddle_model.py."""
    described = plan.sides[side]
    wrapper = "Network" if described.spec.name != "Network" else "NamedOutputs"
    made = _made(plan, side)
    translated = "PaConvert's translation of " if plan.places[side] == TRANSLATED else ""
    parts = [
        _doc(f"The {_ROLE[side]}: {translated}{_of(described.spec)}.", ""),
        "",
        _imports(plan, side),
    ]
    if plan.wrapped:
        parts += ["\n", _wrapper(plan, side, wrapper, made)]
        made = f"{wrapper}(config", [], ")"
    built = laid_out(f"    return {made[0]}", *made[1:])
    parts += ["\n", "def build(config):", built, "\n", _loss_text(plan, side)]
    return "\n".join(parts) + "\n"


def _made(plan: Plan, side: str) -> tuple[str, list[str], str]:
    """The expression that makes the library's model: its beginning, its arguments, its end."""
    described = plan.sides[side]
    own = dict(plan.own.get(side, {})) | described.set_for_cpu
    disjoint = not set(own) & set(plan.config)
    if disjoint and all(key.isidentifier() for key in own):
        arguments = ["**config", *(f"{key}={_literal(value)}" for key, value in own.items())]
    else:
        arguments = [f"**config | {_literal(own)}"]
    found = _called(described.spec.module, described.spec.name)
    if described.config is None:
        return f"{found}(", arguments, ")"
    return f"{found}({_called(*described.config)}(", arguments, "))"


def _called(module: str, name: str) -> str:
    """Return how the file calls what it has imported."""
    return f"{module}.{name}" if name.split(".")[0] in _TAKEN else name


def _imports(plan: Plan, side: str) -> str:
    described = plan.sides[side]
    names: dict[str, set[str]] = {}
    plain = set()
    spec = described.spec
    for module, name in filter(None, [(spec.module, spec.name), described.config]):
        first = name.split(".")[0]
        if first in _TAKEN:
            plain.add(f"import {module}")
        else:
            names.setdefault(module, set()).add(first)
    if plan.wrapped:
        names.setdefault(side, set()).add("nn")
    if plan.loss.class_axis != -1:
        plain.add(f"import {side}")
    lines = sorted(plain)
    lines += [
        laid_out(f"from {m} import ", sorted(names[m]), "", brackets=True) for m in sorted(names)
    ]
    standard, before = [], []
    if plan.places[side] or described.stand_in or described.bare:
        standard.append("import sys")
    if described.bare:
        standard.append("from importlib.util import find_spec, module_from_spec")
    if plan.places[side]:
        standard.append("from pathlib import Path")
        before.append(f'sys.path.insert(0, str(Path(__file__).parent / "{plan.places[side]}"))')
    if described.stand_in:
        standard.append("from types import ModuleType")
        before += [
            "# PyPI's torchvision is built for CUDA: beside a torch for the CPU this module of it,",
            "# which only tracing needs, cannot be imported.",
            f'sys.modules["{described.stand_in}"] = ModuleType("{described.stand_in}")',
        ]
    for name, needed in sorted(described.bare.items()):
        before += [
            f"# The __init__.py of {name} needs {needed}, which the model does not: it is not run.",
            f'sys.modules["{name}"] = module_from_spec(find_spec("{name}"))',
        ]
    if spec.compat:
        standard.append("import paddle")
        before.append("paddle.enable_compat()  # from here on `import torch` gives Paddle")
    used = "cross_entropy" if plan.loss.labels else "regression_loss"
    face = f"from twincheck.{side}_side import {used}"
    parts = [standard, before, lines, [face] if plan.loss.labels or plan.loss.targets else []]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _wrapper(plan: Plan, side: str, wrapper: str, made: tuple[str, list[str], str]) -> str:
    described = plan.sides[side]
    names = list(described.call)
    arguments = [f"{place}={name}" for name, place in described.call.items()]
    if described.takes[: len(names)] == list(described.call.values()) and len(names) == 1:
        arguments = names
    arguments += [f"{key}={value!r}" for key, value in described.call_options.items()]
    outputs = plan.matched.outputs
    whole = any(one.parts[side] is None for one in outputs)
    call = f"        {'output' if whole else 'outputs'} = self.network("
    entries = [f'"{one.name}": {_part(described, one.parts[side])}' for one in outputs]
    back = laid_out("        return {", entries, "}")
    return "\n".join(
        [
            f"class {wrapper}(nn.{_MODULE[side]}):",
            '    """The model; these outputs of it are compared."""',
            "",
            "    def __init__(self, config):",
            "        super().__init__()",
            laid_out(f"        self.network = {made[0]}", made[1], made[2]),
            "",
            laid_out("    def forward(", ["self", *names], "):"),
            laid_out(call, arguments, ")"),
            back,
        ]
    )


def _part(described: Described, part: object) -> str:
    if part is None:
        return "output"
    attribute = isinstance(part, str) and described.outputs.attributes
    return f"outputs.{part}" if attribute else f"outputs[{_literal(part)}]"


def _loss_text(plan: Plan, side: str) -> str:
    loss = plan.loss
    if loss.labels is None and not loss.targets:
        return "# No loss: no output is of floats.  Steps 3 and 4 need loss(outputs, inputs)."
    if loss.labels is None:
        doc = "The squared distance from drawn targets: no labels are given."
        terms = [f'regression_loss({_taken(plan, o)}, inputs["{n}"])' for n, o in loss.targets]
        body = [f"    return {terms[0]}"]
        if len(terms) > 1:
            body = [f"    total {'+=' if i else '='} {term}" for i, term in enumerate(terms)]
            body.append("    return total")
    else:
        logits, labels = _taken(plan, loss.logits), f'inputs["{loss.labels.name}"]'
        doc = "Cross-entropy of each sample's class."
        if loss.shifted:
            doc = "Each token from those before it; labels of -100 do not count."
            logits, labels = f"{logits}[:, :-1]", f"{labels}[:, 1:]"
        elif len(loss.labels.shape) > 1:
            doc = "Cross-entropy of each place's class; labels of -100 do not count."
        if loss.class_axis != -1:
            logits = f"{side}.moveaxis({logits}, 1, -1)"
        body = [laid_out("    return cross_entropy(", [logits, labels], ")")]
    return "\n".join(["def loss(outputs, inputs):", f'    """{doc}"""', *body])


def _taken(plan: Plan, output) -> str:
    """Return the expression by which the loss takes an output."""
    part = output.name if plan.wrapped else output.parts["torch"]
    return "outputs" if part is None else f"outputs[{_literal(part)}]"


# ---- text ---------------------------------------------------------------------------------------


def laid_out(head: str, parts: Sequence[str], tail: str, brackets: bool = False) -> str:
    """`head` part, part `tail` on one line where it fits, else with the parts on their own."""
    line = f"{head}{', '.join(parts)}{tail}"
    if len(line) <= WIDTH or not parts:
        return line
    if brackets:
        head, tail = f"{head}(", f"){tail}"
    indent = " " * (len(head) - len(head.lstrip()))
    inner = f"{indent}    {', '.join(parts)}"
    if len(inner) <= WIDTH and not head.endswith("{"):
        return f"{head}\n{inner}\n{indent}{tail}"
    return "\n".join([head, *(f"{indent}    {part}," for part in parts), f"{indent}{tail}"])


def _doc(text: str, indent: str, more: str = "") -> str:
    """A docstring, wrapped where it is long."""
    lines = textwrap.wrap(text, WIDTH - len(indent) - 6, break_long_words=False)
    if len(lines) == 1 and not more:
        return f'{indent}"""{lines[0]}"""'
    lines[0] = f'"""{lines[0]}'
    return "\n".join(
        f"{indent}{line}".rstrip() for line in [*lines, *(["", more] if more else []), '"""']
    )


def _of(spec) -> str:
    return f"{spec.name} of {spec.file.name if spec.file else spec.module}"


def _literal(value: object) -> str:
    """Python's text of a plain value, with double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(k)}: {_literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_literal, value)) + ",)"[len(value) != 1 :]
    return repr(value)
