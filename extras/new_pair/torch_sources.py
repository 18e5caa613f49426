"""Which files a PyTorch model's code is made of: its imports are followed, nothing is executed.

A translator needs the model's file and what that imports, as far as it is made of torch itself:
modules beside a file, the model's own package, other packages that import torch.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from twincheck.common.system.errors import UserError
from twincheck.extras.new_pair import Kind
from twincheck.extras.new_pair.spec import Spec

# PaConvert knows the functions of these, one by one.
KNOWN_TO_PACONVERT = frozenset(
    "torch torchvision torchaudio transformers diffusers accelerate datasets timm kornia mmcv "
    "mmseg mmdet mmdet3d mmengine detectron fasttext lightning pytorch_lightning fairscale "
    "flash_attn torch_xla".split()
)
# These do not need torch.
NEUTRAL = frozenset(
    "numpy scipy pandas sklearn matplotlib PIL tqdm packaging einops einx safetensors "
    "huggingface_hub typing_extensions".split()
)


@dataclass(frozen=True)
class Module:
    """One file, under the name that it is imported by."""

    name: str
    path: Path
    is_package: bool  # it is an __init__.py

    @property
    def place(self) -> Path:
        """Return the module's path below a folder that imports look into."""
        parts = self.name.split(".")
        return Path(*parts, "__init__.py") if self.is_package else Path(*parts).with_suffix(".py")


@dataclass
class TorchSources:
    """The files of a model, and the module that the model's class is defined in."""

    entry: Module
    modules: dict[str, Module] = field(default_factory=dict)  # by name
    empty: set[Path] = field(default_factory=set)  # __init__.py files of which nothing is used


def gather(spec: Spec, path: Sequence[str | Path]) -> TorchSources:
    """The files that a model needs, to be translated.

    path   where the torch side's Python looks for modules
    Raises UserError for what is not there or no Python.
    """
    folders = [Path(folder) for folder in path if folder]
    if spec.file:
        entry = Module(spec.module, spec.file, spec.file.name == "__init__.py")
        folders.insert(0, spec.root)
    else:
        entry = locate(spec.module, folders)
        if entry is None:
            raise UserError(Kind.MODULE_NOT_FOUND(spec=str(spec), module=spec.module))
    found = TorchSources(entry)
    own = entry.name.partition(".")[0]
    by_torch: set[str] = {own}  # top-level names of packages that import torch
    waiting = [entry]
    while waiting:
        module = waiting.pop()
        if module.name in found.modules:
            continue
        found.modules[module.name] = module
        tree = parse(module.path)
        top = module.name.partition(".")[0]
        # Whatever stands beside the user's file is the user's.
        beside = spec.root is not None and module.path.is_relative_to(spec.root)
        if beside and "site-packages" not in module.path.parts or _needs_torch(tree):
            by_torch.add(top)
        for name in _imported(tree, module, folders):
            first = name.partition(".")[0]
            if first != own and first in (*sys.stdlib_module_names, *KNOWN_TO_PACONVERT, *NEUTRAL):
                continue
            other = locate(name, folders)
            if other is not None:
                waiting.append(other)
    kept = {n: m for n, m in found.modules.items() if n.partition(".")[0] in by_torch}
    found.modules = dict(sorted(kept.items()))
    for name in found.modules:
        parts = name.split(".")
        for i in range(1, len(parts)):
            if ".".join(parts[:i]) not in found.modules:
                found.empty.add(Path(*parts[:i], "__init__.py"))
    return found


def parse(path: Path) -> ast.Module:
    """A file's tree; raises UserError with the line where it is no Python."""
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise UserError(f"{path}:{error.lineno}: {error.msg}") from None
    except (OSError, ValueError) as error:
        raise UserError(Kind.SOURCE_UNREADABLE(file=str(path), error=str(error))) from None


def locate(name: str, folders: Iterable[Path]) -> Module | None:
    """The file of a module below the folders; None for one that is not there or has no text."""
    for folder in folders:
        base = folder.joinpath(*name.split("."))
        for file, is_package in ((base / "__init__.py", True), (base.with_suffix(".py"), False)):
            if file.is_file():
                return Module(name, file, is_package)
    return None


def _base(node: ast.ImportFrom, module: Module) -> str:
    """The dotted name after `from`, relative ones made whole."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    up = node.level - (1 if module.is_package else 0)
    parts = parts[: len(parts) - up] if up else parts
    if not parts:  # of no package
        return ""
    return ".".join([*parts, *filter(None, [node.module])])


def _imported(tree: ast.Module, module: Module, folders: Sequence[Path]) -> Iterator[str]:
    """The dotted names of the modules that a file imports, those inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, module)
            if not base:
                raise UserError(Kind.IMPORT_RELATIVE(file=str(module.path), line=node.lineno))
            for alias in node.names:
                child = f"{base}.{alias.name}"
                yield child if locate(child, folders) is not None else base


def packages(node: ast.AST) -> set[str]:
    """The first names of all that a statement imports, but relatively."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and not node.level:
        names = [node.module]
    return {name.partition(".")[0] for name in names}


def _needs_torch(tree: ast.Module) -> bool:
    """True for a file that imports torch as soon as it is imported."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if "torch" in packages(node):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return False
