"""The command line of every check: run both twins, judge their logs, show the verdicts.

`check_main` is what check_stepN.py calls; `run_step` does the work for one step.
"""

import argparse
import errno
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from common import report
from common.data import save_arrays
from common.errors import UserError
from common.files import fill_standard_streams, whole
from common.interpreters import two_environments
from common.json_file import load_json
from common.judge import Judgement, judge_logs
from common.logs import read_sidecar
from common.optional import TEXT, data_preset, make_data
from common.pairs import ROOT, Pair, load_pairs
from common.places import put_in_place, remove_abandoned, version, working_folder
from common.provenance import changed_sources
from common.reuse import (
    differing_reference,
    find_reference,
    reference_key,
    take_over,
    why_not_reused,
    write_key,
)
from common.runner import GuideReport, Process, how_it_ended, interpreter
from common.signals import Stopped, stoppable
from common.steps import Step
from common.trust import folder_problems
from common.verdict import Row, exit_code, worst
from common.weights import WORDS

_SIDES = ("torch", "paddle")


@dataclass
class Result:
    """What one step found for one model."""

    step: Step
    model: str
    asked_for: str = ""  # the folder of a user's own pair
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    guide_passed: bool | None = None
    guide_report: str = ""  # the name of reprod_log's own report
    reprod_log: bool | None = None  # what it says
    folder: Path = Path()  # where the logs are
    error: str = ""  # a sentence; the model could not be compared
    places: dict[str, dict[str, str]] = field(default_factory=dict)  # side -> key -> file:line
    elapsed_s: float = 0.0
    allow: tuple[str, ...] = ()  # failing verdicts that the user lets pass

    @property
    def verdict(self) -> str:
        """The worst row's verdict; INVALID where nothing could be compared."""
        return "INVALID" if self.error else worst([row.verdict for row in self.rows])

    @property
    def exit_code(self) -> int:
        """0 aligned, 1 not aligned, 2 could not be compared."""
        if self.error:
            return 2
        return exit_code([row.verdict for row in self.rows], self.allow)

    @property
    def first_diverged(self) -> Row | None:
        """The first row that is not aligned."""
        bad = [r for r in self.rows if exit_code([r.verdict], self.allow) != 0]
        return next((r for r in bad if r.verdict != "CARRIED"), bad[0] if bad else None)


def parser(description: str) -> argparse.ArgumentParser:
    """The options that every check takes."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--model", action="append", metavar="NAME|FOLDER", help="built-in, folder, or all (default)"
    )
    options.add_argument("--preset", default="default", help="of the model's case.py")
    options.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    options.add_argument("--seed", type=_natural, default=0)
    options.add_argument("--weights", help="a torch-named .npz, or trained-like")
    options.add_argument("--out", type=Path, help="write logs to DIR/STEP/MODEL instead")
    options.add_argument(
        "--train", action="store_true", help="steps 1, 3, 4 in train mode, dropout from the tape"
    )
    options.add_argument("--epochs", type=_positive, help="step 5: instead of the preset's number")
    options.add_argument(
        "--reuse", choices=("torch",), help="keep that side's logs while nothing they need changed"
    )
    options.add_argument(
        "--reference", type=Path, metavar="DIR", help="torch logs that somebody else sent"
    )
    options.add_argument("--compare-only", action="store_true", help="judge logs that are there")
    options.add_argument("--allow", action="append", choices=("precision",), default=[])
    options.add_argument("--torch-python", metavar="PATH", help="the Python that runs that side")
    options.add_argument("--paddle-python", metavar="PATH", help="likewise")
    options.add_argument("--json", type=Path, metavar="FILE", help="write every row as JSON")
    options.add_argument(
        "--no-report", action="store_true", help="leave out reprod_log's own report"
    )
    options.add_argument("--debug", action="store_true", help="show tracebacks")
    return options


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1")
    return int(text)


def check_main(step: Step, arguments: Sequence[str] | None = None) -> int:
    """One step for the models asked for; prints the table and returns the exit status."""
    doc = sys.modules["__main__"].__doc__ or ""
    options = parser(doc).parse_args(arguments)
    return guarded(options, lambda: _check(step, options))


def guarded(options: argparse.Namespace, action) -> int:
    """Run a command; whatever goes wrong is one sentence and exit status 2."""
    fill_standard_streams()
    try:
        with stoppable():
            return action()
    except UserError as error:
        report.say_error(str(error))
    except KeyboardInterrupt as error:
        word = f" by {error}" if isinstance(error, Stopped) else ""
        report.say_error(
            f"stopped{word}: what was finished is in its place, all else is as it was before"
        )
    except BrokenPipeError:  # nobody reads on; nor may Python complain of it when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        report.say_error(f"{error.strerror or error}: {error.filename or _no_file(error)}")
    except Exception as error:
        if options.debug:
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        report.say_error(
            f"internal error at {frame.filename}:{frame.lineno}: {type(error).__name__}: {error}; "
            "--debug shows the traceback"
        )
    return 2


def _no_file(error: OSError) -> str:
    """What a system's error that names no file is about."""
    try:
        os.getcwd()
    except OSError:
        return "the folder that this was started in is gone; start it from another"
    if error.errno in (errno.ENOSPC, errno.EIO):
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nor at the end
        return "standard output"
    return "no file named"


def _check(step: Step, options: argparse.Namespace) -> int:
    with report.progress() as on_progress:
        results = run_step(step, options, on_progress)
    report.show_step(step, results)
    if options.json:
        write_json(options.json, results)
    return overall_exit(results)


def overall_exit(results: Sequence[Result]) -> int:
    """The worst exit status of all results; nothing compared is 2."""
    return max((result.exit_code for result in results), default=2)


def write_json(path: Path, results: Sequence[Result]) -> None:
    """Write every row and what they come to as JSON; all or nothing."""
    first = next((r.first_diverged for r in results if r.first_diverged is not None), None)
    guides = [r.guide_passed for r in results if r.guide_passed is not None]
    reports = [r.reprod_log for r in results if r.reprod_log is not None]
    document = {
        "verdict": worst([r.verdict for r in results]),
        "exit_code": overall_exit(results),
        "guide_passed": all(guides) if guides else None,
        "reprod_log": all(reports) if reports else None,
        "first_diverged": first.key if first is not None else None,
        "errors": {r.model: r.error for r in results if r.error},
        "rows": [row.as_json() for result in results for row in result.rows],
    }
    write_text(path, json.dumps(document, indent=1, allow_nan=False))


def write_text(path: Path, text: str) -> None:
    """Write a file all or nothing; raises UserError where its folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as temporary:
            temporary.write_text(text)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None


def run_step(step: Step, options: argparse.Namespace, on_progress) -> list[Result]:
    """Run both sides of a step (unless --compare-only), judge, and put the logs in their place."""
    pairs = load_pairs(options.model or ["all"])
    base = (options.out.absolute() / step.name) if options.out else step.folder / "log"
    alone = [name for name in ("compare_only", "reuse", "reference") if getattr(options, name)]
    if len(alone) > 1:
        told = " and ".join(f"--{name.replace('_', '-')}" for name in alone)
        raise UserError(f"{told} exclude each other: give one of them")
    if options.compare_only:
        remove_abandoned(base)
        results = [_judged_in_place(step, pair, base / pair.name, options) for pair in pairs]
        for result in results:
            result.folder = base / result.model
        return results
    for pair in pairs:
        pair.config(data_preset(pair, options.preset) if step.data else options.preset)
    _refuse_unnameable([ROOT, base, *(pair.folder for pair in pairs)])
    needed = [side for side in _SIDES if side == "paddle" or not options.reference]
    pythons = {side: interpreter(side, getattr(options, f"{side}_python")) for side in needed}
    base.mkdir(parents=True, exist_ok=True)
    remove_abandoned(base)
    with working_folder(base) as work:
        twins = _Twins(step, options, pythons, work, on_progress)
        for pair in pairs:
            if twins.make_data(pair):
                twins.bring_reference(pair, base / pair.name)
        errors = twins.run_all(pairs)
        results = []
        for pair in pairs:
            if pair.name in errors:
                sentence, text = errors[pair.name]
                kept = base / f"{pair.name}.error.txt"
                with suppress(UserError):  # the same full disk, as like as not
                    write_text(kept, text)
                    sentence += f" (in full: {_shown(kept)})"
                results.append(Result(step, pair.name, error=sentence))
                continue
            result = _judged(step, pair, work / pair.name, options, twins)
            result.folder = base / pair.name
            result.elapsed_s += twins.elapsed_s(pair.name)
            result.notes += twins.notes[pair.name]
            results.append(result)
            if result.error:  # nothing was compared: the former result stays
                result.error = result.error.replace(_shown(work / pair.name), "the new logs")
                continue
            put_in_place(work / pair.name, base / pair.name)
            (base / f"{pair.name}.error.txt").unlink(missing_ok=True)
    return results


def _refuse_unnameable(folders: Sequence[Path]) -> None:
    """Raise UserError for a path that is no UTF-8: Paddle's process finds no file under it."""
    for folder in folders:
        try:
            str(folder).encode()
        except UnicodeEncodeError:
            raise UserError(
                f"{ascii(str(folder))}: Paddle needs a path that is UTF-8, under a UTF-8 locale: "
                "rename the folder, or set LC_ALL=C.UTF-8"
            ) from None


class _Twins:
    """The processes of one step."""

    def __init__(self, step, options, pythons, work, on_progress):
        self.step = step
        self.options = options
        self.pythons = pythons
        self.work = work
        self.on_progress = on_progress
        self.brought: set[str] = set()  # models whose torch logs were taken over
        self.notes: dict[str, list[str]] = {}  # model -> what to say of that
        self.errors: dict[str, tuple[str, str]] = {}  # model -> (sentence, traceback)
        self.data = work / "data"

    def make_data(self, pair: Pair) -> bool:
        """Write what a pair's make_data gives as files that both sides read; False where it fails.

        Every step but 2 and 5 does without.
        """
        if not self.step.data:
            return True
        try:
            parts = make_data(pair, self.options.preset, self.options.seed)
        except UserError as error:
            self.errors[pair.name] = (str(error), "".join(traceback.format_exception(error)))
            return False
        preset = data_preset(pair, self.options.preset)
        files: dict[str, dict] = {}
        for part, arrays in parts.items():
            stem, prefix = (TEXT, "") if part == TEXT else (preset, f"{part}/")
            files.setdefault(stem, {}).update({f"{prefix}{k}": v for k, v in arrays.items()})
        for stem, arrays in files.items():
            save_arrays(self.data / pair.name / f"{stem}.npz", arrays)
        return True

    def bring_reference(self, pair: Pair, former: Path) -> None:
        """Take over the torch side's logs, where asked for; else note what they will depend on.

        former  the folder of the last check's logs
        """
        folder = self.work / pair.name
        folder.mkdir()
        notes = self.notes[pair.name] = []
        if self.options.reference:
            found = find_reference(self.options.reference.absolute(), self.step, pair)
            notes += filter(None, [differing_reference(found, pair)])
        else:
            data = self.data / pair.name
            key = reference_key(self.step, pair, self.options, self.pythons["torch"], data)
            write_key(folder, key)
            if not self.options.reuse:
                return
            reason = why_not_reused(former, key)
            notes.append(f"torch {f'was run again: {reason}' if reason else 'logs were kept'}")
            if reason:
                return
            found = former
        take_over(found, folder)
        self.brought.add(pair.name)

    def run_all(self, pairs: list[Pair]) -> dict[str, tuple[str, str]]:
        """Every launch for every model; returns model -> (sentence, traceback) of failures."""
        errors = self.errors
        for launch in self.step.launches:
            left = self._left(pairs, errors)
            if launch.side_by_side and left:
                paddle = self.start(launch.arguments, "paddle", left, threads=1)
                reference = [pair for pair in left if pair.name not in self.brought]
                try:
                    for arguments in filter(None, (launch.arguments, launch.torch_then)):
                        if reference:
                            torch = self.start(arguments, "torch", reference, threads=1)
                            self.finish(torch, "torch", reference, errors)
                except BaseException:
                    paddle.stop()
                    raise
                self.finish(paddle, "paddle", left, errors)
                continue
            for side in _SIDES:
                left = self._left(pairs, errors)
                if side == "torch":
                    left = [pair for pair in left if pair.name not in self.brought]
                if left:
                    self.finish(self.start(launch.arguments, side, left), side, left, errors)
        return errors

    @staticmethod
    def _left(pairs, errors):
        return [pair for pair in pairs if pair.name not in errors]

    def start(self, arguments, side: str, pairs, threads: int | None = None) -> Process:
        """Start one side for some models."""
        options = self.options
        command = [self.pythons[side], "-W", "ignore", "-m", self.step.module(side)]
        for pair in pairs:
            command += ["--model", str(pair.name if pair.built_in else pair.folder)]
        command += ["--preset", options.preset, "--seed", str(options.seed)]
        command += ["--device", options.device, "--out", str(self.work), "--progress"]
        if options.weights:
            known = options.weights in WORDS
            command += ["--weights", options.weights if known else os.path.abspath(options.weights)]
        if self.step.data:
            command += ["--data", str(self.data)]
        if options.epochs:
            command += ["--epochs", str(options.epochs)]
        if options.train:
            command.append("--train")
        return Process(command + list(arguments), self._show(side), threads)

    def _show(self, side: str):
        return lambda text: self.on_progress(f"step {self.step.number} {side}: {text}")

    def finish(self, process: Process, side: str, pairs, errors) -> None:
        """Wait for a side; note which models failed, and why."""
        try:
            status = process.wait()
        except BaseException:
            process.stop()
            raise
        for pair in pairs:
            told = _told(self.work / pair.name / f"error_{side}.json")
            if told is not None:
                errors.setdefault(pair.name, told)
        if status != 0 and not any(pair.name in errors for pair in pairs):
            text = "\n".join(process.stderr)
            sentence = f"the {side} twin {how_it_ended(status, process.stderr)}"
            if getattr(self.options, f"{side}_python"):
                sentence += f" (run by {self.pythons[side]})"
            for pair in pairs:
                errors.setdefault(pair.name, (sentence, text))

    def single_step(self, pair: Pair) -> None:
        """Run the Paddle side once more, each module fed with the reference's values."""
        for launch in self.step.launches:
            if launch.single_step:
                arguments = (*launch.arguments, "--single-step")
                process = self.start(arguments, "paddle", [pair])
                self.finish(process, "paddle", [pair], {})

    def elapsed_s(self, model: str) -> float:
        """What the twins of a model took, from their logs' sidecars."""
        total = 0.0
        for path in (self.work / model).glob("*.npy"):
            total += (read_sidecar(path) or {}).get("elapsed_s", 0.0)
        return total


def _told(path: Path) -> tuple[str, str] | None:
    """What a twin says of its failure: a sentence and the traceback; None where it says nothing."""
    try:
        told = load_json(path)
    except UserError:  # it died before, or while it wrote this, as on a full disk
        return None
    sentence, text = told.get("sentence"), told.get("traceback")
    return (sentence, text) if isinstance(sentence, str) and isinstance(text, str) else None


def _judged_in_place(step, pair, folder: Path, options) -> Result:
    """Judge a result that is there: once more where another check has put a newer one in."""
    for _ in range(5):
        before = version(folder)
        if before is None:
            time.sleep(0.1)  # the moment between a former result and the next
            before = version(folder)
        result = _judged(step, pair, folder, options, None)
        if version(folder) == before:
            break
    return result


def _judged(step, pair, folder, options, twins) -> Result:
    """Judge one model's logs of one step; an unreadable or refused log is the result's error."""
    start = time.perf_counter()
    asked_for = "" if pair.built_in else str(pair.folder)
    allow = tuple(word.upper() for word in options.allow)
    result = Result(step, pair.name, asked_for, allow=allow)
    guide = None
    try:
        reference = folder / f"{step.guide_stem}_torch.npy"
        candidate = folder / f"{step.guide_stem}_paddle.npy"
        for stem in dict.fromkeys((*step.judged, step.guide_stem)):
            _refuse_missing(folder, stem)
        problems = folder_problems(folder)
        if problems:
            raise UserError(f"{_shown(folder)}: {'; '.join(problems)}")
        if options.compare_only:
            for stem in dict.fromkeys((*step.judged, step.guide_stem)):
                _refuse_stale(folder, stem, pair)
        target = folder / f"{step.guide_stem}_diff.log"
        if not options.no_report:
            guide = GuideReport(reference, candidate, step.guide_threshold, target)
        judgements = [judge_stem(step, pair.name, folder, stem) for stem in step.judged]
        rows = [row for judgement in judgements for row in judgement.rows]
        harmless = ("IDENTICAL", "ROUNDING", "FLIP", "CLOSE")
        if twins is not None and not all(row.verdict in harmless for row in rows):
            twins.single_step(pair)
            judgements = [judge_stem(step, pair.name, folder, stem) for stem in step.judged]
        for judgement in judgements:
            result.rows += judgement.rows
            result.notes += judgement.notes
        if step.extra is not None:
            result.rows += step.extra(folder, pair)
        for row in result.rows:
            row.step, row.model = step.number, pair.name
            if row.verdict == "PRECISION" and "precision" in options.allow:
                row.note = f"allowed by --allow precision: {row.note}"
        logs = [folder / f"{step.judged[0]}_{side}.npy" for side in _SIDES]
        result.notes += two_environments(*map(read_sidecar, logs))
        result.places = {side: _sidecar_entries(folder, step, side, "places") for side in _SIDES}
        for side in _SIDES:
            if _sidecar_entries(folder, step, side, "untaped_draws"):
                result.notes.append(
                    f"the {side} model drew random numbers by itself, which the other side cannot "
                    "see: use nn.Dropout or F.dropout, or common's draw_normal"
                )
        result.guide_passed = _guide_passed(step, judgements, folder)
        if guide is not None:
            result.reprod_log = guide.wait()
            guide = None
        result.guide_report = target.name if result.reprod_log is not None else ""
        if result.reprod_log is not None and result.reprod_log != result.guide_passed:
            said = "passed" if result.reprod_log else "failed"
            result.notes.append(f"reprod_log itself says {said} in {target.name}")
    except UserError as error:
        result.error = str(error)
    except OSError as error:
        result.error = f"{error.filename or _shown(folder)}: {error.strerror or error}"
    finally:
        if guide is not None:
            guide.wait()
    result.elapsed_s = time.perf_counter() - start
    return result


def _refuse_missing(folder: Path, stem: str) -> None:
    """Raise UserError for logs that are not there."""
    for side in _SIDES:
        if not os.path.lexists(folder / f"{stem}_{side}.npy"):
            raise UserError(
                f"{_shown(folder / f'{stem}_{side}.npy')} is missing: run this check without "
                "--compare-only"
            )


def _refuse_stale(folder: Path, stem: str, pair: Pair) -> None:
    """Raise UserError for logs of a model whose files have changed since."""
    for side in _SIDES:
        log = folder / f"{stem}_{side}.npy"
        changed = changed_sources(read_sidecar(log) or {}, pair, side)
        if changed:
            raise UserError(
                f"{_shown(log)} is stale: {', '.join(changed)} in {_shown(pair.folder)} changed "
                "since it was made; run this check without --compare-only"
            )


def judge_stem(step: Step, model: str, folder: Path, stem: str) -> Judgement:
    """The verdicts of a folder's logs of one stem; raises LogError for a file that is none."""

    def path(name: str) -> Path | None:
        found = folder / f"{stem}_{name}.npy"
        return found if found.is_file() else None

    return judge_logs(
        path("torch"),
        path("paddle"),
        path("torch_fp64"),
        path("paddle_fp64"),
        local64=path("paddle_fp64_single_step"),
        step=step.number,
        model=model,
    )


def _guide_passed(step: Step, judgements, folder: Path) -> bool | None:
    """The guide's rule on the guide's own log."""
    if step.guide_stem in step.judged:
        return judgements[step.judged.index(step.guide_stem)].guide_passed
    judgement = judge_logs(
        folder / f"{step.guide_stem}_torch.npy", folder / f"{step.guide_stem}_paddle.npy"
    )
    means = [row.mean_abs for row in judgement.rows]
    return bool(means) and all(m is not None and m < step.guide_threshold for m in means)


def _sidecar_entries(folder: Path, step: Step, side: str, entry: str) -> dict:
    """One entry of the sidecars of a side's logs, those of all judged logs together."""
    found: dict = {}
    for stem in step.judged:
        sidecar = read_sidecar(folder / f"{stem}_{side}.npy") or {}
        found |= sidecar.get(entry) or {}
    return found


def _shown(path: Path) -> str:
    """A path relative to where the user is, if it is below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the user's folder is gone
        return str(path)
