"""One log with its sidecar: every case of a model in one precision."""

import importlib
import os
import platform
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from common.logs.draws import Groups
from common.logs.key import PLACES
from common.logs.result_folder import FLOAT32, FLOAT64, LogName, ResultFolder
from common.logs.sidecar import (
    SCHEMA,
    Sidecar,
    places_of_scores,
    read_sidecar,
    seal,
    write_sidecar,
)
from common.logs.writer import LogWriter
from common.pair.pairs import EVAL, TRAIN
from common.pair.provenance import imported_packages, model_sources, workbench_sha256
from common.pair.tape import Tape
from common.pair.task import ForcedAlike, TeacherForced, Whole
from common.sides.compat import frameworks_loaded, torch_is_paddle
from common.sides.draws import Draws, Dropouts
from common.sides.job import Job
from common.sides.modes import why_not_run
from common.sides.places import short_place
from common.sides.run import Run, stored
from common.sides.selection import Selection
from common.sides.session import Session, using
from common.sides.upcast import upcasting
from common.system.checkout import ROOT
from common.system.errors import UserError
from common.system.frameworks import SETTINGS
from common.system.half import HALF
from common.system.hashes import arrays_sha256
from common.weights.layers import count_values
from common.weights.states import load_owners

# Of the reference's float64 log, the first to be written: a step of a model has four, which come to
# three times that, and at most two of teacher-forced runs.
MOST_BYTES = 10**8


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
    side, pair, request = job.side, job.pair, job.request
    fed = request.teacher_forced or TeacherForced()
    start = time.perf_counter()
    notes: dict[str, object] = {}
    if job.transplant:
        counted = dtype != "float64" and reference is None and not request.uncounted
        job.transplant.compare = counted
    inputs: dict[str, np.ndarray] = {}
    states: Mapping[str, np.ndarray] = {}
    batches: dict[str, int | None] = {}
    extra: dict[str, dict[str, np.ndarray]] = {}
    modes: dict[str, str] = {}
    selection = Selection(request.probes, request.no_probe)
    watching = nullcontext({})
    if job.exact and reference is not None:
        watching = job.exact.doing("upcast" if fed.exact else "watch")
        notes["exact"] = fed.exact
    elif job.exact and dtype == "float64" and job.may_sum and is_large(job):
        watching = job.exact.doing("upcast")  # to show it by three more runs would be dear
    half = importlib.import_module(f"common.sides.half_in_{side.NAME}")
    log = LogWriter(path, **_kept(job, path), places=forced)
    widening = upcasting(dtype == "float64")
    computing = half.computing(dtype, request.device)
    with log as writer, widening as upcast, watching as inexact, computing as kernels:
        session = Session(
            request.seed,
            record=writer.add,
            forced=forced,
            reference=reference,
            partly=fed.free
            or isinstance(request.task, ForcedAlike)
            or fed.feed is not None
            or selection.is_partial,
        )
        session.probing, session.selection = probing, selection
        session.moved = moved
        for case in job.cases:
            side.set_up(stored(dtype, request), request.device, request.seed + case.seed)
            session.tape = Tape(request.seed + case.seed)
            name = case.name or "main"
            session.draws = Draws(partial(_listed_by_reference, job, name, "draws"))
            session.dropouts = Dropouts(
                partial(_listed_by_reference, job, name, "dropouts"), job.dropouts, name
            )
            session.begin(prefix=f"{case.name}/" if case.name else "")
            run = Run(job, case, dtype, session, writer, again)
            run.progress(name)
            with using(session):
                added = case.like is not None and not request.cases
                modes[name] = why_not_run(run) if added else ""
                if modes[name]:
                    continue
                with moved or nullcontext():
                    job.function(run)
            session.dropouts.begin()  # the last pass has ended
            inputs |= {run.prefix + key: values for key, values in run.inputs.items()}
            batches[run.prefix] = run.batch
            if request.offload:  # one case, whose arrays nobody holds
                states = run.start()
            else:
                states |= {run.prefix + key: values for key, values in run.start().items()}
            extra |= run.extra
            for what in ("draws", "dropouts"):
                drawn = getattr(session, what).listed(_shortened)
                if drawn:
                    run.notes[what] = drawn
            for key, value in run.notes.items():
                notes.setdefault(key, {})[name] = value
    for case in job.cases:
        modes[case.name or "main"] = modes[case.name or "main"] or (TRAIN if case.train else EVAL)
    if request.cases:
        notes["cases"] = list(request.cases)
    if selection.is_partial:
        notes |= {"probes": list(request.probes), "no_probe": request.no_probe}
    if job.transplant:
        notes["transplanted"] = job.transplant.names
        notes["operators"] = job.transplant.take_counts()
    if upcast:
        notes["upcast"] = {_shortened(place): calls for place, calls in upcast.items()}
    if dtype in HALF:
        notes |= {"computed": session.computed, "kernels": kernels, "autocast": request.autocast}
    notes["inexact"] = inexact
    session.choices |= writer.places
    for choice, parts in session.ledger.items():
        places = f"{choice}{PLACES}"
        if places in writer.places:
            parts["places"] = places
    sidecar = Sidecar(
        schema=SCHEMA,
        step=LogName.parse(path.name).stem,
        model=pair.name,
        side=side.NAME,
        framework=side.NAME,
        framework_version=side.VERSION,
        framework_file=str(side.FILE),
        frameworks_loaded=frameworks_loaded(),
        torch_is_paddle=torch_is_paddle(),
        device=request.device,
        dtype=dtype,
        preset=request.preset,
        built_in=pair.built_in,
        seed=request.seed,
        mode=request.mode,
        modes=modes,
        weights=request.weights or "initial",
        sources=model_sources(pair, side.NAME),
        workbench_sha256=workbench_sha256(pair, side.NAME, _folder_of_scripts(side.NAME)),
        inputs_sha256=arrays_sha256(inputs),
        weights_sha256=job.states.sha256(states),
        log_sha256=writer.sha256,
        forced_choices=forced is not None,
        flips=session.flips,
        choices=session.ledger,
        teacher_forced=reference is not None and not fed.free,
        batches=batches,
        modules=session.modules,
        sums=writer.sums,
        booleans=writer.booleans,
        converted=session.converted,
        places={key: _shortened(place) for key, place in session.places.items()},
        classes={key: name for key, name in session.classes.items() if name},
        settings=session.settings,
        made={layer: _shortened(place) for layer, place in session.made.items() if place},
        environment={
            "python": platform.python_version(),
            "executable": sys.executable,
            "numpy": np.__version__,
            "platform": platform.platform(),
            **_libraries(job),
            **{name: os.environ[name] for name in SETTINGS if name in os.environ},
        },
        command=f"{sys.executable} -m {_module_name()} {job.request_file}",
        time=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        elapsed_s=round(time.perf_counter() - start, 3),
        **notes,
    )
    write_sidecar(path, replace(sidecar, seal=seal(sidecar)))
    for stem, arrays in extra.items():
        small = ResultFolder(path.parent).log(stem, side.NAME)
        with LogWriter(small) as writer:
            for key, values in arrays.items():
                writer.add(key, values)
        sidecar = replace(sidecar, step=stem, log_sha256=writer.sha256)
        write_sidecar(small, replace(sidecar, seal=seal(sidecar)))
    return session


def _libraries(job: Job) -> dict[str, str]:
    """Package that the pair's files import -> its version, such as transformers'."""
    packages = imported_packages(job.pair, job.side.NAME)
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in packages}
    return {name: version for name, version in versions.items() if isinstance(version, str)}


def _kept(job: Job, path: Path) -> dict[str, object]:
    """Which tensors stay whole in a log, for its writer.

    The first of the reference's logs decides for the logs of all other runs.
    """
    keep, files = job.request.keep, ResultFolder(job.folder)
    if keep == "all" or isinstance(job.request.task, Whole) or not job.may_sum:
        return {}
    if keep == "rows":
        return {"summing": True}
    for run in (FLOAT64, FLOAT32):
        first = files.log(job.stem, "torch", run)
        if first != path and first.is_file():
            told = read_sidecar(first) or Sidecar()
            return {"summing": bool(told.sums) or bool(places_of_scores(told))}
    return {"limit": MOST_BYTES, "summing": is_large(job)}


def is_large(job: Job) -> bool:
    """True for a model of so many weights that a log of its optimizer steps would be too large."""
    return max(_weights(job), default=0) > job.request.given_gradients_above


def refuse_full_disk(job: Job) -> None:
    """Raise UserError where the logs of a large model will not fit, before any is written."""
    counts = _weights(job)
    if not (job.may_sum and is_large(job)):
        return
    needed = MOST_BYTES * 5
    if job.request.keep == "all":
        # Two float64 logs and two of half their size; each case logs its weights' gradients.
        needed = 3 * 8 * (sum(counts) + job.per_weight * counts[0])
    free = shutil.disk_usage(job.folder).free
    if free < needed:
        less = "" if job.request.keep != "all" else ", or leave --keep all away"
        raise UserError(
            f"the logs of {job.pair.name} may come to {needed / 1e9:.1f} GB, and "
            f"{free / 1e9:.1f} GB are free where they are written: free some{less}, or write them "
            "elsewhere with --out DIR"
        )


def _weights(job: Job) -> list[int]:
    """How many values the weights of each case have, those that are stored."""
    stored = [ResultFolder(job.folder).weights(case.start) for case in job.cases]
    owners = [load_owners(path) for path in stored if path.with_suffix(".json").is_file()]
    return [count_values(each) for each in owners]


def _shortened(place: str) -> str:
    return short_place(place, str(ROOT))


def _listed_by_reference(job: Job, case: str, what: str) -> Groups:
    """The torch model's `draws` or `dropouts` in a case, as its logs say; nothing for itself.

    A whole training lists none: those of its first steps, under another stem, stand for them.
    """
    if job.side.NAME == "torch":
        return ()
    files = ResultFolder(job.folder)
    logs = [files.log(job.stem, "torch", run) for run in (FLOAT64, FLOAT32)]
    logs += [path for path, name in files.logs() if name.side == "torch"]
    for log in logs:
        listed = getattr(read_sidecar(log) or Sidecar(), what)
        if listed:
            return listed.get(case) or next(iter(listed.values()))
    return ()


def _folder_of_scripts(side: str) -> str:
    """The folder that the running script of a side is in, such as step1_forward."""
    return _module_name().partition(f".{side}.")[0].replace(".", "/")


def _module_name() -> str:
    """The dotted name of the script that is running, such as step1_forward.torch.forward."""
    script = sys.modules["__main__"]
    if getattr(script, "__spec__", None):
        return script.__spec__.name
    path = Path(sys.argv[0]).resolve()  # it was run by its path
    if path.is_relative_to(ROOT):
        return ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return path.name
