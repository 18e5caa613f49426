"""A PyTorch model's code translated to Paddle by PaConvert, a program in its own environment.

`translate` writes the translation and lists what PaConvert left in torch.
"""

import ast
import difflib
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twincheck import IN_A_CHECKOUT
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.door import to_make, to_pip
from twincheck.common.system.errors import UserError
from twincheck.common.system.processes import environment
from twincheck.extras.new_pair import Kind
from twincheck.extras.new_pair.spec import Spec
from twincheck.extras.new_pair.torch_sources import KNOWN_TO_PACONVERT, TorchSources, gather

VERSION = "3.3.1"
PYTHON = ROOT / ".paconvert" / "bin" / "python"  # what `make paconvert` makes

_PATIENCE_S = 1800.0
_MARK = ">>>>>>"  # how PaConvert begins a line that it could not translate
_NOTE = re.compile(r"Not Support auto convert (\S+), please judge")
_LEFT = re.compile(rf"(?<![\w.])({'|'.join(sorted(KNOWN_TO_PACONVERT))})((?:\.\w+)+)")


@dataclass(frozen=True)
class Untranslated:
    """A place that PaConvert left in torch; a line is 0 where it was not found again."""

    api: str  # torch.cuda._initialized, or *.name for a method of something
    file: str  # of the torch side, as it is told: from its package on
    line: int
    translated: Path
    translated_line: int

    @property
    def reason(self) -> str:
        """Return where it is, on both sides, as a sentence."""
        place = self.file + (f":{self.line}" if self.line else "")
        said = {"place": place, "api": self.api, "file": str(self.translated)}
        return Kind.UNTRANSLATED(**said, line=self.translated_line)


@dataclass(frozen=True)
class Translation:
    """The translation of a model's code: its files, and what is left to do by hand."""

    spec: Spec  # the translated model
    texts: Mapping[str, str]  # place in the folder -> what PaConvert made
    files: Mapping[str, Path]  # place in the folder -> torch file
    untranslated: tuple[Untranslated, ...]

    @property
    def folder(self) -> Path:
        """Return the folder that imports of the translation look into first."""
        return self.spec.root

    def explained(self, sentence: str) -> str:
        """A sentence about an error in the translation, with the line in torch, and what to do."""
        found = re.search(rf"{re.escape(str(self.folder))}/([^\s:]+\.py):(\d+)", sentence)
        if not found:  # such as a package that is missing
            return Kind.MEND_THAT(error=sentence)
        file, line = self.folder / found[1], int(found[2])
        places = {(o.translated.absolute(), o.translated_line): o for o in self.untranslated[::-1]}
        torch, more = self.files.get(found[1]), ""
        if (file, line) in places:
            more = Kind.LEFT_IN_TORCH(place=places[file, line].reason)
        elif torch and (where := _Places(torch).alike(_Places(file), line)):
            more = Kind.LINE_IN_TORCH(file=str(torch), line=where)
        return Kind.MEND_TRANSLATION(error=sentence, place=more)


def find_paconvert(python: str | None = None) -> str:
    """The Python that runs PaConvert: the one named, else `make paconvert`'s, else this one.

    Raises UserError where none has it, or another version than what was tried.
    """
    here = importlib.util.find_spec("paconvert") is not None
    chosen = python or (str(PYTHON) if PYTHON.exists() or not here else sys.executable)
    path = Path(chosen).expanduser().absolute()
    if not path.is_file():
        if python is None:
            raise UserError(Kind.PACONVERT_MISSING(command=_to_install()))
        raise UserError(Kind.PACONVERT_PYTHON_MISSING(python=python))
    question = "import importlib.metadata as m; print(m.version('paconvert'))"
    version = _run([str(path), "-I", "-c", question], Kind.ASKED_FOR_VERSION()).stdout.strip()
    if not version:
        said = {"python": str(path), "command": _to_install(path)}
        raise UserError(Kind.PACONVERT_NOT_IN_PYTHON(**said))
    if version != VERSION:
        said = {"python": str(path), "version": version, "wanted": VERSION}
        raise UserError(Kind.PACONVERT_VERSION(**said))
    return str(path)


def _to_install(python: str | Path = sys.executable) -> str:
    """Return what to type to install PaConvert, for a Python that is named or this one."""
    own = IN_A_CHECKOUT and python == sys.executable
    return to_make("paconvert") if own else to_pip(f"paconvert=={VERSION}", python=python)


def search_path(python: str) -> list[str]:
    """Ask a Python for the folders that it looks for modules in, run as a worker."""
    question = "import json, sys; print(json.dumps(sys.path[1:]))"
    finished = _run([python, "-c", question], Kind.ASKED_FOR_PATH(), environment())
    try:
        return json.loads(finished.stdout.strip().rpartition("\n")[2])
    except ValueError:
        raise UserError(Kind.SEARCH_PATH_UNKNOWN(python=python)) from None


def translate(
    spec: Spec, target: Path, python: str, path: Sequence[str | Path] = ()
) -> Translation:
    """Translate a model's file or package, with what it imports that is made of torch.

    target   the folder for it, which imports of the translation look into; what is there stays
    python   the Python that has PaConvert (find_paconvert)
    path     where the torch side's Python looks for modules, by default where this one does
    Raises UserError where the source cannot be read, or PaConvert fails.
    """
    sources = gather(spec, path or sys.path)
    with tempfile.TemporaryDirectory(prefix="paconvert-") as work:
        texts = _translated(sources, Path(work), python)
    for place, text in texts.items():
        if not (target / place).exists():
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            (target / place).write_text(text, encoding="utf-8")
    files = {module.place.as_posix(): module.path for module in sources.modules.values()}
    left = []
    for place, file in files.items():
        shown = str(file) if spec.file else place
        left += _left_in(target / place, file, shown) if place in texts else ()
    entry, folder = sources.entry, target.absolute()
    translated = Spec(entry.name, spec.name, folder / entry.place, folder)
    return Translation(translated, texts, files, tuple(left))


def _translated(sources: TorchSources, work: Path, python: str) -> dict[str, str]:
    """Place -> text of the translation, PaConvert's marks taken out so that it can be imported."""
    before, after, log = work / "torch", work / "paddle", work / "log.txt"
    for module in sources.modules.values():
        copy = before / module.place
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(module.path.read_bytes())
    command = [python, "-I", "-m", "paconvert.main", "-i", str(before), "-o", str(after)]
    own = sorted({name.partition(".")[0] for name in sources.modules} & KNOWN_TO_PACONVERT)
    command += ["--exclude_packages", ",".join(own)] if own else []
    finished = _run([*command, "--log_dir", str(log)], Kind.TRANSLATES())
    if finished.returncode:
        said = [line for line in finished.stderr.splitlines() if line.strip()]
        told = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        started = re.findall(r"Start convert file: (.*) -->", told)
        inside = {str(before / m.place): str(m.path) for m in sources.modules.values()}
        file = inside.get(started[-1].strip(), "") if started else ""
        failed = {"version": VERSION, "file": file or str(sources.entry.path)}
        last = said[-1][:300] if said else Kind.MESSAGE_MISSING()
        raise UserError(Kind.TRANSLATION_FAILED(**failed, last=last))
    texts = {}
    for file in sorted(after.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        texts[file.relative_to(after).as_posix()] = _importable(text, str(after.absolute()))
    for place in sources.empty:
        texts[place.as_posix()] = "# Empty: nothing of it is used by what was translated.\n"
    return dict(sorted(texts.items()))


def _importable(text: str, folder: str) -> str:
    """PaConvert's text without its marks, and without the folder that it was written to.

    What it could not translate stays as it is in torch, and is an error where it is reached.
    """
    added = rf"sys\.path\.append\(\s*[\"']{re.escape(folder)}[^\"']*[\"'],?\s*\)\n"
    text, count = re.subn(added, "", text)
    marked = text.splitlines()
    text = "\n".join(re.sub(rf"^(?:{_MARK})+", "", line) for line in marked).strip("\n") + "\n"
    if count and not re.search(r"\bsys\.", text):
        text = re.sub(r"^import sys\n+", "", text, count=1, flags=re.M)
    return _with_its_imports(text)


def _with_its_imports(text: str) -> str:
    """PaConvert's text, where its lines about imports would not do; each change has its remark.

    It puts lines before `from __future__`, and makes `from einops.layers.torch import Rearrange`
    a use of `einops.layers.paddle` that nothing imports.
    """
    future = re.findall(r"^from __future__ import .*$", text, flags=re.M)
    try:
        compile(text, "", "exec", dont_inherit=True)
    except SyntaxError as error:
        if future and "__future__" in str(error.msg):
            text = re.sub(r"^from __future__ import .*\n", "", text, flags=re.M)
            text = "".join(f"{line}  # was below other lines\n" for line in future) + text
    if re.search(r"(?<![\w.])einops\.layers\.paddle\.", text):
        remark = "# PaConvert translates its uses and drops this import"
        added = f"import einops\nimport einops.layers.paddle  {remark}\n"
        text = re.sub(r"^import einops\n", added, text, count=1, flags=re.M)
    return text


# ---- what was left ------------------------------------------------------------------------------


def _left_in(translated: Path, file: Path, shown: str) -> Iterator[Untranslated]:
    """The places of a translated file that are still torch's, with their lines in torch's file."""
    torch, here = _Places(file), _Places(translated)
    note = ""
    for number, line in enumerate(here.lines, 1):
        said = _NOTE.search(line)
        if said:
            note = said[1]
            continue
        named = _LEFT.findall(_without_strings(line))
        apis = (
            [note] if note else [first + rest for first, rest in named if first not in here.names]
        )
        note = ""
        for api in dict.fromkeys(apis):
            where = torch.alike(here, number)
            yield Untranslated(api, shown, where, translated, number)


def _without_strings(line: str) -> str:
    line = re.sub(r"(\"\"\"|''').*?(\1|$)", "''", line)
    return re.sub(r"(['\"]).*?\1", "''", line).partition("#")[0]


class _Places:
    """A file's lines, the names that it imports, and the class and function around each line."""

    def __init__(self, file: Path):
        text = file.read_text(encoding="utf-8")
        self.lines, self.names = text.splitlines(), set()
        self._spans: list[tuple[int, int, str]] = []
        try:
            tree = ast.parse(text)
        except SyntaxError:  # said where it is imported
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = (alias.asname or alias.name.partition(".")[0] for alias in node.names)
                self.names.update(names)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                self._spans.append((first, node.end_lineno, node.name))

    def scope(self, line: int) -> list[str]:
        """The class and function around a line."""
        return [name for first, last, name in sorted(self._spans) if first <= line <= last]

    def alike(self, other: "_Places", line: int) -> int:
        """The line that one of the translation was made of, in the class and function of its
        names; 0 where none is like it."""
        like, scope = other.lines[line - 1].strip(), other.scope(line)
        found = difflib.SequenceMatcher(None, "", like, False)
        best, most = 0, 0.5  # less alike is no translation
        for number, text in enumerate(self.lines, 1):
            if self.scope(number) == scope:
                found.set_seq1(text.strip())
                if found.ratio() > most:
                    best, most = number, found.ratio()
        return best


# ---- PaConvert's process ------------------------------------------------------------------------


def _run(
    command: Sequence[str], what: str, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(
            command,
            env=None if variables is None else dict(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
        )
    except OSError as error:
        said = {"program": command[0], "error": str(error.strerror)}
        raise UserError(Kind.PROGRAM_NOT_RUN(**said)) from None
    except subprocess.TimeoutExpired:
        said = {"program": command[0], "task": what, "seconds": _PATIENCE_S}
        raise UserError(Kind.PROGRAM_ENDLESS(**said)) from None
