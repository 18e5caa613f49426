"""A step's run of one case with its operators taken down, and of them those behind an origin.

The request's folder has wanted.json: step, the module ({} in place of the side) and the function of
a step's side; origins, rows' keys, or of gradients the values that they are taken at, of which the
first that a tensor has is the origin; gradient; given, keys of what agrees; lost, those of values
whose gradient a side lacks.
"""

import importlib
from functools import partial

import numpy as np

from twincheck.common.logs.key import BUFFER, Key
from twincheck.common.logs.of_a_run import STATISTICS
from twincheck.common.system.json_file import load_json
from twincheck.extras.issue.tape import Recorder, behind, part
from twincheck.extras.shared.one_case import asked_precision

STEM = "issue"
WANTED = "wanted.json"
ORIGIN, TARGET, FURTHER = "origin", "target ", "further "  # how marks begin


def take(run) -> None:
    """Run it, and leave the tape beside the log."""
    side, told = run.side, load_json(run.folder / WANTED)
    heard = importlib.import_module(f"twincheck.common.sides.calls_in_{side.NAME}").heard
    module = importlib.import_module(told["step"][0])
    recorder, built = Recorder(side, told["gradient"]), []

    def unseen(function, *words, **more):
        with recorder.pause():
            built.append(function(*words, **more))
        return built[-1]

    run.build, run.construct = (partial(unseen, one) for one in (run.build, run.construct))
    log, record = run.log, run.session.record

    def logged(key, values, *words, **more):
        recorder.mark(run.prefix + key, values)
        with recorder.pause():
            log(key, values, *words, **more)

    def recorded(key, values, **more):
        parts = Key.parse(key)
        if parts.kind == BUFFER or parts.local.lstrip(":") in STATISTICS:
            with recorder.pause():  # a side may call it otherwise: it is known by its values
                tensors = (v for model in built for v in (*model.parameters(), *model.buffers()))
                same = (v for v in tensors if np.array_equal(side.view(v), values))
                recorder.mark(key, next(same, None))
        record(key, values, **more)

    run.log, run.session.record = logged, recorded
    with recorder.at_probes(), heard(recorder.hear):
        getattr(module, told["step"][1])(run)
    with recorder.pause():
        for model in built:
            prefix = run.prefix
            recorder.name(
                (f"{prefix}{run.session.rename(n)}", v) for n, v in model.named_parameters()
            )
        origin = next((key for key in told["origins"] if key in recorder.tape.marks), None)
        if origin is not None:  # it is of one of the cases
            _cut(recorder, origin, told)
            recorder.tape.write(run.folder / f"tape_{side.NAME}")


def _cut(recorder: Recorder, origin: str, told: dict) -> None:
    """Leave of a tape what leads to the origin, with the arrays of all of it."""
    tape = recorder.tape
    marks = dict(tape.marks)
    given, lost = ({marks[key] for key in told[name] if key in marks} for name in ("given", "lost"))
    # Of what is changed in place it is not known when it agreed.
    given -= {n for one in tape.operators for n in one.changes}
    start = marks[origin]
    first, further = [start], []
    if told["gradient"]:
        given.discard(start)
        first, further = behind(tape.operators, start, given)
    targets = {*first, *further}
    tape.operators = part(tape.operators, targets | {start}, given - targets - lost - {start})
    used = {n for one in tape.operators for n in (*one.uses, *one.made, *one.changes)}
    used |= targets | {start}
    tape.marks = {key: n for key, n in tape.marks.items() if n in used}
    if not given.issuperset(first):  # the last that is computed at all, under no name
        tape.marks[TARGET] = first[0]
    for head, numbers in ((TARGET, first), (FURTHER, further)):
        tape.marks |= {head + key: n for key, n in marks.items() if n in numbers}
    tape.marks[ORIGIN] = start
    recorder.finished(used, targets | {start})


SCRIPT = {"stem": STEM, "function": take, "dtypes": asked_precision}
