"""A PyTorch model's code translated to Paddle by PaConvert, a program in its own environment.

`translate` writes the translation and lists what PaConvert left in torch.
"""

import ast
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from twincheck import IN_A_CHECKOUT
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.door import to_make, to_pip
from twincheck.common.system.errors import UserError
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
    """A place of the translation that PaConvert left in torch."""

    api: str  # torch.cuda._initialized, or *.name for a method of something
    file: Path
    line: int

    @property
    def reason(self) -> str:
        """Return where it is, as a sentence."""
        return Kind.UNTRANSLATED(file=str(self.file), line=self.line, api=self.api)


@dataclass(frozen=True)
class Translation:
    """The translation of a model's code: its files, and what is left to do by hand."""

    spec: Spec  # the translated model
    texts: Mapping[str, str]  # place in the folder -> what PaConvert made
    untranslated: tuple[Untranslated, ...]

    @property
    def folder(self) -> Path:
        """Return the folder that imports of the translation look into first."""
        return self.spec.root

    def explained(self, sentence: str) -> str:
        """A sentence about an error in the translation, with what PaConvert left there."""
        found = re.search(rf"{re.escape(str(self.folder))}/([^\s:]+\.py):(\d+)", sentence)
        if not found:  # such as a package that is missing
            return Kind.MEND_THAT(error=sentence)
        place = self.folder / found[1], int(found[2])
        left = (o for o in self.untranslated if (o.file.absolute(), o.line) == place)
        more = (Kind.LEFT_IN_TORCH(place=one.api) for one in left)
        return Kind.MEND_TRANSLATION(error=sentence, place=next(more, ""))


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
    version = _run([str(path), "-I", "-c", question]).stdout.strip()
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
    places = {module.place.as_posix() for module in sources.modules.values()}
    left = [one for place in texts if place in places for one in _left_in(target / place)]
    entry, folder = sources.entry, target.absolute()
    translated = Spec(entry.name, spec.name, folder / entry.place, folder)
    return Translation(translated, texts, tuple(left))


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
    finished = _run([*command, "--log_dir", str(log)])
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


def _left_in(file: Path) -> Iterator[Untranslated]:
    """The places of a translated file that are still torch's."""
    text, note, imported = file.read_text(encoding="utf-8"), "", set()
    with suppress(SyntaxError):  # said where it is imported
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imported |= {a.asname or a.name.partition(".")[0] for a in node.names}
    for number, line in enumerate(text.splitlines(), 1):
        said = _NOTE.search(line)
        if said:
            note = said[1]
            continue
        named = _LEFT.findall(_without_strings(line))
        apis = [note] if note else [first + rest for first, rest in named if first not in imported]
        note = ""
        yield from (Untranslated(api, file, number) for api in dict.fromkeys(apis))


def _without_strings(line: str) -> str:
    line = re.sub(r"(\"\"\"|''').*?(\1|$)", "''", line)
    return re.sub(r"(['\"]).*?\1", "''", line).partition("#")[0]


# ---- PaConvert's process ------------------------------------------------------------------------


def _run(command: Sequence[str]) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(
            command,
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
        said = {"program": command[0], "seconds": _PATIENCE_S}
        raise UserError(Kind.PROGRAM_ENDLESS(**said)) from None
