"""What `--torch` and `--paddle` name, and what it is built with.

torchvision.models:resnet18      a function or a class of an installed package
path/mine.py:Net                 one of a file of yours
transformers:BertModel           a class whose configuration has a class of its own
"""

import ast
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import load_json
from twincheck.extras.new_pair import Kind

_WORDS = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class Spec:
    """A class, or a function that builds, of a package or of a file."""

    module: str  # dotted, as it is imported
    name: str  # of the class or function; dotted where it is an attribute of a class
    file: Path | None = None  # absolute
    root: Path | None = None  # of a file: the folder that imports look into
    compat: bool = False  # torch's own, which runs on Paddle under paddle.enable_compat()

    def __str__(self) -> str:
        return f"{self.file or self.module}:{self.name}"


def parse_spec(option: str, text: str) -> Spec:
    """A Spec from a word of the command line; raises UserError for one that names nothing.

    option   how the word was given, such as --torch
    """
    module, _, name = text.rpartition(":")
    is_name = all(part.isidentifier() for part in name.split("."))
    said = {"option": option, "given": text}
    if not module or not is_name:
        raise UserError(Kind.SPEC_UNREADABLE(**said))
    if module.endswith(".py"):
        path = Path(module).expanduser().absolute()
        if not path.is_file():
            raise UserError(Kind.SPEC_FILE_MISSING(**said, file=str(path)))
        root, parts = path.parent, [path.stem]
        # It is a package's, and may import relatively; or its own name is Python's.
        while (root / "__init__.py").is_file() or is_taken(parts[0]):
            if root == root.parent:
                break
            root, parts = root.parent, [root.name, *parts]
        if not all(part.isidentifier() for part in parts) and not is_taken(path.stem):
            root, parts = path.parent, [path.stem]
        if not all(part.isidentifier() for part in parts):
            raise UserError(Kind.SPEC_FILE_NAME(**said, file=str(path)))
        return Spec(".".join(parts), name, path, root)
    if not all(part.isidentifier() for part in module.split(".")):
        raise UserError(Kind.SPEC_NO_PACKAGE(**said, module=module))
    return Spec(module, name)


def is_taken(name: str) -> bool:
    """Return whether a name of a module is Python's own, a framework's or the workbench's."""
    return name in (*SIDES, "numpy", "twincheck", *sys.stdlib_module_names)


def parse_settings(option: str, words: Sequence[str]) -> dict:
    """key=value words as a dict: JSON, True, False, None, a tuple; any other value is text."""
    settings = {}
    for word in words:
        key, is_set, value = word.partition("=")
        if not is_set or not key.isidentifier():
            raise UserError(Kind.SETTING_UNREADABLE(option=option, given=word))
        settings[key] = _value(value)
    return settings


def _value(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    with suppress(ValueError):
        return json.loads(text)
    with suppress(ValueError, SyntaxError):
        if isinstance(value := ast.literal_eval(text), tuple):
            return value
    return text


def read_arguments(config: Path | None, words: Mapping[str, Sequence[str]]) -> dict[str, dict]:
    """Return both sides' arguments, under "", and what each has beside them, under its name.

    config   a file of what both are built with; words beside it count
    words    the key=value words of --set, under "", and of --torch-set and --paddle-set
    """
    told = {
        side: parse_settings(f"--{side}-set" if side else "--set", given)
        for side, given in words.items()
    }
    return told | {"": dict(load_json(config) if config else {}) | told[""]}
