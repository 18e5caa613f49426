"""What a library's class is, as twincheck new asks: how it is called and what it returns.

    python -m extras.new_pair.library REQUEST.json

The same on both sides.  The request and the answer, both JSON, are described in
extras/new_pair/described.py.
"""

import ast
import gc
import importlib
import inspect
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import numpy as np

from twincheck.common.sides.places import error_sentence
from twincheck.common.sides.side import Side
from twincheck.common.system.errors import UserError
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.reasons import reasons_json
from twincheck.common.system.start import show_help
from twincheck.common.system.tree import children, tree_leaves
from twincheck.common.system.words import did_you_mean
from twincheck.extras.new_pair import Kind
from twincheck.extras.new_pair.whereabouts import Whereabouts

# PyPI's torchvision is built for CUDA.  Beside a torch that is built for the CPU its operators are
# missing, and this module, which tracing alone needs, cannot be imported.
NO_OPERATORS = "operator torchvision::nms does not exist"
STAND_IN = "torchvision._meta_registrations"


# A side's process runs `main` in a fork of itself, which imports the user's code.
APART = True


def main(path: Path) -> int:
    """Answer the request of a file; returns the exit status, 0 where it has an answer."""
    request = load_json(path)
    gc.disable()  # imports make much and drop little, and one small model is run
    side = importlib.import_module(f"twincheck.common.sides.backend_{request['side']}").side
    side.without_gpu()
    try:
        answer = describe(side, request)
        answer["unknown"] = reasons_json(answer["unknown"])
    except UserError as error:
        answer = {"error": reasons_json([str(error)])[0]}
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        said = Kind.OF_SPEC(spec=request["spec"], why=error_sentence(error))
        answer = {"error": said.as_json(), "traceback": text}
    write_json(Path(request["answer"]), answer)
    return 0


class Failed(UserError):
    """A failure of the user's code: what cannot be done with it, and the exception behind it."""

    def __init__(self, request: Mapping, why: str, cause: BaseException):
        super().__init__(Kind.OF_SPEC(spec=request["spec"], why=why))
        self.cause = cause


def describe(side: Side, request: Mapping) -> dict:
    """Import, build and run what is asked for; raises UserError where that cannot be done."""
    if request["compat"]:
        side.lib.enable_compat()
    plain = {key: ast.literal_eval(request[key]) for key in ("shared", "own")}
    places = Whereabouts(request)
    while True:
        places.enter()
        asked = {**request, **plain, "module": places.module}
        if request["config_module"] == request["module"]:
            asked["config_module"] = places.module
        try:
            answer = _described(side, asked)
        except Failed as error:
            if not places.mended(error):
                raise
        else:
            found = {"module": places.module, "bare": places.bare, "links": places.links()}
            found["path"] = sys.path[:]
            return answer | found


def _described(side: Side, request: Mapping) -> dict:
    side.set_up("float32", "cpu", request["seed"])
    stand_in = _import(request, request["module"])
    _demand_file(request)
    found = _attribute(request)
    config = _config_class(found, request)
    model, set_for_cpu = _built(found, config, request)
    model.eval()
    settings = _settings(found, config, request["shared"] | request["own"] | set_for_cpu)
    call, takes = _call(model, request)
    return_dict = {}
    with side.no_grad():
        drawn, words, outputs = _first_run(side, model, call, request)
        if _kind(side, outputs) != "named" and "return_dict" in takes:
            named = model(**words, return_dict=True)
            if _kind(side, named) == "named":
                outputs, return_dict = named, {"return_dict": True}
    return {
        "defined_in": _defined_in(found, request),
        "config": config and _importable(config, request["module"]),
        "set_for_cpu": set_for_cpu,
        "settings": settings,
        "unknown": _unknown(config, request["shared"] | request["own"]),
        "stand_in": STAND_IN if stand_in else None,
        "call": call,
        "takes": takes,
        "call_options": return_dict,
        "drawn": drawn,
        "outputs": {
            "kind": _kind(side, outputs),
            "attributes": not isinstance(outputs, dict) or hasattr(outputs, "to_tuple"),
            # Path, shape and whether it is of floats, of each tensor.
            "leaves": [
                [list(path), list(side.shape(leaf)), bool(side.is_float(leaf))]
                for path, leaf in tree_leaves(outputs, side.is_tensor)
            ],
        },
    }


def _first_run(
    side: Side, model, call: Mapping[str, str], request: Mapping
) -> tuple[int, dict, object]:
    """The first inputs that it makes sense of: their number, what it is called with, its outputs.

    Where it fails on all, gives NaN, or searches in what does not rise, the first that it runs on;
    raises UserError with what is wrong with the first where it runs on none.
    """
    runs, failures = [], []
    for number, path in enumerate(request["inputs"]):
        with np.load(path, allow_pickle=False) as file:
            words = {place: side.tensor(file[name]) for name, place in call.items()}
        try:
            with _searches(side) as falling:
                outputs = model(**words)
        except Exception as error:
            shapes = [f"{name} {list(value.shape)}" for name, value in words.items()]
            said = Kind.RUNNING_FAILED(inputs=shapes, error=_said(error))
            failures.append(Failed(request, said, error))
            continue
        runs.append((number, words, outputs))
        leaves = [leaf for _, leaf in tree_leaves(outputs, side.is_tensor) if side.is_float(leaf)]
        if not falling and not any(np.isnan(side.array(leaf)).any() for leaf in leaves):
            return runs[-1]
    if not runs:
        raise failures[0]
    return runs[0]


@contextmanager
def _searches(side: Side) -> Iterator[list[str]]:
    """The framework's searches, inside, that were given what does not rise: nobody knows what they
    find there, and it need not be the same on both sides."""
    framework, falling = sys.modules[side.NAME], []

    def watched(name, place):
        function = getattr(framework, name)

        def search(*arguments, **keywords):
            among = side.array([*arguments, *keywords.values()][place])
            if keywords.get("sorter") is None and (np.diff(among) < 0).any():
                falling.append(name)
            return function(*arguments, **keywords)

        return search

    places = {"searchsorted": 0, "bucketize": 1}
    with patch.multiple(framework, **{name: watched(name, at) for name, at in places.items()}):
        yield falling


def _import(request: Mapping, module: str) -> bool:
    """Import the module; True where torchvision needs a stand-in for that."""
    try:
        try:
            importlib.import_module(module)
        except RuntimeError as error:
            if NO_OPERATORS not in str(error):
                raise
            for name in [name for name in sys.modules if name.split(".")[0] != "torch"]:
                if name.split(".")[0] in ("torchvision", module.split(".")[0]):
                    del sys.modules[name]
            sys.modules[STAND_IN] = ModuleType(STAND_IN)
            importlib.import_module(module)
            return True
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name:
            said = _missing(request, module, error.name)
        else:
            said = Kind.IMPORT_FAILED(module=module, error=_said(error))
        raise Failed(request, said, error) from None
    return False


def _missing(request: Mapping, module: str, name: str) -> str:
    """Return the sentence on a module that is missing, and on what takes its place."""
    package = module.split(".")[0]
    if name.startswith("paddle.fluid"):
        return Kind.IMPORT_NEEDS_FLUID(module=module, fluid=Kind.FLUID_REMOVED())
    if name == package:
        said = {"python": sys.executable, "package": package, "side": request["side"]}
        return Kind.PACKAGE_MISSING(**said)
    if module == name or module.startswith(f"{name}.") and "." in module:
        return Kind.MODULE_MISSING(module=name)
    return Kind.IMPORT_NEEDS(module=module, needed=name, python=sys.executable)


def _said(error: BaseException) -> str:
    """One line on what the user's code ended with, and what can be done where that is known."""
    said = error_sentence(error)
    if isinstance(error, SystemExit):
        return Kind.PROGRAM_ENDS(error=said)
    if isinstance(error, FileNotFoundError) and error.filename:
        return Kind.FILE_NOT_THERE(error=said, file=str(error.filename))
    if isinstance(error, AttributeError) and error.name == "fluid":
        return Kind.FLUID_NEEDED(error=said, fluid=Kind.FLUID_REMOVED())
    return said


def _demand_file(request: Mapping) -> None:
    """Raise UserError where another module of the file's name was imported."""
    file, found = request["file"], getattr(sys.modules[request["module"]], "__file__", None)
    if file and (found is None or not Path(file).samefile(found)):
        said = {"spec": request["spec"], "module": request["module"], "file": str(found)}
        raise UserError(Kind.MODULE_OF_OTHER_FILE(**said))


def _attribute(request: Mapping):
    value = sys.modules[request["module"]]
    for part in request["name"].split("."):
        try:
            value = getattr(value, part)
        except Exception as error:  # a lazy module imports here
            names = [name for name in dir(value) if not name.startswith("_")]
            if isinstance(error, AttributeError):
                said = {"spec": request["spec"], "module": request["module"], "name": part}
                said["meant"] = did_you_mean(part, names)
                raise UserError(Kind.NAME_MISSING(**said)) from None
            raise Failed(request, _said(error), error) from None
    if not callable(value):
        raise UserError(Kind.NOT_CALLABLE(spec=request["spec"]))
    return value


def _defined_in(found, request: Mapping) -> str:
    """Return the module of the named one's package that it comes from, under the same name."""
    module = getattr(found, "__module__", None) or request["module"]
    own = module.partition(".")[0] == request["module"].partition(".")[0]
    there = getattr(sys.modules.get(module), request["name"], None) is found
    return module if own and there else request["module"]


def _config_class(found, request: Mapping):
    """The class of its configuration; None where it is built with keywords."""
    if request["config_module"]:
        asked = dict(request, module=request["config_module"], name=request["config_name"])
        asked["spec"] = request["config_spec"]
        _import(asked, asked["module"])
        config = _attribute(asked)
        if not inspect.isclass(config):
            raise UserError(Kind.CONFIG_NO_CLASS(spec=asked["spec"]))
        return config
    config = getattr(found, "config_class", None) if inspect.isclass(found) else None
    return config if inspect.isclass(config) else None


def _importable(config: type, module: str) -> list[str]:
    """Module and name to import the class by: from where the model comes, if it is there."""
    beside = getattr(sys.modules[module], config.__name__, None) is config
    return [module if beside else config.__module__, config.__name__]


def _built(found, config: type | None, request: Mapping):
    """The model, and what was set since there is no GPU."""
    own, set_for_cpu = dict(request["own"]), {}
    both = request["shared"] | own
    if config is not None and request["side"] == "paddle" and "fuse_rms_norm" not in both:
        if config.__module__.split(".")[0] == "paddleformers":
            set_for_cpu = {"fuse_rms_norm": False}  # the fused kernel is for GPUs
    keywords = both | set_for_cpu
    try:
        if config is None:
            return found(**keywords), set_for_cpu
        return found(config(**keywords)), set_for_cpu
    except (Exception, SystemExit) as error:
        told = [f"{key}={value!r}" for key, value in keywords.items()]
        said = Kind.BUILDING_FAILED(arguments=told, error=_said(error))
        raise Failed(request, said, error) from None


def _settings(found, config: type | None, given: Mapping) -> dict[str, object]:
    """Return the plain values that the model is built with, its own defaults included."""
    try:
        if config is not None:
            values = dict(config(**given).to_dict())
        else:
            parameters = inspect.signature(found).parameters.values()
            values = {p.name: p.default for p in parameters if p.default is not p.empty} | given
    except Exception:  # it has no such method, or no signature
        return {}
    plain = bool | int | float | str | None
    return {key: value for key, value in values.items() if isinstance(value, plain)}


def _unknown(config: type | None, given: Mapping) -> list[str]:
    """Words on entries that a configuration does not know by itself, and takes all the same."""
    try:
        known = dict(config().to_dict()) if config else dict(given)
        unknown = [key for key in given if key not in known and not hasattr(config(), key)]
    except Exception:  # it has no defaults, or no such method
        return []
    return [
        Kind.CONFIG_WITHOUT(config=config.__name__, name=key, meant=did_you_mean(key, known))
        for key in unknown
    ]


def _call(model, request: Mapping) -> tuple[dict[str, str], list[str]]:
    """Input -> the parameter of forward that takes it; and the names of all of them.

    Paddle's inputs without a parameter of their name fill the places that are still to be filled,
    where there are as many.
    """
    parameters = dict(inspect.signature(model.forward).parameters)
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = {n: p for n, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    wanted: Mapping[str, str] = request["names"]
    call = {name: told for name, told in wanted.items() if told in named}
    unknown = [name for name in wanted if name not in call]
    open_places = [n for n, p in named.items() if p.default is p.empty and n not in call.values()]
    if unknown and len(unknown) == len(open_places) and request["side"] == "paddle":
        call = dict(zip(unknown, open_places, strict=True)) | call
        unknown = []
    if unknown and not (anything and not named):
        said = {"inputs": [Kind.INPUT_NOT_TAKEN(name=name) for name in unknown]}
        said |= {"spec": request["spec"], "taken": list(named)}
        raise UserError(Kind.INPUTS_NOT_TAKEN(**said))
    missing = [n for n, p in named.items() if p.default is p.empty and n not in call.values()]
    if missing:
        said = {"spec": request["spec"], "inputs": missing, "first": missing[0]}
        raise UserError(Kind.INPUTS_NEEDED(**said))
    return {name: call.get(name, name) for name in wanted}, list(named)


def _kind(side: Side, outputs) -> str:
    """`tensor`, `sequence` (by index), `named` (by key or field) or `nothing`."""
    if side.is_tensor(outputs):
        return "tensor"
    pairs: Sequence[tuple[object, object]] = children(outputs) or ()
    if not pairs:
        return "nothing"
    return "named" if all(isinstance(key, str) for key, _ in pairs) else "sequence"


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(main(Path(sys.argv[1])))
