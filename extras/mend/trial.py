"""A step's Paddle side, once for each edit of its source: how far each is from torch's values.

The request's folder has edits.json: file, the source that is edited; step, the module and the
function of the step's Paddle side; torch, the log of its torch side; origin, a row's key; allowed,
what rounding may make of each row, a part of its size; forced, whether the reference's discrete
choices are gone on with; seconds for a trial, at most; edits, each [first byte, the one behind its
last, new text].  Each is run in float64, or in the precision in which what is looked for shows, and
one line of tried.jsonl says what came of it: number; the origin's distance, a part of torch's size;
how many values came nearer than by a factor of 30, how many went away, and by how many digits in
all; or the error.  The first line, -1, is of the source
as it is, and where there are no edits it has the lines of the file that ran, and the pair's files
that were imported.  No file is changed.
"""

import faulthandler
import importlib
import inspect
import itertools
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from importlib.machinery import SourceFileLoader
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType

import numpy as np

from twincheck.common.logs.key import Key
from twincheck.common.logs.of_a_run import STATISTICS
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.sides import model_file
from twincheck.common.sides.draws import Draws, Dropouts, Restart
from twincheck.common.sides.run import Run
from twincheck.common.sides.session import Session, using
from twincheck.common.system.json_file import load_json
from twincheck.extras.mend import Kind
from twincheck.extras.mend.distances import compared, distances
from twincheck.extras.mend.edits import CASE, MAPPING
from twincheck.extras.shared.one_case import asked_precision

SLOWER = 20.0  # than the source as it is an edit may be


def trial(run):
    """Try every edit on one case, and leave what came of each."""
    _limit_memory()
    told = load_json(run.folder / "edits.json")
    function = getattr(importlib.import_module(told["step"][0]), told["step"][1])
    path = Path(told["file"])
    source = path.read_bytes()
    done = _lines(run.folder / "tried.jsonl")
    for one in (run.session.draws, run.session.dropouts):
        one.reference = cache(one.reference)  # each edit asks for it
    before, seconds = None, told["seconds"]
    told_inside = sidecar_of(told["torch"]).classes
    inside = {key for key in told_inside if Key.parse(key).local not in STATISTICS}
    judge = partial(distances, inside=inside)
    with read_log(told["torch"]) as reference:
        running = _imported if path.is_relative_to(run.pair.folder) else _swapped
        if path == run.pair.folder / CASE:
            running = partial(_mapped, run.job)
        for number in range(-1, len(told["edits"])):
            if number >= 0 and number in done:
                continue
            start, end, new = told["edits"][number] if number >= 0 else (0, 0, "")
            edited = source[:start] + new.encode() + source[end:]
            with open(run.folder / "tried.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps({"begun": number}) + "\n")
            ran: set[int] = set()
            began = time.monotonic()
            try:
                watched = nullcontext() if told["edits"] else _ran(path, ran)
                with _in_time(seconds), watched, running(path, source, edited):
                    values = _values(run, function, {}, told["forced"])
                found = judge(values, reference)
            except Exception as error:  # whatever an edit makes of a model
                line = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
                before = judge({}, reference) if before is None else before
            else:
                if before is None:
                    before = found
                    seconds = min(seconds, max(1.0, SLOWER * (time.monotonic() - began)))
                line = compared(before, found, told["origin"], told["allowed"], inside)
            if ran:
                line |= {"lines": sorted(ran), "files": _files(run.pair.folder)}
            with open(run.folder / "tried.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps({"number": number, **line}) + "\n")
    run.session.begin(prefix=run.prefix)
    run.log("tried", np.int64(len(told["edits"])))


def _files(folder: Path) -> list[str]:
    """The files in a folder that are imported."""
    files = (getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))
    return sorted({file for file in files if Path(file).is_relative_to(folder)})


def _lines(path: Path) -> set[int]:
    """The numbers of the edits that an earlier process has begun, the last of which ended it."""
    if not path.is_file():
        return set()
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {line["begun"] for line in lines if "begun" in line}


@contextmanager
def _imported(path: Path, source: bytes, edited: bytes) -> Iterator[None]:
    """While it lasts, a file that is imported is the edited source."""
    real = SourceFileLoader.get_code

    def get_code(self, name):
        if Path(self.path) == path:
            return compile(edited, str(path), "exec", dont_inherit=True)
        return real(self, name)

    SourceFileLoader.get_code = get_code
    try:
        yield
    finally:
        SourceFileLoader.get_code = real


@contextmanager
def _mapped(job, path: Path, source: bytes, edited: bytes) -> Iterator[None]:
    """While it lasts, the case.py that is imported has the edited source's RENAME and convert."""
    case = job.pair.case
    former = {name: vars(case)[name] for name in MAPPING if hasattr(case, name)}
    now = {**vars(case)}
    exec(compile(edited, str(path), "exec", dont_inherit=True), now)
    vars(case).update({name: now[name] for name in former})
    job.layouts.clear()
    try:
        yield
    finally:
        vars(case).update(former)
        job.layouts.clear()


@contextmanager
def _swapped(path: Path, source: bytes, edited: bytes) -> Iterator[None]:
    """While it lasts, functions of a package's file, which is imported once, run edited code."""
    modules = [m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == str(path)]
    former, now = (_codes(compile(text, str(path), "exec")) for text in (source, edited))
    changed = [name for name in former if name in now and former[name] != now[name]]
    if source != edited and not changed:
        raise NotImplementedError  # the package is imported once: only functions are exchanged
    kept = []
    try:
        for module, name in itertools.product(modules, changed):
            function = _function(module, name)
            kept.append((function, function.__code__))
            function.__code__ = now[name]
        yield
    finally:
        for function, code in kept:
            function.__code__ = code


def _codes(code: CodeType, holder: str = "") -> dict[str, CodeType]:
    """Dotted name -> code of each function that a module or its classes define."""
    found = {}
    for one in code.co_consts:
        if isinstance(one, CodeType) and not one.co_name.startswith("<"):
            name = f"{holder}{one.co_name}"
            is_function = bool(one.co_flags & CO_OPTIMIZED)  # a class's body is none
            found |= {name: one} if is_function else _codes(one, f"{name}.")
    return found


def _function(module, name: str):
    """The function of a dotted name, out of whatever it was wrapped in."""
    *classes, last = name.split(".")
    holder = module
    for one in classes:
        holder = vars(holder)[one]
    found = vars(holder)[last]
    found = getattr(found, "__func__", getattr(found, "fget", found))
    return inspect.unwrap(found)


@contextmanager
def _ran(path: Path, lines: set[int]) -> Iterator[None]:
    """Puts into a set the numbers of a file's lines that run while it lasts."""

    def of_file(frame, event, argument):
        lines.add(frame.f_lineno)
        return of_file

    def of_all(frame, event, argument):
        return of_file(frame, event, argument) if frame.f_code.co_filename == str(path) else None

    former = sys.gettrace()
    sys.settrace(of_all)
    try:
        yield
    finally:
        sys.settrace(former)


@cache
def _limit_memory() -> None:
    """Limit memory to half of the machine's beside what is in use: an array may have any size.

    Once: what edits leave behind raises no limit.  Such an edit ends, or the process.  Where the
    system counts in no such file, or has a lower limit, it stays as it is.
    """
    counts = Path("/proc/self/statm")
    if counts.is_file():
        used, whole = int(counts.read_text().split()[5]), os.sysconf("SC_PHYS_PAGES")
        most = (used + whole // 2) * resource.getpagesize()
        own, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if own == resource.RLIM_INFINITY or most < own:
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


@contextmanager
def _in_time(seconds: float) -> Iterator[None]:
    """An edit may make a loop that does not end, or, in a library, a wait that no signal ends.

    That ends the process, after twice the time.
    """

    def ended(number, frame):
        raise TimeoutError(Kind.TRIAL_TOO_LONG(seconds=seconds))

    former = signal.signal(signal.SIGALRM, ended)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(2 * seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def _values(run, function, learned: dict, forced: bool) -> dict[str, np.ndarray]:
    """Key -> value of all that the step logs, by the source as it is imported now.

    learned     which dropout is which of the reference's (common/sides/draws.py); fills up
    forced      whether it goes on with the reference's discrete choices
    """
    found: dict[str, np.ndarray] = {}

    def keep(key, values, **more):
        found[key] = np.array(values)

    own, request = run.session, run.request
    session = Session(request.seed, record=keep, forced=own.forced if forced else None)
    session.tape, session.selection = own.tape, own.selection
    session.draws = Draws(own.draws.reference)
    session.dropouts = Dropouts(own.dropouts.reference, learned, run.case.name)
    run.side.set_up(run.dtype, request.device, request.seed + run.case.seed)
    session.begin(prefix=run.prefix)
    try:
        with using(session):
            one = Run(run.job, run.case, run.dtype, session)
            one.module = model_file.import_again(run.job)
            if one.module is run.pair.side(run.job.slot):  # as it was, for it was not imported
                raise ImportError(Kind.TRIAL_NOT_IMPORTED())
            function(one)
            session.dropouts.begin()  # the last pass has ended
    except Restart:  # it is known now
        return _values(run, function, learned, forced)
    return found


SCRIPT = {"stem": "mend", "function": trial, "dtypes": asked_precision}
