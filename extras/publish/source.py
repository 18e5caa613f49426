"""A model's own text, made to stand alone: what it imports is found, taken along or refused.

`take` follows the imports of a file from module to module.  What lies beside the file is copied,
of case.py and of the stand-in for twincheck.paddle_side only what is used; an import line is the
only code that changes.  Nothing here is executed: a file is read as text.
"""

import ast
import io
import re
import sys
import tokenize
from dataclasses import dataclass, field
from pathlib import Path

from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import Kind as CoreKind
from twincheck.extras.publish import Kind

PROGRAMS = Path(__file__).resolve().parent / "programs"
FACE = "twincheck.paddle_side"
FACES = (FACE, "twincheck")
# How common/sides/losses.py, one text for both sides, reads in Paddle's words.
_IN_PADDLE = (
    (r"from twincheck.*\n\n", ""),
    (r"\bKind\.(\w+)\(", lambda found: f"{CoreKind[found[1]].template!r}.format("),
    (r"\bside, ", ""),
    (r"side\.lib\.nn\.functional\.(.*), -1\)", r"F.\1, axis=-1)"),
    (r"side\.lib\.", "paddle."),
    (r"side\.cast\((.*?), (.*?)\)", r"\1.astype(\2)"),
    (r"side\.take_along\((.*), 1\)", r"paddle.take_along_axis(\1, axis=1)"),
)
CASE, CONFIG, RUNTIME, MODEL = "case", "config", "runtime", "model"
# Reference code may not be published, nor is anything there to check with.
REFERENCE = ("torch", "torchvision", "torchaudio", "reprod_log")
_TWIN = re.compile(r"# twin:")
# What stands above an import that is looked for in a folder of the pair's: PaConvert's
# translation, or a side's own files where the other side has one of the same name.
_BELOW = re.compile(
    r"import sys\nfrom pathlib import Path\n\n"
    r'sys\.path\.insert\(0, str\(Path\(__file__\)\.parent / "(\w+)"\)\)\n+'
)


@dataclass
class Sources:
    """Module -> text of a package, and what it needs from elsewhere."""

    modules: dict[str, str] = field(default_factory=dict)
    used: dict[str, set[str]] = field(default_factory=dict)  # config, runtime -> names asked for
    whole: set[str] = field(default_factory=set)  # modules that are imported as a whole
    packages: set[str] = field(default_factory=set)  # top-level names of installed packages


def take(folder: Path, name: str, built_in: bool, more: frozenset[str] = frozenset()) -> Sources:
    """The package of the pair in `folder`: model, config, runtime and what else is imported.

    name      the package's, for the usage in docstrings
    more      names of case.py that the programs need beside the model
    Raises UserError, with the line, for an import of the workbench that has no stand-in, of the
    reference, or of one that cannot be followed.
    """
    sources = Sources()
    if more:
        sources.used[CONFIG] = set(more)
    waiting = {MODEL: folder / "paddle_model.py"}
    beside = folder
    while waiting:
        module, path = waiting.popitem()
        text = path.read_text(encoding="utf-8")
        below = _BELOW.search(text) if module == MODEL else None
        if below:
            beside, text = folder / below[1], text.replace(below[0], "")
        text = _Imports(path, beside, built_in, sources, waiting).rewritten(text)
        sources.modules[module] = _without_twin_comments(_with_usage(text, name))
    if CASE in sources.whole:
        _add_case(sources, folder, built_in, name, None)
    elif sources.used.get(CONFIG):
        _add_case(sources, folder, built_in, name, sources.used[CONFIG])
    if sources.used.get(RUNTIME):
        sources.modules[RUNTIME] = extract(stand_in(), sources.used[RUNTIME] | {"begin"}, RUNTIME)
    return sources


def stand_in() -> str:
    """Return the stand-in for twincheck.paddle_side: runtime.py, and the losses of there."""
    losses = (ROOT / "common" / "sides" / "losses.py").read_text(encoding="utf-8")
    losses = losses.partition('"""\n')[2]  # without their title
    for shared, own in _IN_PADDLE:
        losses = re.sub(shared, own, losses)
    return (PROGRAMS / "runtime.py").read_text(encoding="utf-8").rstrip() + losses


def _add_case(sources, folder: Path, built_in: bool, name: str, wanted: set[str] | None) -> None:
    """Add what is used of case.py as config.py."""
    path = folder / "case.py"
    text = path.read_text(encoding="utf-8")
    if wanted is not None:
        title = f"Configurations of {name}: what the model and the programs read of them (NumPy)."
        text = extract(text, wanted, path, title)
    waiting: dict[str, Path] = {}
    text = _Imports(path, folder, built_in, sources, waiting).rewritten(text)
    sources.modules[CONFIG] = text
    for module, other in waiting.items():
        if module not in sources.modules:
            text = other.read_text(encoding="utf-8")
            text = _Imports(other, folder, built_in, sources, {}).rewritten(text)
            sources.modules[module] = text


class _Imports:
    """The import lines of one file: followed, and rewritten for the package."""

    def __init__(self, path: Path, folder: Path, built_in: bool, sources: Sources, waiting: dict):
        self.path, self.folder, self.built_in = path, folder, built_in
        self.sources, self.waiting = sources, waiting
        self.own_case = f"twincheck.common.models.{folder.name}.case" if built_in else CASE

    def rewritten(self, text: str) -> str:
        """The text with its import lines changed."""
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            where = f"{self.path}:{error.lineno}"
            raise UserError(Kind.REFUSED_AT(where=where, reason=error.msg)) from None
        lines = text.splitlines(keepends=True)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                self._from(node, lines)
            elif isinstance(node, ast.Import):
                self._plain(node, lines)
            elif isinstance(node, ast.Call) and _is_import_module(node):
                self._refuse(node, Kind.IMPORT_NOT_FOLLOWED(what="import_module"))
        return "".join(lines)

    def _from(self, node: ast.ImportFrom, lines: list[str]) -> None:
        names = {alias.name for alias in node.names}
        module = node.module or ""
        if module in FACES:
            unknown = sorted(names - _offered())
            if unknown:
                self._refuse(node, _no_stand_in(Kind.OF_PADDLE_SIDE(names=unknown)))
            self.sources.used.setdefault(RUNTIME, set()).update(names)
            target = RUNTIME
        elif node.level == 0 and module == self.own_case:
            if "*" in names:
                self.sources.whole.add(CASE)
            self.sources.used.setdefault(CONFIG, set()).update(names)
            target = CONFIG
        elif node.level or self._beside(module):
            # `from . import layers` names modules, `from .layers import X` or `from layers …` one.
            for name in () if module else sorted(names):
                if self._follow(node, name) != name:
                    self._refuse(node, Kind.IMPORT_NAME_TAKEN(what=name))
            target = self._follow(node, module) if module else ""
        else:
            self._foreign(node, module)
            return
        line = lines[node.lineno - 1]
        old = re.escape("." * node.level + module)
        lines[node.lineno - 1] = re.sub(rf"from\s+{old}\s+import", f"from .{target} import", line)

    def _plain(self, node: ast.Import, lines: list[str]) -> None:
        own = [a for a in node.names if a.name in (*FACES, self.own_case) or self._beside(a.name)]
        for alias in node.names:
            if alias not in own:
                self._foreign(node, alias.name)
        if not own:
            return
        told = []
        for alias in node.names:
            bound = f" as {alias.asname}" if alias.asname else ""
            if alias not in own:
                told.append(f"import {alias.name}{bound}")
                continue
            if "." in alias.name and not alias.asname:
                self._refuse(node, Kind.IMPORT_NOT_REWRITTEN(what=alias.name))
            if alias.name in FACES:
                self._refuse(node, Kind.IMPORT_WHOLE(what=FACE))
            if alias.name == self.own_case:
                self.sources.whole.add(CASE)
                told.append(f"from . import {CONFIG} as {alias.asname or CASE}")
                continue
            name = self._follow(node, alias.name)
            bound = bound or f" as {alias.name}" * (name != alias.name)
            told.append(f"from . import {name}{bound}")
        indent = " " * node.col_offset
        lines[node.lineno - 1] = "".join(f"{indent}{line}\n" for line in told)

    def _beside(self, module: str) -> bool:
        """Return whether a module's file lies in the pair's folder."""
        first = module.partition(".")[0]
        if self.built_in or first in ("torch_model", "paddle_model"):
            return first in ("torch_model", "paddle_model") and not self.built_in
        return (self.folder / f"{first}.py").is_file() or (self.folder / first).is_dir()

    def _follow(self, node: ast.AST, module: str) -> str:
        """Take a module of the pair's folder along; its name in the package."""
        if module in ("torch_model", CASE, "paddle_model"):
            if module == CASE:
                self.sources.whole.add(CASE)
                return module
            is_reference = module == "torch_model"
            kind = Kind.IMPORT_OF_REFERENCE_MODEL if is_reference else Kind.IMPORT_OF_ITSELF
            self._refuse(node, kind(what=module))
        path = self.folder / f"{module}.py"
        if "." in module or not path.is_file():
            self._refuse(node, Kind.IMPORT_NO_FILE(what=module))
        name = f"own_{module}" if module in (MODEL, CONFIG, RUNTIME) else module
        if name not in self.sources.modules:
            self.waiting[name] = path
        return name

    def _foreign(self, node: ast.AST, module: str) -> None:
        """Note an installed package; refuse the workbench's own and the reference."""
        first = module.partition(".")[0]
        if first == "twincheck":
            self._refuse(node, _no_stand_in(module))
        if first in REFERENCE:
            self._refuse(node, Kind.IMPORT_OF_REFERENCE(what=module))
        if first not in sys.stdlib_module_names:
            self.sources.packages.add(first)

    def _refuse(self, node: ast.AST, reason: str) -> None:
        raise UserError(Kind.REFUSED_AT(where=f"{self.path}:{node.lineno}", reason=reason))


def _is_import_module(node: ast.Call) -> bool:
    return getattr(node.func, "attr", getattr(node.func, "id", "")) in (
        "import_module",
        "__import__",
    )


def _offered() -> set[str]:
    """Return the names of twincheck.paddle_side that have a stand-in."""
    tree = ast.parse(stand_in())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return functions - {"begin", "join_site", "normal_numbers", "integers_below"}


def _no_stand_in(what: str) -> str:
    return Kind.IMPORT_OF_WORKBENCH(what=what, offered=sorted(_offered()))


# ---- part of a file -----------------------------------------------------------------------------


def bound_names(statement: ast.stmt) -> set[str]:
    """The names that a top-level statement binds or changes in place."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(a.asname or a.name).partition(".")[0] for a in statement.names}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            inner = node.value
            names |= {inner.id} if isinstance(inner, ast.Name) else set()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            inner = node.func.value  # TABLE.update(…)
            names |= {inner.id} if isinstance(inner, ast.Name) else set()
    return names


def extract(text: str, wanted: set[str], where: object, title: str | None = None) -> str:
    """The part of a module that defines the wanted names, and what these use, as it stands there.

    What is left out takes the comments above it along.  An import line keeps the names that are
    used.  title: another docstring.
    Raises UserError for a name that the module does not define.
    """
    tree = ast.parse(text)
    defined: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in bound_names(statement):
            defined.setdefault(name, []).append(statement)
    missing = sorted(wanted - set(defined))
    if missing:
        raise UserError(Kind.NOT_DEFINED(file=str(where), names=missing))
    waiting, used, kept = set(wanted), set(), set()
    while waiting:
        name = waiting.pop()
        used.add(name)
        for statement in defined[name]:
            kept.add(statement)
            read = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
            waiting |= read & set(defined) - used
    lines, out, end = text.splitlines(), [], 0
    if ast.get_docstring(tree) is not None:
        end = tree.body[0].end_lineno
        out = lines[:end] if title is None else [f'"""{title}"""']
    for statement in tree.body[bool(end) :]:
        if statement in kept and isinstance(statement, ast.Import | ast.ImportFrom):
            statement.names = [
                a for a in statement.names if (a.asname or a.name).partition(".")[0] in used
            ]
            out += [*lines[end : statement.lineno - 1], ast.unparse(statement)]
        elif statement in kept:
            out += lines[end : statement.end_lineno]
        end = statement.end_lineno
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(out).strip("\n")) + "\n"


# ---- docstrings and comments --------------------------------------------------------------------


def _with_usage(text: str, name: str) -> str:
    """The usage in a docstring of a built-in model, spelled for the package."""
    ours = rf"from twincheck\.common\.models\.{name}\."
    text = re.sub(
        rf"( *){ours}case import [^\n]*\n *{ours}paddle_model import build\n",
        rf"\1from {name} import CONFIG, build\n",
        text,
    )
    return re.sub(r'build\(CONFIGS\["\w+"\]\)', "build(CONFIG)", text, count=1)


def _without_twin_comments(text: str) -> str:
    """The text without the marks where it differs from the reference's, which is not there."""
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and _TWIN.match(token.string):
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    return "".join(lines)
