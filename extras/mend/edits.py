"""Edits of a port's source that are commonly what was wrong with it, found in its syntax tree.

An edit changes one place: a number, an operator, a name, an argument, a
call, a statement.  Values come from the reference's function of the same name and from what the
field uses.  Nothing here knows whether an edit helps: each is tried.
"""

import ast
import copy
import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from twincheck.common.line.source import statement_at

# What one function or layer is written for by mistake.
CONFUSED = (
    ("relu", "gelu", "silu", "tanh", "sigmoid", "elu", "relu6", "leaky_relu", "softplus", "mish"),
    ("ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "ELU", "ReLU6", "LeakyReLU", "Softplus", "Mish"),
    ("softmax", "log_softmax", "sigmoid"),
    ("mean", "sum", "max", "min", "amax", "amin", "numel"),
    ("argmax", "argmin"),
    ("cos", "sin"),
    ("tril", "triu"),
    ("floor", "ceil", "round", "trunc"),
    ("zeros", "ones", "zeros_like", "ones_like"),
    ("exp", "expm1"),
    ("log", "log1p", "log2", "log10"),
    ("sqrt", "rsqrt", "square"),
    ("maximum", "minimum"),
    ("any", "all"),
    ("cumsum", "cumprod"),
    ("var", "std"),
    ("LayerNorm", "RMSNorm"),
    ("greater_than", "greater_equal", "less_than", "less_equal", "equal", "not_equal"),
)
# Last name of a call -> keywords that are commonly left out, and their values.
LEFT_OUT = {
    "gelu": {"approximate": (True,)},
    "GELU": {"approximate": (True,)},
    "LayerNorm": {"epsilon": (1e-12, 1e-6, 1e-8, 1e-3)},
    "RMSNorm": {"epsilon": (1e-6, 1e-8, 1e-12)},
    "layer_norm": {"epsilon": (1e-12, 1e-6, 1e-8, 1e-3)},
    "GroupNorm": {"epsilon": (1e-6, 1e-3)},
    **dict.fromkeys(
        ("BatchNorm1D", "BatchNorm2D", "BatchNorm3D"),
        {"epsilon": (1e-3, 1e-6), "momentum": (0.1, 0.99, 0.01), "use_global_stats": (True,)},
    ),
    "Linear": {"bias_attr": (False,)},
    **dict.fromkeys(
        ("Conv1D", "Conv2D"),
        {"bias_attr": (False,), "padding_mode": ("circular", "reflect", "replicate")},
    ),
    "Embedding": {"padding_idx": (0,)},
    "LeakyReLU": {"negative_slope": (0.1, 0.2)},
    "leaky_relu": {"negative_slope": (0.1, 0.2)},
    "softmax": {"axis": (-1, 1, 0, -2)},
    "log_softmax": {"axis": (-1, 1, 0, -2)},
    "mean": {"keepdim": (True,)},
    "sum": {"keepdim": (True,)},
    "max": {"keepdim": (True,)},
    "var": {"unbiased": (False,)},
    "std": {"unbiased": (False,)},
    "interpolate": {"align_corners": (True,), "align_mode": (1,)},
    "grid_sample": {"align_corners": (False,)},
    "affine_grid": {"align_corners": (False,)},
    "avg_pool1d": {"exclusive": (False,), "ceil_mode": (True,)},
    "avg_pool2d": {"exclusive": (False,), "ceil_mode": (True,)},
    "max_pool2d": {"ceil_mode": (True,)},
    "AvgPool1D": {"exclusive": (False,), "ceil_mode": (True,)},
    "AvgPool2D": {"exclusive": (False,), "ceil_mode": (True,)},
    "MaxPool1D": {"ceil_mode": (True,)},
    "MaxPool2D": {"ceil_mode": (True,)},
    "matmul": {"transpose_y": (True,), "transpose_x": (True,)},
    "triu": {"diagonal": (1,)},
    "tril": {"diagonal": (-1,)},
    "cross_entropy": {"ignore_index": (0, -1), "label_smoothing": (0.1,), "reduction": ("sum",)},
    "dropout": {"mode": ("downscale_in_infer",)},
    "argsort": {"descending": (True,), "stable": (True,)},
    "TransformerEncoderLayer": {"normalize_before": (True,), "activation": ("gelu",)},
    "normalize": {"epsilon": (1e-6, 1e-8)},
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN"), {"time_major": (True,)}),
    **dict.fromkeys(("fftn", "ifftn"), {"axes": ((-2, -1), (1, 2), (-1,))}),
}
# Likewise of a configuration, whatever its class's name before Config.
OF_CONFIGS = {
    "hidden_act": ("gelu", "gelu_new", "relu", "silu"),
    "layer_norm_eps": (1e-12, 1e-6, 1e-5),
    "rms_norm_eps": (1e-6, 1e-5),
    "tie_word_embeddings": (False, True),
    "pool_act": ("gelu", "tanh", "relu"),
}
# A keyword's usual values, whatever takes it.
USUAL = {
    "epsilon": (1e-12, 1e-8, 1e-6, 1e-5, 1e-3, 1e-9),
    "axis": (-1, 0, 1, 2, -2),
    "padding_mode": ("zeros", "circular", "reflect", "replicate"),
    "mode": ("nearest", "bilinear", "bicubic", "linear", "reflect", "constant", "replicate"),
    "reduction": ("mean", "sum", "none"),
    "approximate": (True, False),
    "dtype": ("float32", "float16", "bfloat16"),
    "diagonal": (-1, 0, 1),
}
# What is put around a value by mistake, or forgotten.
AROUND = (  # 0: the value, 1: in parentheses where it needs them
    *("paddle.tanh({0})", "F.relu({0})", "F.gelu({0})", "F.sigmoid({0})", "F.silu({0})"),
    *("F.softmax({0}, axis=-1)", "paddle.sqrt({0})", "paddle.exp({0})", "{1}.detach()", "-{1}"),
    *("F.normalize({0}, p=1, axis=-1)", '{1}.astype("float32")'),
    *("{1} * {1}.shape[-1] ** -0.5", "{1} / {1}.shape[-1] ** 0.5", "{1} / 2", "{1} * 2"),
    *("(1 - {1}) * -10000.0", '{1}.astype("bool")'),  # a mask
    *("{1}.flatten(1)", "{1}.flatten(2)", "{1}.unsqueeze(-1)", "{1}.transpose([0, 2, 1])"),
)
IDLE = ("{1} * {2}", "{1} + {2}", "{2}({0})")  # 2: what is made, and used nowhere
AGAIN = ("drop", "act", "norm")  # in names of layers that may be called once more
TAKING = ("attn_mask", "mask", "weight")  # the keywords of calls that it may be meant for
MASKED = ('float("-inf")', "-1e9", "-1e4", "-1e30")  # what is added where nothing may be seen
_OPERATORS = {
    ast.Add: ("-", "*"),
    ast.Sub: ("+",),
    ast.Mult: ("/", "+"),
    ast.Div: ("*", "//"),
    ast.FloorDiv: ("/",),
    ast.Pow: ("*",),
    ast.MatMult: ("*",),
    ast.BitAnd: ("|",),
    ast.BitOr: ("&",),
}
_SIGNS = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//"},
    **{ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.Mod: "%"},
}
_COMPARED = {
    ast.Lt: ("<=", ">", ">="),
    ast.LtE: ("<", ">=", ">"),
    ast.Gt: (">=", "<", "<="),
    ast.GtE: (">", "<=", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
}
# Another number there is right by chance, where inputs lack it: the reference's, or none.
INDICES = ("padding_idx", "ignore_index")
LOOSE = ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp | ast.IfExp | ast.Lambda
HOLDING = ast.Dict | ast.DictComp | ast.List | ast.Tuple | ast.Assign | ast.Return  # an array
MODULES = ("paddle", "F", "nn.functional", "paddle.nn.functional")  # whose functions are called
RECURRENT = ("lstm", "gru", "rnn")
CASE, MAPPING = "case.py", ("RENAME", "convert")  # what says which weight is which
TOKEN = re.compile(rb"\d[\w.]*(?:(?<=[eE])-\d+)?|\w+|[^\w\s]")
MOST_NAMES = 12  # other names that are tried in a name's place
MOST_ORDERS = 24  # of a permutation


@dataclass(frozen=True, order=True)
class Edit:
    """One change of a source: the bytes from start to end become `new`."""

    start: int
    end: int
    new: bytes
    kind: str  # of KINDS, the commonest first

    def changed(self, source: bytes) -> int:
        """Count the tokens that are new; one where the edit only leaves something out."""
        old, new = (TOKEN.findall(text) for text in (source[self.start : self.end], self.new))
        return max(1, len(new) - sum(_ends_alike(old, new)))

    def least(self, source: bytes) -> "Edit":
        """Return the edit of those bytes alone that it changes."""
        ahead, behind = _ends_alike(source[self.start : self.end], self.new)
        new = self.new[ahead : len(self.new) - behind]
        return Edit(self.start + ahead, self.end - behind, new, self.kind)

    def applied(self, source: bytes) -> bytes:
        """Return the source with the edit in it."""
        return source[: self.start] + self.new + source[self.end :]


def _ends_alike(old: Sequence, new: Sequence) -> tuple[int, int]:
    """Count the items that are alike at the beginning of both, and of the rest at the end."""
    ahead = len(os.path.commonprefix([old, new]))
    return ahead, len(os.path.commonprefix([old[ahead:][::-1], new[ahead:][::-1]]))


def joined(some: Sequence[Edit], source: bytes) -> Edit:
    """Edits of several places as one, of the last one's kind."""
    ordered = sorted(some)
    new = ordered[0].new
    for one, following in itertools.pairwise(ordered):
        new += source[one.end : following.start] + following.new
    return Edit(ordered[0].start, ordered[-1].end, new, some[-1].kind)


KINDS = ("reference", "setting", "function", "operator", "name", "order", "structure", "around")


class Source:
    """A file's text and its tree, and where its nodes stand."""

    def __init__(self, text: bytes):
        self.text, self.tree = text, ast.parse(text)
        lengths = itertools.accumulate(len(line) for line in text.splitlines(keepends=True))
        self._starts = [0, *lengths]

    @cached_property
    def held(self) -> dict[str, str]:
        """The name that a model holds a function under -> the function's own last name."""
        found = {}
        for one in ast.walk(self.tree):
            if isinstance(one, ast.Assign) and isinstance(one.value, ast.Attribute):
                if isinstance(one.targets[0], ast.Attribute):
                    found[one.targets[0].attr] = one.value.attr
        return found

    @cached_property
    def idle(self) -> dict[ast.AST, list[str]]:
        """A method -> the attributes that its class makes in another one, and uses nowhere."""
        found = {}
        for holder in ast.walk(self.tree):
            if not isinstance(holder, ast.ClassDef):
                continue
            methods = [one for one in holder.body if isinstance(one, ast.FunctionDef)]
            own = [one for one in ast.walk(holder) if isinstance(one, ast.Attribute)]
            own = [one for one in own if ast.unparse(one.value) == "self"]
            read = {one.attr for one in own if _is_read(one)}
            idle = [f"self.{one.attr}" for one in own if one.attr not in read]
            found |= {one: idle for one in methods if one.name != "__init__"}
        return found

    def span(self, node: ast.AST) -> tuple[int, int]:
        """A node's first byte, and the one behind its last."""
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.AST) -> str:
        """Return a node's own text."""
        start, end = self.span(node)
        return self.text[start:end].decode()

    def operand(self, node: ast.AST) -> str:
        """A node's text, in parentheses where an operator would take it apart."""
        return f"({self.of(node)})" if isinstance(node, LOOSE) else self.of(node)

    def without(self, statement: ast.stmt) -> tuple[int, int, str]:
        """(first byte, last, new text) of a file without a statement: without its lines."""
        start, end = self.span(statement)
        line = self._starts[statement.lineno - 1]
        below = self.text.find(b"\n", end) + 1 or len(self.text)
        behind = self.text[end:below].strip()
        if self.text[line:start].strip() or behind and not behind.startswith(b"#"):
            return start, end, "pass"
        return line, below, ""

    def at(self, lines: Sequence[int]) -> list[tuple[int, int]]:
        """Return the first byte of the statement at each line, and the one behind its last.

        Of a function or a loop it is what stands before its body.
        """
        found = []
        for line in lines:
            if (least := statement_at(self.tree, line)) is not None:
                start, end = self.span(least)
                body = getattr(least, "body", None)
                found.append((start, self.span(body[0])[0] if body else end))
        return found

    def functions(self) -> Iterator[tuple[str, ast.AST]]:
        """(dotted name, node) of every function, a method's behind its class's; and of each class.

        The module itself comes last, under an empty name.
        """
        stack: list[tuple[str, ast.AST]] = [("", self.tree)]
        while stack:
            name, node = stack.pop(0)
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.FunctionDef | ast.ClassDef):
                    dotted = f"{name}.{child.name}" if name else child.name
                    yield dotted, child
                    stack.append((dotted, child))
        yield "", self.tree

    def constants(self) -> Iterator[tuple[str, ast.AST]]:
        """(dotted name, node) of what a module or a class assigns outside its functions."""
        for holder, node in self.functions():
            for one in [] if isinstance(node, ast.FunctionDef) else node.body:
                if isinstance(one, ast.Assign):
                    yield f"{holder}.{ast.unparse(one.targets[0])}".lstrip("."), one


def edits(source: Source, node: ast.AST, values: "Values") -> Iterator[Edit]:
    """Every edit of what is in a node, such as a function."""
    names = Names.of(node, source.idle.get(node, ()))
    parents = {c: p for p in ast.walk(node) for c in ast.iter_child_nodes(p)}
    for one in ast.walk(node):
        if not hasattr(one, "lineno") and not isinstance(one, ast.Module):
            continue
        for kind, (start, end), new in _of_node(source, one, parents, names, values):
            if source.text[start:end] != new.encode():
                yield Edit(start, end, new.encode(), kind)


def of_mapping(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Every edit of what a case.py says of the weights, RENAME or `convert`.

    Beside the usual ones: two values of a dict exchanged, a transposition left out or put in.
    """
    yield from edits(source, node, Values.of(node))
    for one in ast.walk(node):
        if isinstance(one, ast.Dict):
            for a, b in itertools.combinations(one.values[:MOST_NAMES], 2):
                parts = Edit(*source.span(a), source.of(b).encode(), "order")
                other = Edit(*source.span(b), source.of(a).encode(), "order")
                yield joined([parts, other], source.text)
        held = getattr(one, "values", getattr(one, "elts", [getattr(one, "value", None)]))
        for value in held if isinstance(one, HOLDING) else ():
            if isinstance(value, ast.Call | ast.Name | ast.Subscript | ast.Attribute):
                is_turned = getattr(value, "attr", "") == "T"
                new = source.of(value.value) if is_turned else f"{source.of(value)}.T"
                yield Edit(*source.span(value), new.encode(), "order")


def of_numbers(
    source: Source, spans: Sequence[tuple[int, int]], numbers: Sequence[tuple[object, object]]
) -> Iterator[Edit]:
    """Yield the edits that put the second of two plain values where the first stands in a span."""
    for node in ast.walk(source.tree) if numbers else ():
        if not isinstance(node, ast.expr):
            continue
        start, end = source.span(node)
        with suppress(ValueError, TypeError, SyntaxError):
            value = ast.literal_eval(node)
            new = [theirs for own, theirs in numbers if own == value and type(own) is type(value)]
            if new and any(first <= start and end <= last for first, last in spans):
                yield Edit(start, end, repr(new[0]).encode(), "setting")


@dataclass(frozen=True)
class Values:
    """The values that the reference has: numbers and texts of its function."""

    numbers: tuple[float, ...] = ()
    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, *nodes: ast.AST) -> "Values":
        """Collect the values of some nodes, each once."""
        found = [one.value for n in nodes for one in ast.walk(n) if isinstance(one, ast.Constant)]
        numbers = [v for v in found if isinstance(v, int | float) and not isinstance(v, bool)]
        texts = [v for v in found if isinstance(v, str) and "\n" not in v and len(v) < 40]
        return cls(tuple(dict.fromkeys(numbers)), tuple(dict.fromkeys(texts)))


@dataclass(frozen=True)
class Names:
    """Names that may stand in one another's place in a function."""

    local: tuple[str, ...]
    values: tuple[str, ...]  # attributes of self that are not called
    called: tuple[str, ...]  # and those that are
    idle: tuple[str, ...]  # what is made, and used nowhere
    parts: tuple[tuple[str, str], ...]  # a name, and what is divided by something elsewhere: c // n

    @classmethod
    def of(cls, node: ast.AST, idle: Iterable[str] = ()) -> "Names":
        """Collect a function's names; of attributes that its class makes, `idle` are unused."""
        local: dict[str, None] = {}
        values: dict[str, None] = {}
        called: dict[str, None] = {}
        functions = {id(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)}
        for one in ast.walk(node):
            if isinstance(one, ast.arg) and one.arg not in ("self", "cls"):
                local[one.arg] = None
            elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                local[one.id] = None
            elif isinstance(one, ast.Attribute) and ast.unparse(one.value) == "self":
                (called if id(one) in functions else values)[one.attr] = None
        read = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and _is_read(one)}
        unread = [name for name in local if name not in read and name != "_"]
        quotients = (one for one in ast.walk(node) if isinstance(one, ast.BinOp))
        parts = {
            (one.left.id, ast.unparse(one)): None
            for one in quotients
            if isinstance(one.left, ast.Name) and isinstance(one.op, ast.FloorDiv)
        }
        return cls(tuple(local), tuple(values), tuple(called), (*unread, *idle), tuple(parts))


def _is_read(node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _of_node(source: Source, node, parents, names: Names, values: Values):
    """(kind, span, new text) of a node by itself."""
    parent = parents.get(node)
    if (value := _literal(node)) is not None or isinstance(node, ast.Constant):
        signed = isinstance(node, ast.Constant) and isinstance(parent, ast.UnaryOp)
        if not signed and not isinstance(parent, ast.Expr | ast.JoinedStr | ast.FormattedValue):
            yield from _constants(source, node, value, parent, values)
            if isinstance(parent, ast.keyword) and not isinstance(value, str):
                yield from _named(source, node, "", names.local)
            if isinstance(parent, ast.Assign) and isinstance(value, float):  # a width's root
                for name in names.local[:MOST_NAMES]:
                    yield from (
                        ("setting", source.span(node), f"{name} ** {p}") for p in (0.5, -0.5)
                    )
    elif isinstance(node, ast.UnaryOp):
        yield "operator", source.span(node), f"({source.of(node.operand)})"
    elif isinstance(node, ast.BinOp):
        yield from _binary(source, node)
        if isinstance(node.op, ast.Mult | ast.Div):
            for name in names.local[:MOST_NAMES]:
                yield from (
                    ("around", source.span(node), f"{source.of(node)} {s} {name}") for s in "*/"
                )
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = source.of(node.left), source.of(node.comparators[0])
        for sign in _COMPARED.get(type(node.ops[0]), ()):
            yield "operator", source.span(node), f"{left} {sign} {right}"
    elif isinstance(node, ast.BoolOp):
        sign = " or " if isinstance(node.op, ast.And) else " and "
        yield "operator", source.span(node), sign.join(source.of(v) for v in node.values)
    elif isinstance(node, ast.IfExp):
        a, test, b = (source.of(v) for v in (node.body, node.test, node.orelse))
        yield "structure", source.span(node), f"{b} if {test} else {a}"
    elif node is getattr(parent, "test", None) and isinstance(node, ast.Name | ast.Attribute):
        pass  # what another name decides is no mend, be it true or false here
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield from _named(source, node, node.id, names.local)
        for name, part in names.parts:
            if name == node.id:
                yield "name", source.span(node), f"({part})"
        if isinstance(parent, ast.Call) and node is not parent.func:
            yield "operator", source.span(node), f"-{node.id}"
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield from _attributes(source, node, parent, names)
    elif isinstance(node, ast.Call):
        yield from _calls(source, node, names)
    elif isinstance(node, ast.List | ast.Tuple) and isinstance(node.ctx, ast.Load):
        yield from _orders(source, node)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield from _named(source, node, "", names.local)
    elif isinstance(node, ast.Slice):
        yield from _slices(source, node)
    elif isinstance(node, ast.keyword) and node.arg and isinstance(parent, ast.Call):
        yield from _keywords(source, node, values)
    if isinstance(node, ast.UnaryOp | ast.Call) and _masks(node):
        yield from (("setting", source.span(node), text) for text in MASKED)
    if isinstance(node, ast.expr) and isinstance(parent, ast.Return | ast.Assign):
        yield from _casts(source, node)
    held = ast.Return | ast.Assign | ast.Call
    if isinstance(parent, ast.BinOp) and not isinstance(node, ast.Name):
        held |= ast.BinOp
    if isinstance(node, ast.expr) and isinstance(parent, held):
        if not (isinstance(parent, ast.Call) and node is parent.func) and not _is_plain(node):
            given = source.of(node), source.operand(node)
            for name in names.idle:
                yield from (("around", source.span(node), f.format(*given, name)) for f in IDLE)
            for name in (n for n in names.called if any(part in n for part in AGAIN)):
                yield "around", source.span(node), f"self.{name}({given[0]})"
            yield from (("around", source.span(node), form.format(*given)) for form in AROUND)
    if isinstance(node, ast.FunctionDef):
        yield from _alternating(source, node)
    if isinstance(node, ast.FunctionDef) and not node.decorator_list:
        start, indent = source.span(node)[0], " " * node.col_offset
        yield "structure", (start, start), f"@paddle.no_grad()\n{indent}"
    for body in ("body", "orelse"):
        statements = getattr(node, body, None)
        if isinstance(statements, list):
            yield from _statements(source, statements)


def _masks(node: ast.AST) -> bool:
    """Return whether a node is a number of -10 or below, or minus infinity: a mask's."""
    try:
        return float(ast.literal_eval(node)) <= -10
    except (ValueError, TypeError):
        return ast.unparse(node) in ("float('-inf')", "-float('inf')", "-math.inf")


def _is_plain(node: ast.AST) -> bool:
    """Return whether a node holds no tensor: a constant, a list of numbers."""
    return isinstance(node, ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Starred)


def _literal(node: ast.AST) -> bool | float | str | None:
    """The value of a constant, or of a number with its sign; None of anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, bool | int | float | str) else None
    number = _literal(node.operand) if isinstance(node, ast.UnaryOp) else None
    is_negative = isinstance(getattr(node, "op", None), ast.USub) and type(number) in (int, float)
    return -number if is_negative else None


def _constants(source: Source, node: ast.expr, value, parent, values: Values):
    span = source.span(node)
    if isinstance(parent, ast.keyword) and parent.arg in INDICES:
        return
    other, neutral = _left_of(node, parent), None
    if other is not None:  # it is left out, for it to add nothing
        neutral, text = int(isinstance(parent.op, ast.Mult | ast.Div)), source.operand(other)
        yield "setting", source.span(parent), text
    if isinstance(value, bool):
        yield "setting", span, repr(not value)
    elif _masks(node):
        yield from (("setting", span, repr(-number)) for number in values.numbers if number > 0)
    elif isinstance(value, int):
        near = (value + 1, value - 1, -value, 0, 1, 2, -1, -2, 2 * value)
        whole = (v for v in values.numbers if isinstance(v, int) and abs(v) < 1 << 31)
        yield from (
            ("setting", span, repr(v))
            for v in dict.fromkeys((*whole, *near))
            if v not in (value, neutral)
        )
    elif isinstance(value, float):
        near = [1 - value, -value, 2 * value, value / 2, 10 * value, value / 10, 0.0, 1.0]
        near += [float(math.floor(value)), float(math.ceil(value))] if math.isfinite(value) else []
        near += [1 / value] if value else []
        near += [math.sqrt(value)] if value > 0 else []
        near = [float(f"{number:.12g}") for number in near]  # 1e-06, not 1.0000000000000002e-06
        if 0 < value < 0.01:
            near += USUAL["epsilon"]
        found = dict.fromkeys((*values.numbers, *near))
        yield from (("setting", span, repr(v)) for v in found if v not in (value, neutral))
    elif isinstance(value, str):
        alike = next((row for row in (*USUAL.values(), *CONFUSED) if value in row), ())
        for text in dict.fromkeys((*alike, *values.texts)):
            if isinstance(text, str) and text != value:
                yield "setting", span, repr(text)


class _Uncast(ast.NodeTransformer):
    """An expression without its casts."""

    def visit_Call(self, node):
        """Put what is cast in place of the cast."""
        self.generic_visit(node)
        is_cast = isinstance(node.func, ast.Attribute) and node.func.attr == "astype"
        return node.func.value if is_cast else node


class _Cast(ast.NodeTransformer):
    """An expression of which all that is named is cast to float32."""

    def visit_Name(self, node):
        """Cast a name to float32."""
        return ast.parse(f'{ast.unparse(node)}.astype("float32")', mode="eval").body

    visit_Attribute = visit_Name

    def visit_Call(self, node):
        """Cast a call's arguments and the value whose method it is; the function is no value."""
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        if of is not None and ast.unparse(of) not in (*MODULES, "self"):
            node.func.value = self.visit(of)
        node.args = [self.visit(argument) for argument in node.args]
        return node


def _casts(source: Source, node: ast.expr):
    """Yield edits that compute without any cast, or in float32 with a cast back."""
    plain = _Uncast().visit(copy.deepcopy(node))
    if ".astype(" in source.of(node):
        yield "structure", source.span(node), ast.unparse(plain)
    named = [one for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute)]
    if isinstance(node, ast.BinOp) and named:
        exact = ast.unparse(_Cast().visit(plain))
        yield "structure", source.span(node), f"({exact}).astype({source.of(named[0])}.dtype)"


def _left_of(number: ast.expr, parent: ast.AST) -> ast.expr | None:
    """Return what stays where a number is left out of a sum or a product; None for neither."""
    if not isinstance(parent, ast.BinOp) or type(_literal(number)) not in (int, float):
        return None
    if parent.right is number and isinstance(parent.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        return parent.left
    return parent.right if isinstance(parent.op, ast.Add | ast.Mult) else None


def _binary(source: Source, node: ast.BinOp):
    left, right = source.operand(node.left), source.operand(node.right)
    own, span = _SIGNS.get(type(node.op), "+"), source.span(node)
    for sign in _OPERATORS.get(type(node.op), ()):
        yield "operator", span, f"{left} {sign} {right}"
    if isinstance(node.op, ast.Sub | ast.Div | ast.MatMult | ast.Pow):
        yield "order", span, f"{right} {own} {left}"
    for side, other in ((left, node.right), (right, node.left)):
        if _left_of(other, node) is None:  # a number that is left out is a setting
            yield "structure", span, side
    for part in (node.left, node.right):
        if isinstance(node.op, ast.Mult) and isinstance(part, ast.Name | ast.Attribute):
            yield "operator", source.span(part), f"(1 - {source.of(part)})"
    if isinstance(node.op, ast.Add) and isinstance(node.left, ast.BinOp):  # a moving average
        for part in (node.left.left, node.left.right):
            if isinstance(node.left.op, ast.Mult) and isinstance(part, ast.Name | ast.Attribute):
                kept = source.of(node.left)
                yield "structure", span, f"{kept} + {right} * (1 - {source.of(part)})"
    # f(a) * b for a * f(b).
    for call, other, turned in ((node.left, right, True), (node.right, left, False)):
        if isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords:
            one, two = source.of(call.args[0]), f"{source.of(call.func)}({other})"
            yield "structure", span, f"{one} {own} {two}" if turned else f"{two} {own} {one}"
    # f(a) + b for f(a + b), and the other way round.
    for call, other in ((node.left, right), (node.right, left)):
        if isinstance(call, ast.Call) and call.args:
            inner = source.of(call.args[0])
            rest = "".join(f", {source.of(a)}" for a in (*call.args[1:], *call.keywords))
            yield "structure", span, f"{source.of(call.func)}({inner} {own} {other}{rest})"


def _named(source: Source, node, own: str, others: Iterable[str]):
    near = [name for name in others if name != own][:MOST_NAMES]
    yield from (("name", source.span(node), name) for name in near)


def _attributes(source: Source, node: ast.Attribute, parent, names: Names):
    is_called = isinstance(parent, ast.Call) and parent.func is node
    if not is_called and not isinstance(parent, ast.Attribute):
        yield from _named(source, node, "", names.local)
    holder = source.of(node.value)
    if holder == "self":
        others = names.called if is_called else names.values
        for name in [name for name in others if name != node.attr][:MOST_NAMES]:
            yield "name", source.span(node), f"self.{name}"
    for row in CONFUSED:
        if node.attr in row:
            others = (name for name in row if name != node.attr)
            yield from (("function", source.span(node), f"{holder}.{name}") for name in others)


def _calls(source: Source, node: ast.Call, names: Names):
    span, called = source.span(node), source.of(node.func)
    arguments = [source.of(argument) for argument in node.args]
    keywords = [source.of(keyword) for keyword in node.keywords]

    def call(*parts: str) -> str:
        return f"{called}({', '.join(parts)})"

    for i in range(len(arguments) - 1):
        turned = [*arguments[:i], arguments[i + 1], arguments[i], *arguments[i + 2 :]]
        yield "order", span, call(*turned, *keywords)
    for i in range(len(keywords)):
        yield "setting", span, call(*arguments, *keywords[:i], *keywords[i + 1 :])
    named = {keyword.arg for keyword in node.keywords}
    for i, one in enumerate(node.args[1:], 1):  # what is given in its place, by its name
        name = getattr(one, "attr", getattr(one, "id", None))
        if name and name not in named and not any(isinstance(a, ast.Starred) for a in node.args):
            by_name = (*arguments[:i], *arguments[i + 1 :], *keywords, f"{name}={arguments[i]}")
            yield "setting", span, call(*by_name)
    if called.rpartition(".")[2].lower() in RECURRENT and "sequence_length" not in named:
        for name in (name for name in names.local if "len" in name):
            yield "setting", span, call(*arguments, *keywords, f"sequence_length={name}")
    for name in names.idle:
        yield "around", span, call(*arguments, name, *keywords)
        for taking in TAKING:
            yield "setting", span, call(*arguments, *keywords, f"{taking}={name}")
    last = called.split(".")[-1]
    yield from _pieces(source, node, last)
    if last in ("erf", "tanh") and isinstance(node.func, ast.Attribute):  # GELU's two forms
        module, used = source.of(node.func.value), (n for a in node.args for n in ast.walk(a))
        for x in dict.fromkeys(
            n.id for n in used if isinstance(n, ast.Name) and n.id in names.local
        ):
            inner = f"{(2 / math.pi) ** 0.5} * ({x} + 0.044715 * {x} ** 3)"
            yield "function", span, f"{module}.tanh({inner})"
            yield "function", span, f"{module}.erf({x} / 2 ** 0.5)"
    if last == "arange" and 0 < len(arguments) < 3:  # positions from another number on
        first, behind = (["0"] + arguments)[-2:]
        yield from (("setting", span, call(f"{i}", f"{behind} + {i}", *keywords)) for i in (1, 2))
        more = f" + {first}"
        count = behind.removesuffix(more) if behind.endswith(more) else f"{behind} - {first}"
        yield "setting", span, call(count, *keywords)
    left_out = (
        OF_CONFIGS if last.endswith("Config") else LEFT_OUT.get(source.held.get(last, last), {})
    )
    for name, given in left_out.items():
        if name not in named:
            for value in given:
                yield "setting", span, call(*arguments, *keywords, f"{name}={value!r}")
    if arguments:  # without it, and with time first
        yield "structure", span, f"({arguments[0]})"
        if called.startswith("self."):
            turned = f"{source.operand(node.args[0])}.transpose([1, 0, 2])"
            whole = f"{call(turned, *arguments[1:], *keywords)}.transpose([1, 0, 2])"
            yield "structure", span, whole
        if called.startswith("self.") and "embed" in called.lower():  # a row that is not trained
            own, whole = source.operand(node.args[0]), source.of(node)
            for at in ("0", *(f"self.{name}" for name in names.values if "pad" in name)):
                row = f"({own} == {at}).unsqueeze(-1)"
                once = f"(rows := {whole}).detach(), rows"
                yield "setting", span, f"paddle.where({row}, {once})"
        # f(a + b) for f(a) + b
        first = node.args[0]
        if isinstance(first, ast.BinOp):
            sign = _SIGNS.get(type(first.op), "+")
            sides = source.of(first.left), source.of(first.right)
            for inner, outer in (sides, sides[::-1]):
                whole = f"{call(inner, *arguments[1:], *keywords)} {sign} {outer}"
                yield "structure", span, f"({whole})"
    if isinstance(node.func, ast.Attribute) and source.of(node.func.value) != "self":
        yield "structure", span, source.of(node.func.value)


def _pieces(source: Source, node: ast.Call, last: str):
    """Yield other pieces of a tensor: their number for their size; repeated for tiled values."""
    if not isinstance(node.func, ast.Attribute) or not node.args:
        return
    by_function = source.of(node.func.value) in MODULES
    of, given = (node.args[0], node.args[1:]) if by_function else (node.func.value, node.args)
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    text = source.operand(of)
    if last == "split" and given and not isinstance(given[0], ast.List | ast.Tuple):
        at = keywords.get("axis", given[1] if len(given) > 1 else None)
        axis = source.of(at) if at else "0"
        size, whole = source.operand(given[0]), f"{text}.shape[{axis}]"
        if isinstance(given[0], ast.BinOp) and isinstance(given[0].op, ast.FloorDiv):
            whole, size = source.of(given[0].left), source.operand(given[0].right)
        sizes = f"[{size}] * ({whole} // {size}) + [{whole} % {size}] * ({whole} % {size} > 0)"
        for new in (f"{whole} // {size}", sizes):
            yield "function", source.span(given[0]), new
    axis = (_literal(keywords["axis"]) if "axis" in keywords else None) or 0
    if last == "tile" and given and isinstance(given[0], ast.List | ast.Tuple):
        for i, times in enumerate(given[0].elts):
            if _literal(times) != 1:
                text += f".repeat_interleave({source.of(times)}, axis={i})"
        yield "function", source.span(node), text
    elif last == "repeat_interleave" and given and isinstance(axis, int) and axis >= 0:
        before, behind = "1, " * axis, f"[1] * ({text}.ndim - {axis + 1})"
        times = f"[{before}{source.of(given[0])}] + {behind}"
        yield "function", source.span(node), f"{text}.tile({times})"


def _keywords(source: Source, node: ast.keyword, values: Values):
    usual = (0.0,) if "dropout" in node.arg else USUAL.get(node.arg, ())
    for value in (*usual, *values.numbers) if node.arg not in INDICES else ():
        text = repr(value)
        if source.of(node.value) != text and not isinstance(node.value, ast.Constant):
            yield "setting", source.span(node.value), text


def _halves(source: Source, one: ast.Assign):
    """Yield two halves for what alternates, and the other way round."""
    target, value = one.targets[0], one.value
    if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
        return
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.args:
        of = source.of(
            value.args[0] if ast.unparse(value.func.value) in MODULES else value.func.value
        )
        if value.func.attr in ("chunk", "split"):
            yield "order", source.span(value), f"{of}[..., ::2], {of}[..., 1::2]"
    elif isinstance(value, ast.Tuple) and isinstance(value.elts[0], ast.Subscript):
        of = source.of(value.elts[0].value)
        yield "order", source.span(value), f"{of}.chunk(2, axis=-1)"


def _put_in(source: Source, one: ast.Assign, following: ast.stmt) -> Iterator[str]:
    """A statement with the value of the one before it, in one place of its name, and without it."""
    name, value = ast.unparse(one.targets[0]), source.operand(one.value)
    start, end = source.span(following)
    for used in ast.walk(following):
        if isinstance(used, ast.Name) and used.id == name and _is_read(used):
            at, to = source.span(used)
            before, behind = source.text[start:at].decode(), source.text[to:end].decode()
            yield f"{before}{value}{behind}"


def _alternating(source: Source, function: ast.FunctionDef):
    """All slices of two halves as what alternates, and the other way round."""
    parts: dict[bool, list[Edit]] = {True: [], False: []}
    for one in ast.walk(function):
        of = one.slice if isinstance(one, ast.Subscript) else None
        last = of.elts[-1] if isinstance(of, ast.Tuple) and of.elts else of
        if not isinstance(last, ast.Slice):
            continue
        text = source.of(last).replace(" ", "")
        half = text.strip(":")
        if text in ("0::2", "::2", "1::2"):
            width = f"{source.of(one.value)}.shape[-1] // 2"
            new = f"{width}:" if text == "1::2" else f": {width}"
        elif half.endswith("//2") and text in (f":{half}", f"{half}:"):
            new = "0::2" if text[0] == ":" else "1::2"
        else:
            continue
        parts[new.endswith("::2")].append(Edit(*source.span(last), new.encode(), "order"))
    for found in (of for of in parts.values() if of):
        edit = joined(found, source.text)
        yield edit.kind, (edit.start, edit.end), edit.new.decode()


def _orders(source: Source, node):
    """Yield other orders of a list: all where it is of numbers, else two places exchanged."""
    texts = [source.of(one) for one in node.elts]
    if not 2 <= len(texts) <= 6:
        return
    start, end = source.span(node)
    opened, closed = source.text[start : start + 1].decode(), source.text[end - 1 : end].decode()
    if opened not in "([":
        opened = closed = ""
    if all(text.lstrip("-").isdigit() for text in texts):
        others = list(itertools.islice(itertools.permutations(texts), 1, MOST_ORDERS))
    else:
        others = []
        if len(texts) == 2:  # padding on one side alone
            a, b = texts
            others += [(f"{a} + {b}", "0"), ("0", f"{a} + {b}")]
        for i, j in itertools.combinations(range(len(texts)), 2):
            turned = list(texts)
            turned[i], turned[j] = texts[j], texts[i]
            others.append(turned)
    for other in others:
        yield "order", (start, end), f"{opened}{', '.join(other)}{closed}"


def _slices(source: Source, node: ast.Slice):
    span = source.span(node)
    lower, upper, step = (
        source.of(part) if part else "" for part in (node.lower, node.upper, node.step)
    )
    others = [(f"{lower or 0} + 1", upper), (lower, f"{upper} - 1" if upper else "-1")]
    others += [("", upper)] if lower else []
    others += [(lower, "")] if upper else []
    others += [(upper, ""), ("", lower)] if lower or upper else []
    for low, high in others:
        yield "setting", span, f"{low}:{high}{f':{step}' if step else ''}"


def _statements(source: Source, statements: list):
    for i, one in enumerate(statements):
        if isinstance(one, ast.Assign):
            yield from _halves(source, one)
        simple = ast.Assign | ast.AugAssign | ast.Expr | ast.Return
        if not isinstance(one, simple | ast.If | ast.With | ast.For):
            continue
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
            continue
        start, end = source.span(one)
        if len(statements) > 1 and not isinstance(one, ast.Return):
            *where, text = source.without(one)
            yield "structure", tuple(where), text
        following = statements[i + 1] if i + 1 < len(statements) else None
        if following is not None and isinstance(following, ast.Assign | ast.AugAssign | ast.Expr):
            between = source.text[end : source.span(following)[0]].decode()
            text = f"{source.of(following)}{between}{source.of(one)}"
            if not isinstance(one, ast.Return):
                yield "order", (start, source.span(following)[1]), text
        if following is not None and isinstance(one, ast.Assign):
            for text in _put_in(source, one, following):
                yield "structure", (start, source.span(following)[1]), text
        if isinstance(one, ast.AugAssign):
            for sign in _OPERATORS.get(type(one.op), ()):
                target, value = source.of(one.target), source.of(one.value)
                yield "operator", (start, end), f"{target} {sign}= {value}"
