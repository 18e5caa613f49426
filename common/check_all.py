"""Steps 1 to 5 of a pair, or of every built-in model: one table, one exit status.

twincheck check [DIR …] [--json FILE] [--out DIR]

Every row is in log/report.json, in short where it agrees, or in full in FILE; a page to open in a
browser is log/report.html, and the logs are in stepN_*/log (or DIR).  All of it that somebody needs
who is to believe it is in log/bundle.zip (extras/bundle).
"""

import importlib
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from twincheck.common.check.command_line import write_page
from twincheck.common.check.options import OF_EVERY_CHECK, CheckOptions, Parser, of
from twincheck.common.check.report_json import json_text, told_in
from twincheck.common.check.result import Result, overall_exit
from twincheck.common.check.runner import run_step
from twincheck.common.check.steps import Step
from twincheck.common.check.workers import Processes
from twincheck.common.pair.pairs import load_pairs
from twincheck.common.report import terminal as report
from twincheck.common.report.commands import whole
from twincheck.common.report.summary import last_line
from twincheck.common.system import extras
from twincheck.common.system.checkout import ROOT, for_logs
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.files import write_text
from twincheck.common.system.program import guarded
from twincheck.common.system.reasons import Kind
from twincheck.common.system.signals import Beside

# What extras do when all steps were judged: functions of the results, the options and log/.
_ADDED = "twincheck.after_check_all"


def all_steps() -> list[Step]:
    """The five steps, each from its own folder."""
    paths = sorted(ROOT.glob("step*/step.py"))
    return [importlib.import_module(f"twincheck.{path.parent.name}.step").STEP for path in paths]


@of_pairs("--out")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run every step and show the table; returns the exit status."""
    return show_steps(__doc__, "check", _run_all, arguments)


def show_steps(
    doc: str, command: str, run: Callable, arguments: Sequence[str] | None = None
) -> int:
    """Parse a command line for all steps, and show what `run` gives; returns the exit status."""
    parser = Parser(doc, command)
    parser.take(*OF_EVERY_CHECK, *of("reference"), "mode", *of("data", "training"))
    given = parser.parse_args(arguments)
    how = CheckOptions.of(given), given.json, whole(command, given.typed), run
    return guarded(given.debug, lambda: check_all(all_steps(), *how))


def check_all(
    steps: Sequence[Step],
    options: CheckOptions,
    json_path: Path | None,
    command: str,
    run: Callable,
) -> int:
    """Have results made, show them, write the page and what extras add; returns the exit status.

    run   called with the steps, the options and on_progress, gives their results
    """
    with told_in(json_path), report.progress() as on_progress:
        results = run(steps, options, on_progress)
    report.show_all(steps, results)
    folder = options.out or for_logs() / "log"
    page = None
    if not options.no_report:
        page = write_page(folder, results, command, _named(results))
    left_out = _left_out(steps, options, results)
    summary = str(last_line(results, page, left_out, says_next=False))
    written = json_path or folder / "report.json"
    write_text(written, json_text(results, short=json_path is None, summary=summary))
    for add in extras.load_all(_ADDED):
        add(results, options, folder)
    report.say(last_line(results, page, left_out))
    return overall_exit(results)


def _named(results: Sequence[Result]) -> str:
    """Return what the page calls these results: all steps, or the numbers of some."""
    numbers = sorted({result.step.number for result in results})
    if len(numbers) == len(all_steps()):
        return Kind.STEPS_ALL()
    some = Kind.STEPS_SOME if len(numbers) > 1 else Kind.STEP_ONE
    return some(numbers=list(map(str, numbers)))


def _left_out(
    steps: Sequence[Step], options: CheckOptions, results: Sequence[Result]
) -> dict[int, str]:
    """Number -> why, of the steps that a model has nothing for."""
    ran = {(result.step.number, result.model) for result in results}
    pairs = load_pairs(options.models)
    found: dict[int, str] = {}
    for step in steps:
        whys = {p.name: step.why_not(p) for p in pairs if (step.number, p.name) not in ran}
        for name, why in whys.items():
            if why:
                own = Kind.LEFT_OUT_OF_MODEL(model=name, why=why)
                found[step.number] = why if len(pairs) == 1 else own
    return found


def _run_all(steps: Sequence[Step], options: CheckOptions, on_progress) -> list[Result]:
    """Run every step, by the same processes.

    The longest steps of built-in models go on beside the others, which leave cores idle while they
    judge; memory that holds two models of somebody else's is not taken for granted.
    """

    def results_of(some: Sequence[Step], on_progress) -> list[Result]:
        found = []
        with Processes() as processes:
            for step in some:
                models = tuple(pair.model for pair in pairs if not step.why_not(pair))
                of_step = replace(options.taken_by(step.takes), models=models)
                found += run_step(step, of_step, on_progress, processes) if models else []
        return found

    pairs = load_pairs(options.models)
    small = all(pair.built_in for pair in pairs)
    if not small or options.compare_only or options.run.device != "cpu":
        return results_of(steps, on_progress)
    finished = threading.Event()

    def when_alone(text: str, share: float | None = None) -> None:
        if finished.is_set():
            on_progress(text, share)

    longest = [step for step in steps if step.optimizers or step.trains]
    with ExitStack() as stack:
        beside = [Beside(partial(results_of, [step], when_alone)) for step in longest]
        for one in beside:
            stack.enter_context(one)
        results = results_of([step for step in steps if step not in longest], on_progress)
        finished.set()
        return sum((one.result() for one in beside), results)
