"""One step from end to end: both sides run, or logs that are there; judged; put in their place.

Running, judging and reporting are three things: workers run (workers.py), judging reads logs and
starts nothing (verdict/), and so reports reprod_log (report/guide_report.py).
What one needs of the other is decided here, such as whether a teacher-forced run is wanted.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from twincheck.common.check.further import Further
from twincheck.common.check.inputs import Inputs
from twincheck.common.check.options import CheckOptions
from twincheck.common.check.record import write_record
from twincheck.common.check.result import Result, port_alone_changes, refuse_unfit, shown
from twincheck.common.check.steps import Step
from twincheck.common.check.unfinished import Unfinished
from twincheck.common.check.workers import Processes, Workers
from twincheck.common.logs.guide_pair import bring_pair, has_pair
from twincheck.common.logs.result_folder import BESIDE, ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.case_hooks import data_preset
from twincheck.common.pair.pairs import Pair, chosen_cases, is_checkpoint, load_pairs, python_for
from twincheck.common.report.guide_report import guide_report
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import load
from twincheck.common.system.files import link_or_copy, write_text
from twincheck.common.system.folders import put_in_place, remove_abandoned, version, working_folder
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.half import HALF
from twincheck.common.system.reasons import Kind, renamed
from twincheck.common.system.words import call_sides
from twincheck.common.transplant.table import SMALLEST, TRANSPLANTS
from twincheck.common.verdict.judge import judge_folder
from twincheck.common.verdict.needs import NAMES, together


def base_folder(step: Step, options: CheckOptions) -> Path:
    """The folder of a step's results, in which each model has its own."""
    base = (options.out.absolute() / step.name) if options.out else step.folder / "log"
    return base / step.other  # itself, where there is no other


def run_step(
    step: Step, options: CheckOptions, on_progress, processes: Processes | None = None
) -> list[Result]:
    """Run both sides of a step (unless --compare-only), judge, and put the logs in their place.

    processes   of other steps, which go on with this one; by default new ones, which end with it
    """
    pairs = load_pairs(options.models, options.run.backends)
    call_sides(options.run.backends)
    base = base_folder(step, options)
    _check_transplant(step, options)
    if step.trains and options.run.dtype in HALF and not options.run.autocast:
        what = {"dtype": options.run.dtype, "step": step.number}
        raise UserError(Kind.HALF_TRAINING_WITHOUT_AUTOCAST(**what))
    options.refuse_contradictions()
    if options.compare_only:
        remove_abandoned(base)
        return [_judge_in_place(step, p, base / p.name, options) for p in pairs]
    run = options.run
    for pair in pairs:
        pair.config(data_preset(pair, run.preset) if step.data else run.preset)
        if run.cases and not is_checkpoint(run.weights):  # its case is known later
            chosen_cases(pair.cases(run.preset, run.weights, run.modes, step.decodes), run.cases)
    _refuse_unnameable([ROOT, base, *(pair.folder for pair in pairs)])
    needed = [side for side in SIDES if side == "paddle" or not options.reference]
    pythons = {}
    for side in needed:
        framework = run.framework(side)
        pythons[side] = python_for(framework, options.pythons.get(framework), pairs)
    base.mkdir(parents=True, exist_ok=True)
    remove_abandoned(base)
    with working_folder(base) as work, ExitStack() as stack:
        unfinished = stack.enter_context(Unfinished(base, work, run.resume))
        processes = processes or stack.enter_context(Processes())
        inputs = Inputs(step, options, pythons, work, on_progress, unfinished)
        # A second thread costs a model this small more than it brings.
        small = run.preset == "default" and all(pair.built_in for pair in pairs)
        with Workers(inputs, processes, 1 if small else None) as workers:
            workers.start()
            pairs = inputs.bring(pairs, base)
            done = workers.finished(pairs)
            return [_conclude(step, p, base, options, workers) for p in done]


def _conclude(
    step: Step,
    pair: Pair,
    base: Path,
    options: CheckOptions,
    workers: Workers,
) -> Result:
    """Judge what the workers made for a model, and put it in its place; or keep why they failed."""
    made, error_file = workers.work / pair.name, base / f"{pair.name}.error.txt"
    failure = workers.inputs.errors.get(pair.name)
    if failure is not None:
        sentence = failure.sentence
        with suppress(UserError):  # the same full disk, as like as not
            write_text(error_file, failure.traceback)
            sentence = Kind.WORKER_FAILED(why=sentence, file=shown(error_file))
        return replace(_result(step, pair, options), error=sentence, failure=failure)
    cars = (sidecar_of(ResultFolder(made).log(step.judged[0], side)) for side in SIDES)
    if "torch" in workers.pythons and port_alone_changes(*cars):  # by rounding, or not
        if failed := workers.go_on(pair, {"in_train": True}):
            return replace(_result(step, pair, options), error=failed.sentence, failure=failed)
    workers.on_progress(Kind.JUDGING_MODEL(step=step.number, model=pair.name))
    result = judge_model(step, pair, made, options, workers)
    while step.undecided is not None and (more := step.undecided(result, made)):
        failed = workers.go_on(pair, more)
        if failed:
            result.notes.append(Kind.TRAINING_NOT_DECIDED(why=failed.sentence))
            break
        result = judge_model(step, pair, made, options, workers)
    result.folder = base / pair.name
    result.elapsed_s += workers.elapsed_s(pair.name)
    result.notes += workers.inputs.notes[pair.name]
    if result.error:  # nothing was compared: the former result stays
        result.error = renamed(result.error, shown(made), Kind.NEW_LOGS())
        return result
    if options.run.transplant == SMALLEST:
        green = result.exit_code == 0
        judge = partial(judge_model, step, pair, options=options)
        search = load(TRANSPLANTS, SMALLEST)  # starts many runs of Paddle
        found = search(workers, step, pair, green, lambda folder: judge(folder).exit_code)
        result.notes += found.notes()
    for name in BESIDE:  # what other commands have left of this model stays
        if (result.folder / name).is_file():
            link_or_copy(result.folder / name, made / name)
    write_record(made, result, options, pair)
    put_in_place(made, result.folder)
    workers.inputs.unfinished.forget(pair)
    error_file.unlink(missing_ok=True)
    return result


def _judge_in_place(step: Step, pair: Pair, folder: Path, options: CheckOptions) -> Result:
    """Judge a result that is there: once more where another check has put a newer one in."""
    for _ in range(5):
        before = version(folder)
        if before is None:
            time.sleep(0.1)  # the moment between a former result and the next
            before = version(folder)
        result = judge_model(step, pair, folder, options)
        if version(folder) == before:
            break
    result.folder = folder
    if not result.error:
        with suppress(OSError, UserError):  # logs of somebody else's can be judged too
            write_record(folder, result, options, pair)
    return result


def judge_model(
    step: Step,
    pair: Pair,
    folder: Path,
    options: CheckOptions,
    workers: Workers | None = None,
) -> Result:
    """Judge one model's logs of one step; an unreadable or refused log is the result's error.

    workers  those that have just made the logs: they can be asked for a teacher-forced run
    """
    start = time.perf_counter()
    result = _result(step, pair, options)
    files = ResultFolder(folder)
    try:
        brought = ("torch",) if workers and pair.name in workers.inputs.brought else ()
        fresh = [side for side in SIDES if workers and side not in brought]
        refuse_unfit(step, pair, folder, options.run, fresh, not options.compare_only)
        compared = step.guide_stem
        if has_pair(compared) and not bring_pair(folder, compared, not options.compare_only):
            compared = ""
            result.notes.append(Kind.GUIDE_VALUES_MISSING(stem=step.guide_stem))
        judged = (folder, step.judged, result.memos)
        how = {"step": step.number, "model": pair.name, "strict": options.strict}
        how["allow_nan"] = "nan" in options.allow
        further = Further(workers, pair, folder, result.notes) if workers else None
        while True:
            obtainable = further.obtainable if further else ()
            judgements = judge_folder(*judged, obtainable=obtainable, **how)
            if further is None or not further.got(judgements):
                break
        if further is not None:
            if not (options.strict or pair.built_in):
                further.prove(judgements)
            further.find_lines(judgements)
            further.close()
            result.way = further.way
        else:  # nothing runs here
            needs = together(one.needs for one in judgements.values()).items()
            result.way = [Kind.RUN_WANTED(run=NAMES[run](), key=need.key) for run, need in needs]
        result.take(judgements, folder, pair)
        if compared and not options.no_report:
            logs, report = [files.log(compared, side) for side in SIDES], files.diff_log(compared)
            limit, pair_alone = step.guide_threshold, has_pair(compared)
            result.take_report(guide_report(*logs, limit, report, every=pair_alone), report)
    except UserError as error:
        result.error = str(error)
    except OSError as error:
        file = str(error.filename or shown(folder))
        result.error = Kind.FILE_FAILED(file=file, error=error.strerror or str(error))
    result.elapsed_s = time.perf_counter() - start
    return result


def _result(step: Step, pair: Pair, options: CheckOptions) -> Result:
    """Return the result in which nothing is found so far."""
    folder = "" if pair.built_in else str(pair.folder)
    allow = tuple(word.upper() for word in options.allow)
    result = Result(step, pair.name, folder, allow=allow, typed=options.typed)
    if pair.backends != SIDES:
        torch, paddle = (
            f"`{b}` ({pair.file(s)})" for b, s in zip(pair.backends, SIDES, strict=True)
        )
        result.notes.append(Kind.SIDES_ARE_CALLED(torch=torch, paddle=paddle))
    return result


def _check_transplant(step: Step, options: CheckOptions) -> None:
    """Raise UserError for operators that are not known, or that this run cannot use."""
    wanted = options.run.transplant
    if not wanted:
        return
    if options.run.backends != SIDES:
        raise UserError(Kind.TRANSPLANT_WITH_AGAINST())
    load(TRANSPLANTS, "transplant")  # what came of it is said by the extra: never without
    load(TRANSPLANTS, "chosen")(wanted)
    if options.compare_only:
        raise UserError(Kind.TRANSPLANT_WITH_COMPARE_ONLY())
    if wanted == SMALLEST and step.data:
        raise UserError(Kind.SMALLEST_IN_OTHER_STEPS())
    if wanted == SMALLEST and (options.run.probes or options.run.no_probe):
        given = "--no-probe" if options.run.no_probe else "--probe"
        raise UserError(Kind.SMALLEST_LOOKS_EVERYWHERE(option=given))


def _refuse_unnameable(folders: Sequence[Path]) -> None:
    """Raise UserError for a path that is no UTF-8: Paddle's process finds no file under it."""
    for folder in folders:
        try:
            str(folder).encode()
        except UnicodeEncodeError:
            raise UserError(Kind.PATH_NOT_UTF8(path=ascii(str(folder)))) from None
