"""What every worker script shares: requests, one after another, and the precisions of each.

    python -m step1_forward.torch.forward [MODULE] REQUEST.json …   runs these, and ends
    python -m step1_forward.torch.forward -                         takes them from standard input

A script defines `function(run)`, which computes and logs one case, and calls `main` with a Script.
It needs NumPy and its own framework, nothing else.  common/pair/request.py says what a request
holds.  On standard input each line names a script, too: one process answers for all five steps.

The float64 run comes first; the reference's records the discrete choices, and every other run goes
on with them (common/verdict/choices.py says why).
"""

import gc
import importlib
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from twincheck.common.logs.reference import reference_values, teacher_values, unlike
from twincheck.common.logs.sidecar import note_not_forced, read_sidecar, write_sidecar
from twincheck.common.pair import task as tasks
from twincheck.common.pair.pairs import Case, Pair, chosen_cases, load_pair
from twincheck.common.pair.request import FROM_STDIN, RunRequest, error_file, rank_folder
from twincheck.common.sides import (
    batch_norm,
    choices,
    dropouts,
    lines_run,
    random_functions,
    upcast,
)
from twincheck.common.sides.draws import Restart
from twincheck.common.sides.job import Job, Unsuited
from twincheck.common.sides.model_file import (
    forget_compat,
    forget_edited,
    forget_others,
    note_compat,
    note_files,
)
from twincheck.common.sides.places import error_sentence, of_framework_file, place_of_error
from twincheck.common.sides.run import Run
from twincheck.common.sides.session import Session, current
from twincheck.common.sides.shared_weights import (
    describe,
    make_weights,
    read_folders,
    save,
)
from twincheck.common.sides.side import Side
from twincheck.common.sides.tracing import tracing
from twincheck.common.sides.write_log import write_log
from twincheck.common.system import extras
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError, is_ours
from twincheck.common.system.frameworks import is_graph
from twincheck.common.system.half import HALF
from twincheck.common.system.memory import (
    give_back_freed_memory,
)
from twincheck.common.system.npz import read_npz
from twincheck.common.system.processes import leave, watch, watch_launcher
from twincheck.common.system.reasons import Kind, reasons_json
from twincheck.common.system.run_kind import AGAIN, RunKind
from twincheck.common.transplant.table import TRANSPLANTS
from twincheck.common.weights import states as weights
from twincheck.common.weights.layout import LayoutError

DTYPES = ("float64", "float32")


@dataclass(frozen=True)
class Script:
    """A side's script runs `function` and logs it; stem and dtypes may depend on the request."""

    side: Side
    stem: str | Callable[[RunRequest], str]  # of the logs' names (job.py)
    function: Callable[[Run], None]
    dtypes: tuple[str, ...] | Callable[[RunRequest], tuple[str, ...]] = DTYPES
    # What to run for a pair; by default the preset's cases.
    cases: Callable[[Pair, RunRequest], list[Case]] | None = None
    decodes: bool = False  # those that decode with a cache too
    sums: bool = False  # whether its logs may hold large tensors as sums alone
    # How many parts of a run it tells as progress, beside one for each case.
    parts: Callable[[Pair, Case, RunRequest], int] = lambda pair, case, request: 0
    # The processes that share each request, of which this is one (group.py): the first writes into
    # the request's folder, each other into one of its own in there.
    group: object | None = None


@dataclass
class Worker:
    """A side's process, which answers requests by the script that each is for."""

    script: Script
    exact: object | None = None  # common/transplant/exact.py's, on the Paddle side
    here: str | None = None  # the working folder of models that have none of their own
    transplanted: str | None = ""  # the operators that this process has put in place; "": none yet
    module: str = ""  # the script's dotted name

    @property
    def side(self) -> Side:
        """The framework's side."""
        return self.script.side

    def answer(self, path: Path, module: str = "") -> int:
        """Run one request; returns the exit status (0, or 2 where an error was written beside it).

        module  the script that it is for; by default the one that this process was started with
        Raises UserError for a file that is no request.
        """
        apart = module and getattr(importlib.import_module(module), "APART", None)
        if apart:
            return _run_apart(module, path)
        request, group = RunRequest.read(path), self.script.group
        rank = group.rank if group else 0
        if rank:
            request = replace(request, progress=False)
        folder = path.parent / (rank_folder(rank) if rank else "")
        folder.mkdir(parents=True, exist_ok=True)
        pair, since_ns = None, time.time_ns()
        try:
            forget_compat()
            forget_edited()
            if module:
                self.module = module
                script = importlib.import_module(module).SCRIPT
                if not isinstance(script, Script):  # one for both sides, which names none
                    script = Script(self.side, **script)
                self.script = script
            self._prepare(request)
            if isinstance(request.task, tasks.Save):
                save(self.side, Path(request.task.path), Path(request.weights))
                return 0
            pair = load_pair(request.model).of_checkpoint(request.published)
            pair = pair.between(request.backends)
            forget_others(pair)
            own = pair.working_folder(request.side or self.side.NAME)
            if own or self.here:
                self.here = self.here or os.getcwd()
                os.chdir(own or self.here)
            # Views, though the model writes through none: Paddle's copies have no kernels in half
            # precision, what torch hands over in a transplant may be laid out otherwise, and a GPU
            # has no need of them.
            views = request.device != "cpu" or request.dtype in HALF or request.transplant
            self.side.compute_quickly(pair.built_in and not views)
            dtypes = self.script.dtypes
            dtypes = dtypes(request) if callable(dtypes) else dtypes
            dtypes = [request.dtype if dtype == "float32" else dtype for dtype in dtypes]
            job = self._job(request, pair, folder, path.name, dtypes)
            # Of the built-in pairs it is known which options run the others.
            usual = isinstance(request.task, tasks.Usual) and not pair.built_in
            lines_run.begin(usual and not is_graph(job.backend))
            run_model(job)
        except Exception as error:
            reason = self._write_error(error, pair, request, folder)
            print(f"error: {reason}", file=sys.stderr)
            if request.debug:
                traceback.print_exception(error)
            return 2
        finally:
            if pair is not None:
                note_files(pair, since_ns)
        return 0

    def _write_error(self, error: Exception, pair: Pair | None, request, folder: Path) -> str:
        """Leave for the check why a request was not answered; returns the reason."""
        refused = isinstance(error, UserError) or _raised_by_pair(error, pair)
        ours = not refused and is_ours(error)
        reason = str(error)
        if not refused:
            kind = Kind.TWINCHECK_CRASHED if ours else Kind.WORKER_CRASHED
            name = pair.name if pair else request.model
            reason = kind(side=self.side.NAME, model=name, error=error_sentence(error))
        crashed_at = "" if ours or refused else place_of_error(error)
        text = "".join(traceback.format_exception(error))
        told = {"sentence": reason, "reason": reasons_json([reason])[0]}
        told |= {"traceback": text, "ours": ours}
        told["crashed_at"] = crashed_at
        if isinstance(error, LayoutError):
            told["certificate"] = error.certificate
        error_file(folder, request.side or self.side.NAME).write_text(json.dumps(told))
        return reason

    def _prepare(self, request: RunRequest) -> None:
        """Put before the framework's functions what stands there for all models."""
        wanted = request.transplant if self.side.NAME == "paddle" else None
        if self.transplanted == "":
            self.transplant, self.transplanted = _transplant(wanted), wanted
            self.exact = self.side.exact_operators(
                _site, lambda: current().probing or current().watching
            )
            # From the inside out: the last is asked first, and leads to those before it.
            for put in (
                request.device == "cpu" and self.side.without_gpu,
                self.transplant and self.transplant.way.put,
                self.exact and self.exact.way.put,
                partial(batch_norm.patch, self.side),
                partial(dropouts.patch, self.side),
                partial(random_functions.patch, self.side),
                partial(choices.patch, self.side),
                partial(upcast.patch, self.side),
                note_compat,
            ):
                put and put()
        elif wanted != self.transplanted:
            raise UserError(Kind.TRANSPLANT_OF_OTHERS())

    def _job(
        self,
        request: RunRequest,
        pair: Pair,
        folder: Path,
        request_file: str,
        dtypes: Sequence[str],
    ) -> Job:
        script = self.script
        of_preset = request.preset, request.weights, request.modes, script.decodes
        every_case = script.cases(pair, request) if script.cases else pair.cases(*of_preset)
        cases = chosen_cases(every_case, request.cases)
        return Job(
            script.side,
            script.stem(request) if callable(script.stem) else script.stem,
            script.function,
            request,
            pair,
            cases,
            every_case[0].name,
            folder,
            request_file,
            self.module,
            transplant=self.transplant,
            exact=self.exact,
            may_sum=script.sums,
            dtypes=dtypes,
            parts=len(cases) + script.parts(pair, every_case[0], request),
            group=script.group,
            states=weights.States(None if request.keep == "all" else request.states),
        )


def main(script: Script) -> int:
    """Run a side's script; returns the exit status, 0 or 2."""
    watch()
    gc.freeze()  # what has been imported stays
    gc.enable()
    # What overflows or is NaN is a row's verdict.
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    worker = Worker(script, module=_module_name())
    paths = sys.argv[1:]
    del sys.argv[1:]  # which are no arguments of a model's
    sys.path[:] = [folder for folder in sys.path if folder != str(ROOT)]  # it may have a `common`
    if not paths:
        print(f"error: {Kind.REQUEST_MISSING()}", file=sys.stderr)
        return 2
    try:
        if paths == [FROM_STDIN]:
            leave(_answer_from_stdin(worker))
        module = paths.pop(0) if paths[1:] and not paths[0].endswith(".json") else ""
        if script.group is not None and script.group.count > 1:
            watch_launcher()
            # The others wait for this one: where it fails, all end.
            leave(next((2 for path in paths if worker.answer(Path(path))), 0))
        return max([worker.answer(Path(path), module) for path in paths])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _module_name() -> str:
    """The dotted name of the script that is running, such as step1_forward.torch.forward."""
    script = sys.modules["__main__"]
    if getattr(script, "__spec__", None):
        return script.__spec__.name.removeprefix("twincheck.")
    path = Path(sys.argv[0]).resolve()  # it was run by its path
    if path.is_relative_to(ROOT):
        return ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return path.name


def _answer_from_stdin(worker: Worker) -> int:
    """Answer every request that comes on standard input; returns the worst status.

    A model's own code finds standard input empty, and may print or close what it likes: both
    channels are taken aside first.
    """
    requests, answers = os.fdopen(os.dup(0)), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    worst = 0
    for line in requests:
        module, path = json.loads(line)
        status = worker.answer(Path(path), module)
        give_back_freed_memory()  # the other side computes now
        worst = max(worst, status)
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os.write(answers, b"\n@done %d\n" % status)
    return worst


def _run_apart(module: str, path: Path) -> int:
    """Run a module's `main` on a file in a fork, so that this process keeps nothing of it.

    A fork need not import the framework again.  Ends as the fork ended, unless that is well: who
    asked finds out why as of any process.
    """
    process = os.fork()
    if not process:
        try:
            watch_launcher()  # this process
            status = importlib.import_module(module).main(path)
        except BaseException as error:  # a model's file may call exit
            traceback.print_exception(error)
            status = 1
        leave(status)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if status < 0:
        os.kill(os.getpid(), -status)
    return leave(status) if status else 0


def run_model(job: Job) -> None:
    """Do with one model what its request asks for.

    Without a float64 run (step 5's whole training) nothing is forced, and the weights are there.
    """
    task = job.request.task
    if isinstance(task, tasks.Describe):
        describe(job)
    elif isinstance(task, tasks.Inspect | tasks.RoundTrip):  # for an extra
        extras.load("twincheck.requests", tasks.label(task))(job)
    else:
        _Logs(job).write_all()


class _Logs:
    """The logs of one model that its request asks for, in these precisions."""

    def __init__(self, job: Job):
        self.job, self.files = job, job.files
        self.request, self.side = job.request, job.slot
        self.aligned = "float64" in job.dtypes
        self.choices = self.files.choices(job.stem)

    def write(self, run: str, *arguments, **options) -> Session:
        """One log (write_log's arguments); begun again where it has learnt what it had to know."""
        try:
            path = self.files.log(self.job.stem, self.side, run)
            return write_log(self.job, path, *arguments, **options)
        except Restart:  # it knows more now
            pass
        except Exception as error:
            if self.job.gradients or not _asks_for_gradients(error):
                raise
            self.job = replace(self.job, gradients=True)
        return self.write(run, *arguments, **options)

    def write_all(self) -> None:
        """Write all logs of the request's task."""
        job, task = self.job, self.request.task
        if isinstance(task, tasks.Whole):
            self.write(RunKind.WHOLE, "float64", None)
        elif isinstance(task, tasks.Traced):
            self._trace(task)
        elif isinstance(task, tasks.ForcedAlike):
            not_forced = unlike(self.files, job.stem)
            with reference_values(self.files, job.stem, (RunKind.PLAIN,), not_forced) as reference:
                self.write(RunKind.HALF_STEP64, "float64", _load_choices(self.choices), reference)
            note_not_forced(self.files.log(job.stem, self.side, RunKind.HALF_STEP64), not_forced)
        elif isinstance(task, tasks.Noise):
            from twincheck.common.sides import noise_in_torch  # which imports torch

            noise_in_torch.measure(
                job, task, partial(self.write, forced=_load_choices(self.choices))
            )
        else:
            self._write_from_weights(task)

    def _write_from_weights(self, task: tasks.Task) -> None:
        """The logs of a task before which the reference's side makes what both start from."""
        forced = None
        if self.job.is_reference and self.aligned:
            make_weights(self.job)
        if not self.job.is_reference:
            read_folders(self.job)
            forced = _load_choices(self.choices) if self.aligned else None
        if isinstance(task, tasks.Again):
            for number, run in enumerate(AGAIN, 1):
                if task.further == (number > 1):
                    self.write(run, "float32", forced, again=number)
        elif isinstance(task, tasks.TeacherForced):
            self._teacher_forced(task, forced)
        else:
            self._usual(forced)

    def _trace(self, task: tasks.Traced) -> None:
        """Write the calls of a run, and the log of the same run."""
        job, choices, takes = self.job, _load_choices(self.choices), partial(_is_in, task.sites)
        with ExitStack() as stack:
            fed = None
            if not job.is_reference:
                read_folders(job)
                fed = stack.enter_context(teacher_values(self.files, job.stem))
            with tracing(job.side, takes) as trace:
                self.write(RunKind.TRACED, "float64", choices, fed)
        trace.write(job.folder / f"{job.stem}_{self.side}_trace")

    def _teacher_forced(self, task: tasks.TeacherForced, forced) -> None:
        run = RunKind.EXACT if task.exact else RunKind.TEACHER_FORCED
        if task.free:
            self.write(RunKind.FREE, "float64", forced, {})
        elif task.feed:
            self.write(run, "float64", forced, read_npz(self.job.folder / task.feed))
        else:
            with teacher_values(self.files, self.job.stem) as fed:
                self.write(run, "float64", forced, fed)
            note_not_forced(self.files.log(self.job.stem, self.side, run), fed.left_out)

    def _usual(self, forced) -> None:
        """Every precision, then the unforced float32 run where a choice fell otherwise."""
        no_float64 = ""
        dtypes = self.job.dtypes
        waiting = list(dtypes[-1:] if self.request.only_float32 else dtypes)
        while waiting:
            dtype = waiting.pop(0)
            run = RunKind.FLOAT64 if dtype == "float64" else RunKind.PLAIN
            try:
                session = self.write(run, dtype, forced)
            except Unsuited:
                waiting, forced = list(dtypes), None
                continue
            except Exception as error:
                # A model may be tied to float32.  If it is only wrong, float32 fails too, and says
                # so.  A full disk or memory says nothing of the model.
                elsewhere = isinstance(error, UserError | OSError | MemoryError) or is_ours(error)
                if dtype != "float64" or elsewhere or _raised_by_pair(error, self.job.pair):
                    raise
                no_float64 = error_sentence(error)
                continue
            if no_float64:
                log = self.files.log(self.job.stem, self.side)
                write_sidecar(log, replace(read_sidecar(log), no_float64=no_float64))
            if self.job.is_reference and self.aligned and forced is None:
                forced = session.choices
                weights.save_state(self.choices, forced)
            if dtype != "float64" and session.seen.flips:
                self.write(RunKind.UNFORCED, dtype, None, probing=False)
        if self.request.dtype in HALF and self.aligned and not no_float64:
            # What each module makes by itself of the reference's values in half precision.
            with reference_values(self.files, self.job.stem, (RunKind.PLAIN,)) as reference:
                self.write(RunKind.HALF_STEP64, "float64", forced, reference)
                if not self.job.is_reference:
                    self.write(RunKind.HALF_STEP, self.request.dtype, forced, reference)


def _is_in(sites: Sequence[str], name: str) -> bool:
    """Return whether a module of this side is one of these, or inside one."""
    named = current().rename(name)
    return any(not site or named == site or named.startswith(f"{site}.") for site in sites)


def _site() -> str:
    """The key of the module that runs now, by torch's name."""
    session = current()
    return session.prefix + session.rename(session.site_of_draw())


def _transplant(text: str | None):
    """Have torch compute what `text` names on the Paddle side; None where nothing is asked for."""
    if not text:
        return None
    names = extras.load(TRANSPLANTS, "chosen")(text)
    try:
        transplant = extras.load(TRANSPLANTS, "patch")
        return transplant(names, lambda: current().site_of_draw(), upcast.wanted)
    except ModuleNotFoundError as error:
        raise UserError(Kind.TRANSPLANT_FRAMEWORK_MISSING(name=error.name)) from None


def _load_choices(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise UserError(Kind.CHOICES_MISSING(file=path.name))
    try:
        return read_npz(path)
    except ValueError as error:
        raise UserError(Kind.CHOICES_UNREADABLE(path=str(path), error=str(error))) from None


def _raised_by_pair(error: Exception, pair: Pair | None) -> bool:
    """True for a ValueError that the pair itself raised: a sentence about a configuration."""
    if pair is None or not isinstance(error, ValueError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return Path(frames[-1].filename).parent == pair.folder


def _asks_for_gradients(error: Exception) -> bool:
    """True where the framework's `grad` failed: the model or its loss called it by itself."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(f.name == "grad" and of_framework_file(f.filename) for f in frames)
