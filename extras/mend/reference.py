"""Edits that bring a port's function nearer to the reference's: where their trees part.

Standard library only.  A port is usually written line by line, so that its function and the
reference's are one tree but for the frameworks' spellings.  Where a subtree differs, the
reference's is tried in its place, in Paddle's spelling as far as that is a matter of names.
"""

import ast
import difflib
from collections.abc import Iterator

from twincheck.extras.mend.edits import LOOSE, Edit, Source

# torch's name -> Paddle's, of functions, methods and classes.
NAMES = {
    **{"torch": "paddle", "Module": "Layer", "ModuleList": "LayerList", "ModuleDict": "LayerDict"},
    **{"cat": "concat", "tensor": "to_tensor", "take_along_dim": "take_along_axis"},
    **{"view": "reshape", "size": "shape", "clamp": "clip", "arctan2": "atan2", "mul": "multiply"},
    **{"eq": "equal", "ne": "not_equal", "lt": "less_than", "le": "less_equal"},
    **{"gt": "greater_than", "ge": "greater_equal", "div": "divide", "sub": "subtract"},
    **{"to": "astype", "Conv1d": "Conv1D", "Conv2d": "Conv2D"},
    **{"Conv3d": "Conv3D", "ConvTranspose1d": "Conv1DTranspose", "BatchNorm1d": "BatchNorm1D"},
    **{"ConvTranspose2d": "Conv2DTranspose", "BatchNorm2d": "BatchNorm2D"},
    **{"BatchNorm3d": "BatchNorm3D", "MaxPool1d": "MaxPool1D", "MaxPool2d": "MaxPool2D"},
    **{"AvgPool1d": "AvgPool1D", "AvgPool2d": "AvgPool2D", "Dropout1d": "Dropout1D"},
    **{"AdaptiveAvgPool1d": "AdaptiveAvgPool1D", "AdaptiveAvgPool2d": "AdaptiveAvgPool2D"},
    **{"Dropout2d": "Dropout2D", "InstanceNorm2d": "InstanceNorm2D"},
}
CASTS = {
    **{"float": "float32", "half": "float16", "bfloat16": "bfloat16", "double": "float64"},
    **{"long": "int64", "int": "int32", "bool": "bool"},
}
KEYWORDS = {"dim": "axis", "eps": "epsilon", "bias": "bias_attr", "dims": "axis", "input": "x"}
DROPPED = ("inplace", "device", "batch_first", "elementwise_affine")  # Paddle takes none of these

# What is put into one of the first needs parentheses if it is one of the second.
_BINDING = ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp | ast.Attribute | ast.Subscript


class _Translated(ast.NodeTransformer):
    """torch's tree in Paddle's spelling."""

    def visit_Name(self, node):
        return ast.copy_location(ast.Name(NAMES.get(node.id, node.id), node.ctx), node)

    def visit_Attribute(self, node):
        self.generic_visit(node)
        if ast.unparse(node.value) != "self":
            node.attr = NAMES.get(node.attr, node.attr)
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        called = ast.unparse(node.func).split(".")[-1]
        node.keywords = [k for k in node.keywords if k.arg not in DROPPED]
        for keyword in node.keywords:
            keyword.arg = KEYWORDS.get(keyword.arg, keyword.arg)
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if keyword.arg == "momentum" and called.startswith("BatchNorm") and value is not None:
                keyword.value = ast.Constant(round(1 - value, 12))  # Paddle's is of the old value
            if keyword.arg == "approximate":
                keyword.value = ast.Constant(value == "tanh")
        if called == "permute":  # one argument here, several there
            node.func.attr = "transpose"
            if len(node.args) > 1:
                node.args = [ast.List(node.args, ast.Load())]
        if called == "reshape" and len(node.args) > 1:
            node.args = [ast.List(node.args, ast.Load())]
        if isinstance(node.func, ast.Attribute) and called in CASTS and not node.args:
            node.func.attr, node.args = "astype", [ast.Constant(CASTS[called])]
        if called == "type_as" and len(node.args) == 1:
            node.func.attr = "astype"
            node.args = [ast.Attribute(node.args[0], "dtype", ast.Load())]
        if called == "dim" and not node.args and isinstance(node.func, ast.Attribute):
            node.func.attr = "ndim"
            return node.func
        return node


def nearer(source: Source, node: ast.AST, reference: ast.AST) -> Iterator[Edit]:
    """Edits of a port's function towards the reference's of the same name, small ones first."""
    theirs = _Translated().visit(ast.parse(ast.unparse(reference)).body[0])
    found: dict[tuple, Edit] = {}
    for start, end, text in _parted(source, node, theirs):
        edit = Edit(start, end, text.encode(), "reference")
        # Where a tensor lies is no part of what is computed: true on a CPU alone, say.
        if edit.new != source.text[start:end] and b".device" not in edit.new:
            found.setdefault((start, end, text), edit)
    yield from sorted(found.values(), key=lambda edit: edit.end - edit.start)


def _parted(
    source: Source, ours: ast.AST, theirs: ast.AST, holder: ast.AST | None = None
) -> Iterator[tuple[int, int, str]]:
    """(first byte, last, text) of each place where two trees part, and of all that holds it."""
    if ast.dump(ours) == ast.dump(theirs):
        return
    if isinstance(ours, ast.Call) and isinstance(theirs, ast.Call):
        yield from _keywords(source, ours, theirs)  # in the port's own words, before the whole
    if isinstance(ours, ast.expr | ast.keyword) and hasattr(ours, "lineno"):
        text = _unparsed(theirs)
        if isinstance(holder, _BINDING) and isinstance(theirs, LOOSE):
            text = f"({text})"
        if text:
            yield *source.span(ours), text
    if type(ours) is not type(theirs):
        return
    for name in ours._fields:
        a, b = getattr(ours, name, None), getattr(theirs, name, None)
        if isinstance(a, list) and isinstance(b, list):
            if a and isinstance(a[0], ast.stmt) and b:
                yield from _statements(source, a, b)
            elif len(a) == len(b):
                for one, other in zip(a, b, strict=True):
                    if isinstance(one, ast.AST) and isinstance(other, ast.AST):
                        yield from _parted(source, one, other, ours)
        elif isinstance(a, ast.AST) and isinstance(b, ast.AST):
            yield from _parted(source, a, b, ours)


def _keywords(source: Source, ours: ast.Call, theirs: ast.Call) -> Iterator[tuple[int, int, str]]:
    """A call with one keyword as the reference has it, or has it not."""
    own = {keyword.arg: source.of(keyword) for keyword in ours.keywords}
    its = {keyword.arg: _unparsed(keyword) for keyword in theirs.keywords}
    if None in own or None in its or ast.dump(ours.func) != ast.dump(theirs.func):  # **options
        return
    arguments = [source.of(argument) for argument in ours.args]
    for name in dict.fromkeys((*own, *its)):
        keywords = filter(None, {**own, name: its.get(name)}.values())
        yield *source.span(ours), f"{source.of(ours.func)}({', '.join([*arguments, *keywords])})"


def _statements(source: Source, ours: list, theirs: list) -> Iterator[tuple[int, int, str]]:
    """Yield edits for the statements that one side alone has, or has otherwise."""
    ours, theirs = ([s for s in side if not _is_text(s)] for side in (ours, theirs))
    yield from _between(source, ours, theirs)
    likeness = difflib.SequenceMatcher(
        None, [_kind(s) for s in ours], [_kind(s) for s in theirs], autojunk=False
    )
    for what, a, b, c, d in likeness.get_opcodes():
        if what == "equal" or b - a == d - c:
            for one, other in zip(ours[a:b], theirs[c:d], strict=True):
                yield from _whole(source, one, other)
                yield from _parted(source, one, other)
        elif what == "delete":
            yield from map(source.without, ours[a:b])
        elif what == "insert" and ours:
            before = ours[a - 1] if a else ours[0]
            at = source.span(before)[1] if a else source.span(before)[0]
            indent = " " * before.col_offset
            text = _indented(theirs[c:d], indent)
            yield at, at, f"\n{indent}{text}" if a else f"{text}\n{indent}"
        elif what == "replace":
            start, end = source.span(ours[a])[0], source.span(ours[b - 1])[1]
            indent = " " * ours[a].col_offset
            yield start, end, _indented(theirs[c:d], indent)


def _between(source: Source, ours: list, theirs: list) -> Iterator[tuple[int, int, str]]:
    """All from the first statement that differs to the last, as the reference has it."""
    dumps = [[ast.dump(s) for s in side] for side in (ours, theirs)]
    most = min(map(len, dumps))
    before = next((i for i in range(most) if dumps[0][i] != dumps[1][i]), most)
    pairs = zip(dumps[0][::-1], dumps[1][::-1], strict=False)
    behind = min(most - before, next((i for i, (a, b) in enumerate(pairs) if a != b), most))
    own, its = (side[before : len(side) - behind] for side in (ours, theirs))
    if len(own) > 1 and its:
        start, end = source.span(own[0])[0], source.span(own[-1])[1]
        yield start, end, _indented(its, " " * own[0].col_offset)


def _whole(source: Source, ours: ast.stmt, theirs: ast.stmt) -> Iterator[tuple[int, int, str]]:
    """A simple statement as the reference has it."""
    simple = ast.Assign | ast.AugAssign | ast.Return | ast.Expr
    if isinstance(ours, simple) and ast.dump(ours) != ast.dump(theirs):
        yield *source.span(ours), _unparsed(theirs)


def _kind(statement: ast.stmt) -> str:
    """Return what makes two statements the same one: their kind, and what they are assigned to."""
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return " ".join([type(statement).__name__, *(ast.unparse(t) for t in targets if t)])


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _indented(statements: list, indent: str) -> str:
    return f"\n{indent}".join(line for s in statements for line in _unparsed(s).split("\n"))


def _unparsed(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node))
