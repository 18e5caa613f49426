"""One log with its sidecar: every case of a model in one precision."""

import os
import platform
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from twincheck.common.logs.draws import Groups
from twincheck.common.logs.key import PLACES
from twincheck.common.logs.result_folder import LogName, ResultFolder
from twincheck.common.logs.sidecar import (
    SCHEMA,
    Sidecar,
    places_of_scores,
    seal,
    sidecar_of,
    write_sidecar,
)
from twincheck.common.logs.writer import LogWriter
from twincheck.common.pair.pairs import EVAL, TRAIN, Case
from twincheck.common.pair.provenance import imported_packages, model_sources, workbench_sha256
from twincheck.common.pair.request import FIRST
from twincheck.common.pair.tape import Tape
from twincheck.common.pair.task import ForcedAlike, TeacherForced, Traced, Whole
from twincheck.common.sides import edges, lines_run
from twincheck.common.sides.draws import Draws, Dropouts
from twincheck.common.sides.job import Job
from twincheck.common.sides.model_file import kernels, torch_is_paddle
from twincheck.common.sides.modes import why_not_run
from twincheck.common.sides.run import Run, stored
from twincheck.common.sides.session import Seen, Selection, Session, using
from twincheck.common.sides.upcast import upcasting
from twincheck.common.system.checkout import ROOT, short_place
from twincheck.common.system.frameworks import SETTINGS, SIDES, is_graph
from twincheck.common.system.half import HALF
from twincheck.common.system.hashes import arrays_sha256
from twincheck.common.system.run_kind import RunKind

# Of the reference's float64 log, the first to be written: a step of a model has four, which come to
# three times that, and at most two of teacher-forced runs.
MOST_BYTES = 10**8


@dataclass
class _Ran:
    """The record that a log's cases leave for its sidecar, by their prefix or by their name."""

    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    states: dict[str, np.ndarray] = field(default_factory=dict)
    batches: dict[str, int | None] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    notes: dict[str, dict] = field(default_factory=dict)
    extra: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)


def write_log(
    job: Job,
    path: Path,
    dtype: str,
    forced: Mapping[str, np.ndarray] | None,
    reference: Mapping[str, np.ndarray] | None = None,
    probing: bool = True,
    moved: AbstractContextManager | None = None,
    again: int = 0,
) -> Session:
    """Run every case of a job in one precision, and write the log with its sidecar.

    forced     the discrete choices to go on with, instead of this run's own
    reference  teacher forcing: the reference's values
    probing    whether every module's inputs and outputs are logged, beside what the step logs
    again      the number of a repeated run, from a start beside this one's
    moved      float32's rounding is put into the operators (common/sides/noise_in_torch.py)
    """
    request, start = job.request, time.perf_counter()
    fed = request.teacher_forced or TeacherForced()
    log, ran = LogWriter(path, **_kept(job, path), places=forced), _Ran()
    watching = _watching(job, dtype, reference is not None)
    widening = upcasting(dtype == "float64")
    computing = job.side.half_precision(dtype, request.device)
    with log as writer, widening as upcast, watching as noted, computing as kernels:
        session = Session(request.seed, record=writer.add, forced=forced, reference=reference)
        session.selection = selection = Selection(request.probes, request.no_probe)
        alike = isinstance(request.task, ForcedAlike)
        session.partly = fed.free or alike or fed.feed is not None or selection.is_partial
        session.probing, session.moved = probing, moved
        if not job.is_reference:
            session.tables = sidecar_of(job.files.log(job.stem, "torch", RunKind.FLOAT64)).tables
        session.is_graph = is_graph(job.backend) and reference is None and moved is None
        for case in job.cases:
            _run_case(job, case, dtype, session, writer, again, ran)
    session.choices |= writer.places
    sidecar = Sidecar(
        **_of_job(job),
        **_of_seen(session.seen, writer.places),
        **ran.notes,
        step=LogName.parse(path.name).stem,
        dtype=dtype,
        modes=ran.modes,
        inputs_sha256=arrays_sha256(ran.inputs),
        weights_sha256=job.states.sha256(ran.states),
        log_sha256=writer.sha256,
        teacher_forced=reference is not None and not fed.free,
        batches=ran.batches,
        upcast={_shortened(place): calls for place, calls in upcast.items()},
        kernels=kernels,
        autocast=request.autocast and dtype in HALF,
        **noted,
        exact=fed.exact,
        not_run={_shortened(file): lines for file, lines in lines_run.not_run().items()},
        sums=writer.sums,
        booleans=writer.booleans,
        elapsed_s=round(time.perf_counter() - start, 3),
    )
    write_sidecar(path, replace(sidecar, seal=seal(sidecar)))
    for stem, arrays in ran.extra.items():
        _write_small(ResultFolder(path.parent).log(stem, job.slot), stem, arrays, sidecar)
    return session


def _write_small(path: Path, stem: str, arrays: Mapping[str, np.ndarray], sidecar: Sidecar) -> None:
    """Write a further log of what the same run has found."""
    with LogWriter(path) as writer:
        for key, values in arrays.items():
            writer.add(key, values)
    sidecar = replace(sidecar, step=stem, log_sha256=writer.sha256)
    write_sidecar(path, replace(sidecar, seal=seal(sidecar)))


def _watching(job: Job, dtype: str, fed: bool) -> AbstractContextManager:
    """Treat Paddle's inexact operators as a run needs, which may be fed the reference's values.

    Say also whether those that torch computes are counted.
    """
    if job.transplant:
        job.transplant.compare = dtype != "float64" and not fed and not job.request.uncounted
    if job.exact and dtype == "float64" and not fed and job.request.backends != SIDES:
        return job.exact.doing("upcast")  # inside a graph it cannot be shown by a further run
    if job.exact and fed:
        teacher_forced = job.request.teacher_forced or TeacherForced()
        return job.exact.doing("upcast" if teacher_forced.exact else "watch")
    if job.exact and dtype == "float64" and job.may_sum and any(map(job.is_large, job.cases)):
        return job.exact.doing("upcast")  # to show it by three more runs would be dear
    return nullcontext({})


def _run_case(job: Job, case: Case, dtype: str, session: Session, writer, again, ran: _Ran):
    """Run and log one case, unless it is one for train mode that need not run."""
    request, seed, name = job.request, job.request.seed + case.seed, case.name or "main"
    job.side.set_up(stored(dtype, request), request.device, seed)
    session.tape = Tape(seed)
    session.draws = Draws(partial(_listed_by_reference, job, name, "draws"))
    listed = partial(_listed_by_reference, job, name, "dropouts")
    session.dropouts = Dropouts(listed, job.dropouts, name)
    session.begin(prefix=f"{case.name}/" if case.name else "")
    run = Run(job, case, dtype, session, writer, again)
    run.progress(name)
    with using(session):
        added = case.like is not None and not (request.cases or request.in_train)
        if case.edges:
            runs, run.notes["varied"] = edges.choose(run)
            if not runs:
                ran.notes.setdefault("varied", {})[name] = run.notes["varied"]
                return
        why_not = why_not_run(run) if added and not case.edges else ""
        ran.modes[name] = why_not or (TRAIN if case.train else EVAL)
        if why_not:
            return
        with session.moved or nullcontext():
            job.function(run)
    session.dropouts.begin()  # the last pass has ended
    ran.inputs |= {run.prefix + key: values for key, values in run.inputs.items()}
    ran.batches[run.prefix] = next((v.shape[0] for v in run.inputs.values() if v.ndim), None)
    ran.states |= {run.prefix + key: values for key, values in run.start().items()}
    ran.extra |= run.extra
    for what in ("draws", "dropouts"):
        drawn = getattr(session, what).listed(_shortened)
        if drawn:
            run.notes[what] = drawn
    for key, value in run.notes.items():
        ran.notes.setdefault(key, {})[name] = value


def _of_job(job: Job) -> dict[str, object]:
    """Return the sidecar's entries on who made a log, and on what was asked for."""
    side, pair, request = job.side, job.pair, job.request
    packages = imported_packages(pair, job.slot)  # of the pair's files, such as transformers
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in packages}
    other = ("torch",) if torch_is_paddle() else ()  # which is only Paddle's name
    environment = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "numpy": np.__version__,
        "platform": platform.platform(),
        **{name: version for name, version in versions.items() if isinstance(version, str)},
        **{name: os.environ[name] for name in SETTINGS if name in os.environ},
        **(side.of_gpu() if request.device == "gpu" else {}),
    }
    return dict(
        schema=SCHEMA,
        model=pair.name,
        side=job.slot,
        framework=side.NAME,
        framework_version=side.VERSION,
        framework_file=str(side.FILE),
        frameworks_loaded=[name for name in SIDES if name in sys.modules and name not in other],
        framework_kernels=kernels(),
        torch_is_paddle=bool(other),
        device=request.device,
        preset=request.preset,
        built_in=pair.built_in,
        against=request.against if request.backends != SIDES else None,
        candidate=request.candidate if request.backends != SIDES else None,
        seed=request.seed,
        mode=request.mode,
        weights=request.weights or "initial",
        sources=model_sources(pair, job.slot),
        workbench_sha256=workbench_sha256(pair, job.slot, job.module),
        environment=environment,
        command=f"{sys.executable} -m {_to_run(job)} {job.request_file}",
        time=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        cases=list(request.cases),
        probes=list(request.probes),
        no_probe=request.no_probe,
        transplanted=job.transplant.names if job.transplant else [],
        operators=job.transplant.take_counts() if job.transplant else {},
    )


def _to_run(job: Job) -> str:
    """Return what `python -m` runs: the side's script, or the first one with a shared script."""
    own = f".{job.side.NAME}." in job.module
    words = job.module if own else f"{FIRST.format(job.side.NAME)} {job.module}"
    return words.removeprefix("twincheck.")


def _of_seen(seen: Seen, kept: Mapping[str, np.ndarray]) -> dict[str, object]:
    """Return the sidecar's entries on what the run has seen.

    kept   of the log's writer: which scores it has kept of a choice
    """
    for choice, parts in seen.choices.items():
        if f"{choice}{PLACES}" in kept:
            parts["places"] = f"{choice}{PLACES}"
    return vars(seen) | dict(
        places={key: _shortened(place) for key, place in seen.places.items()},
        classes={key: name for key, name in seen.classes.items() if name},
        made={layer: _shortened(lines[0][0]) for layer, lines in seen.made.items() if lines},
        handed={
            layer: [{"line": _shortened(line), "given": given} for line, given in lines]
            for layer, lines in map(partial(_handed, seen.settings), seen.made.items())
            if len(lines) > 1
        },
        idle={site: _shortened(place) for site, place in seen.idle.items()},
        tables={digest: _shortened(place) for digest, place in seen.tables.items()},
    )


def _handed(settings, made: tuple[str, list]) -> tuple[str, list]:
    """A layer and the lines that led to it, out to the first that was given no setting of it."""
    layer, lines = made
    values = set(settings[layer].values())
    others = (i for i, (_, given) in enumerate(lines) if values.isdisjoint(given.values()))
    return layer, lines[: next(others, len(lines)) + 1]


def _kept(job: Job, path: Path) -> dict[str, object]:
    """Return the writer's arguments that say which tensors stay whole in a log.

    The first of the reference's logs decides for the logs of all other runs.
    """
    keep, files = job.request.keep, job.files
    if keep == "all" or isinstance(job.request.task, Whole | Traced) or not job.may_sum:
        return {}
    if keep == "rows":
        return {"summing": True}
    for run in (RunKind.FLOAT64, RunKind.PLAIN):
        first = files.log(job.stem, "torch", run)
        if first != path and first.is_file():
            told = sidecar_of(first)
            return {"summing": bool(told.sums) or bool(places_of_scores(told))}
    return {"limit": MOST_BYTES, "summing": any(map(job.is_large, job.cases))}


def _shortened(place: str) -> str:
    return short_place(place, str(ROOT))


def _listed_by_reference(job: Job, case: str, what: str) -> Groups:
    """The torch model's `draws` or `dropouts` in a case, as its logs say; nothing for itself.

    A whole training lists none: those of its first steps, under another stem, stand for them.
    """
    if job.is_reference:
        return ()
    files = job.files
    logs = [files.log(job.stem, "torch", run) for run in (RunKind.FLOAT64, RunKind.PLAIN)]
    logs += [path for path, name in files.logs() if name.side == "torch"]
    for log in logs:
        listed = getattr(sidecar_of(log), what)
        if listed:
            return listed.get(case) or next(iter(listed.values()))
    return ()
