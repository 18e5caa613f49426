"""What one step found for one model: its logs trusted or refused, judged, and put in words."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from common.check.steps import Step
from common.logs.sidecar import Sidecar, read_sidecar
from common.pair.pairs import Pair
from common.pair.provenance import changed_sources
from common.report.guide_report import GuideReport
from common.system.errors import UserError
from common.system.folders import version
from common.system.frameworks import SIDES
from common.transplant.search import transplant_notes
from common.verdict.independence import folder_problems, two_environments
from common.verdict.judge import HARMLESS, Judgement, judge_logs
from common.verdict.row import Row, exit_code, worst


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
    answers: dict[str, object] = field(default_factory=dict)  # what is no verdict on the port

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


def judged_in_place(step, pair, folder: Path, options) -> Result:
    """Judge a result that is there: once more where another check has put a newer one in."""
    for _ in range(5):
        before = version(folder)
        if before is None:
            time.sleep(0.1)  # the moment between a former result and the next
            before = version(folder)
        result = judged(step, pair, folder, options, None)
        if version(folder) == before:
            break
    return result


def judged(step, pair, folder, options, twins) -> Result:
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
        fresh = [] if twins is None else twins.fresh_sides(pair)
        problems = folder_problems(folder, fresh)
        if problems:
            raise UserError(f"{shown(folder)}: {'; '.join(problems)}")
        if options.compare_only:
            for stem in dict.fromkeys((*step.judged, step.guide_stem)):
                _refuse_stale(folder, stem, pair)
        target = folder / f"{step.guide_stem}_diff.log"
        if not options.no_report:
            guide = GuideReport(reference, candidate, step.guide_threshold, target)
        again = twins is not None  # single-step logs can be made, and all judged with them
        judgements = [judge_stem(step, pair.name, folder, stem, again) for stem in step.judged]
        rows = [row for judgement in judgements for row in judgement.rows]
        if again and not all(row.verdict in HARMLESS for row in rows):
            failed = twins.single_step(pair)
            if failed:
                result.notes.append(
                    f"only the first origin is sure, single-step mode failed: {failed}"
                )
            judgements = [judge_stem(step, pair.name, folder, stem) for stem in step.judged]
        for judgement in judgements:
            result.rows += judgement.rows
            result.notes += judgement.notes
        result.notes += transplant_notes(folder, step.judged, result.rows)
        if step.extra is not None:
            rows, notes = step.extra(folder, pair)
            result.rows += rows
            result.notes += notes
        if step.answer is not None:
            result.answers, notes = step.answer(folder, pair)
            result.notes += notes
        for row in result.rows:
            row.step, row.model = step.number, pair.name
            if row.verdict == "PRECISION" and "precision" in options.allow:
                row.note = f"allowed by --allow precision: {row.note}"
        logs = [folder / f"{step.judged[0]}_{side}.npy" for side in SIDES]
        result.notes += two_environments(*(read_sidecar(log) or Sidecar() for log in logs))
        for side in SIDES:
            sidecars = [
                read_sidecar(folder / f"{stem}_{side}.npy") or Sidecar() for stem in step.judged
            ]
            result.places[side] = {k: at for one in sidecars for k, at in one.places.items()}
            if any(True in sidecar.untaped_draws.values() for sidecar in sidecars):
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
        result.error = f"{error.filename or shown(folder)}: {error.strerror or error}"
    finally:
        if guide is not None:
            guide.wait()
    result.elapsed_s = time.perf_counter() - start
    return result


def _refuse_missing(folder: Path, stem: str) -> None:
    """Raise UserError for logs that are not there."""
    for side in SIDES:
        if not os.path.lexists(folder / f"{stem}_{side}.npy"):
            raise UserError(
                f"{shown(folder / f'{stem}_{side}.npy')} is missing: run this check without "
                "--compare-only"
            )


def _refuse_stale(folder: Path, stem: str, pair: Pair) -> None:
    """Raise UserError for logs of a model whose files have changed since."""
    for side in SIDES:
        log = folder / f"{stem}_{side}.npy"
        changed = changed_sources((read_sidecar(log) or Sidecar()).sources, pair, side)
        if changed:
            raise UserError(
                f"{shown(log)} is stale: {', '.join(changed)} in {shown(pair.folder)} changed "
                "since it was made; run this check without --compare-only"
            )


def judge_stem(
    step: Step, model: str, folder: Path, stem: str, until_off: bool = False
) -> Judgement:
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
        until_off=until_off,
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


def shown(path: Path) -> str:
    """A path relative to where the user is, if it is below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the user's folder is gone
        return str(path)
