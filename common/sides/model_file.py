"""A pair's model file of one side, imported once for each precision.

A float64 run cannot use what a file makes in float32 when it is imported, nor a float32 run what a
table of the file keeps of a float64 run.  Neither framework may stand in for the other there.
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from twincheck.common.pair.pairs import Pair
from twincheck.common.sides import lines_run
from twincheck.common.sides.job import Job
from twincheck.common.sides.lines_run import heard
from twincheck.common.sides.side import Side
from twincheck.common.sides.upcast import upcasting
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import version_of
from twincheck.common.system.intercept import Intercept
from twincheck.common.system.memory import no_collections
from twincheck.common.system.reasons import Kind

# What maps into a process with a framework's compiled code.
_KERNELS = {"torch": "/libtorch", "paddle": "/libpaddle"}

_COMPAT_CALLS = (
    *("enable_compat", "use_compat_guard"),
    *("enable_torch_proxy", "use_torch_proxy_guard"),
)
forked: list[str] = []  # in a fork of a caller: the framework that is hidden there
_enabled: set[bool] = set()  # what this model's files have made of it
_of_compat: set[str] = set()  # the modules of those files
_runs: Pair | None = None  # whose files are imported
_versions: dict[str, tuple | None] = {}  # those files -> what they were; None: not known
_in_float64: dict[str, tuple[ModuleType, ModuleType]] = {}  # name -> (as imported first, the other)


def load_model_file(job: Job, dtype: str = "float32") -> ModuleType:
    """The pair's module of the job's side for runs in a precision.

    On Paddle's side `import torch` may give Paddle from then on (paddle.enable_compat), till the
    next request.  Raises UserError where torch itself has to compute.
    """
    pair, side = job.pair, job.side
    try:
        seeded = side.seeded(job.request.seed)  # a file may draw a table when it is imported
        with upcasting(False), side.default_dtype("float32"), no_collections(), seeded:
            with heard(imports=True):
                module = pair.side(job.slot)
    finally:
        if torch_is_paddle():
            _of_compat.update(_own_modules(pair))
            if side.NAME == "torch":  # whatever else goes wrong by that
                raise UserError(Kind.TORCH_IS_PADDLE(remedy=Kind.TAKE_COMPAT_OUT()))
            if job.transplant:
                raise UserError(Kind.TORCH_IS_PADDLE(remedy=Kind.LEAVE_TRANSPLANT_OUT()))
    if dtype != "float64" or pair.built_in:
        return module
    known = _in_float64.get(module.__name__)
    if known is None or known[0] is not module:
        known = _in_float64[module.__name__] = module, import_again(job)
    return known[1]


def function_of(module: ModuleType, name: str, *takes: str) -> Callable | None:
    """A file's function of a name, if any; raises UserError where it does not take these."""
    function = getattr(module, name, None)
    if function is not None:
        try:
            inspect.signature(function).bind(*takes)
        except TypeError:
            called = {"file": str(module.__file__), "name": name, "arguments": ", ".join(takes)}
            raise UserError(Kind.FUNCTION_TAKES_OTHERS(**called)) from None
    return function


def build_model(side: Side, module: ModuleType, config: Mapping):
    """The model that a file builds; raises UserError where that is none."""
    build = function_of(module, "build", "config")
    if build is None:
        raise UserError(Kind.BUILD_MISSING(file=str(module.__file__)))
    model = build(dict(config))
    if not isinstance(model, side.MODULE):
        told = {"file": str(module.__file__), "type": type(model).__name__, "framework": side.NAME}
        raise UserError(Kind.BUILD_GIVES_NO_MODEL(**told))
    return model


def _own_modules(pair: Pair) -> dict[str, ModuleType]:
    """Name -> module of what has been imported from the pair's folder, but for its case.py."""
    found, below = {}, f"{pair.folder}{os.sep}"
    for name, module in list(sys.modules.items()):
        file = str(getattr(module, "__file__", None))
        if not file.startswith(below) or (file := Path(file)) == pair.folder / "case.py":
            continue  # nearly all of some 2,000: none is made a Path of
        workbench = file.is_relative_to(ROOT) and not pair.folder.is_relative_to(ROOT)
        if not workbench and "site-packages" not in file.parts:
            found[name] = module
    return found


def forget_others(pair: Pair) -> None:
    """Forget the files of the model that ran before: another one's may have the same names."""
    global _runs
    if _runs and not _runs.built_in and _runs.folder != pair.folder:
        _forget(_own_modules(_runs))
        sys.path[:] = [p for p in sys.path if not Path(p).is_relative_to(_runs.folder)]
    _runs = pair


def forget_edited() -> None:
    """Forget the files of the model that ran before, where one of them was edited meanwhile."""
    if _runs and _were_edited():
        _forget(_own_modules(_runs))
        case = str(_runs.folder / "case.py")
        of_case = [n for n, m in sys.modules.items() if getattr(m, "__file__", None) == case]
        _forget(of_case)


def _forget(names: Iterable[str]) -> None:
    for name in names:
        del sys.modules[name]
    _versions.clear()
    lines_run.forget()


def note_files(pair: Pair, since_ns: int) -> None:
    """Remember what the files of a model are that were imported since a time."""
    if pair.built_in:
        return
    files = [module.__file__ for module in _own_modules(pair).values()]
    for path in {*files, str(pair.folder / "case.py")} - _versions.keys():
        with suppress(OSError):  # it is gone
            about = os.stat(path)
            known = max(about.st_mtime_ns, about.st_ctime_ns) < since_ns
            _versions[path] = version_of(about) if known else None


def _were_edited() -> bool:
    """True where an imported file has changed since."""
    for path, version in _versions.items():
        try:
            if version is None or version_of(os.stat(path)) != version:
                return True
        except OSError:
            return True
    return False


def import_again(job: Job) -> ModuleType:
    """The side's module, imported in float64; the one that there is where that cannot be done."""
    pair, slot = job.pair, job.slot
    first, own = pair.side(slot), _own_modules(pair)
    for name in own:
        del sys.modules[name]
    try:
        seeded = job.side.seeded(job.request.seed)
        with upcasting(True), job.side.default_dtype("float64"), seeded, heard(imports=True):
            return pair.side(slot)
    except Exception:  # it registers something that is there already, say
        return first
    finally:
        for name in _own_modules(pair):
            del sys.modules[name]
        sys.modules.update(own)


def forget_compat() -> None:
    """Let `import torch` be torch again, where a model that ran before has made it Paddle.

    Its files are imported anew if it runs again, and switch it on again.
    """
    for name in _of_compat:
        sys.modules.pop(name, None)
    _of_compat.clear()
    _enabled.clear()
    while _finder():  # a file that was imported for two precisions has switched it on twice
        sys.modules["paddle"].disable_compat()


def note_compat() -> None:
    """Remember that a model's file switches it on, be it for some of its imports alone."""

    def noted(own, arguments, options):
        _enabled.add(options.get("enable", True))
        return own(*arguments, **options)

    paths = (f"{holder}{name}" for holder in ("", "compat.") for name in _COMPAT_CALLS)
    Intercept(sys.modules.get("paddle"), dict.fromkeys(paths, noted)).put()


def kernels() -> list[str]:
    """The frameworks whose compiled code is in this process; none where nobody tells (Linux does).

    Whatever a module is called, this is what computes.  A fork of a caller's that has both tells
    nothing by it.
    """
    if forked:
        return []
    try:
        mapped = Path("/proc/self/maps").read_text(errors="replace")
    except OSError:
        return []
    return [name for name, library in _KERNELS.items() if library in mapped]


def torch_is_paddle() -> bool:
    """True where Paddle answers to `import torch`, or has done so for this model's files."""
    if _finder() or True in _enabled:
        return True
    torch = sys.modules.get("torch")
    file = getattr(torch, "__file__", "") or ""
    return torch is not None and "torch" not in Path(file).parts


def _finder() -> bool:
    return any(type(finder).__module__.startswith("paddle") for finder in sys.meta_path)
