"""The result of one step for one model: its logs are trusted or refused, judged and explained."""

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from twincheck.common.check.draws import draw_notes, dropout_notes
from twincheck.common.check.steps import Step
from twincheck.common.line.source import Line
from twincheck.common.logs.guide_pair import has_pair, pair_problems
from twincheck.common.logs.independence import folder_problems, two_environments
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import Sidecar, sidecar_of, together_not_run
from twincheck.common.pair.pairs import EVAL, SAME, TRAIN, Pair
from twincheck.common.pair.provenance import changed_sources
from twincheck.common.pair.request import RunRequest
from twincheck.common.pair.worker_process import Failure
from twincheck.common.report.commands import shown
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import load
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind
from twincheck.common.system.run_kind import RunKind
from twincheck.common.system.words import escaped, printable
from twincheck.common.transplant.table import TRANSPLANTS
from twincheck.common.verdict.comparisons import Memo
from twincheck.common.verdict.initial import Start, draws, judge_initial, starts
from twincheck.common.verdict.judge import Judgement, judge_logs
from twincheck.common.verdict.row import (
    AGREEING,
    FAILING,
    NAN_ALIKE,
    Row,
    count_verdicts,
    exit_code,
    first_bad_row,
    worst,
)
from twincheck.common.verdict.tensor import judge_tensor


@dataclass
class Result:
    """The result of one step for one model."""

    step: Step
    model: str
    asked_for: str = ""  # the folder of a user's own pair
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    way: list[str] = field(default_factory=list)  # the further runs that were needed, and for what
    guide_passed: bool | None = None  # on the keys that the guide asks for; None: there are none
    guide_all_passed: bool | None = None  # the guide's rule on every tensor of the full log
    guide_report: str = ""  # the name of reprod_log's own report
    reprod_log: bool | None = None  # what it says
    folder: Path = Path()  # where the logs are
    error: str = ""  # why the model could not be compared
    failure: Failure | None = None  # of a side's worker, where that is why
    places: dict[str, dict[str, str]] = field(default_factory=dict)  # side -> key -> file:line
    classes: dict[str, dict[str, str]] = field(default_factory=dict)  # side -> key -> of its module
    settings: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)  # side -> layer
    made: dict[str, dict[str, str]] = field(default_factory=dict)  # side -> layer -> file:line
    variances: dict[str, dict[str, float]] = field(default_factory=dict)  # key -> as converted
    handed: dict[str, dict[str, list]] = field(default_factory=dict)  # side -> layer -> its makers
    lines: dict[str, Line] = field(default_factory=dict)  # key of an origin -> where it is wrong
    idle: dict[str, dict[str, str]] = field(default_factory=dict)  # side -> dropout -> file:line
    # File of the user's -> function -> lines that did not run, on neither side.
    not_run: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    cases: tuple[str, ...] = ()  # prefixes of the cases' keys
    modes: str = ""  # in which modes the model was checked; empty where a step has none
    ran: tuple[str, ...] = ()  # these modes
    probes: tuple[str, ...] = ()  # the options that leave out probes, as they are typed
    typed: tuple[tuple[str, tuple[str, ...]], ...] = ()  # option -> words, as the user typed them
    elapsed_s: float = 0.0
    allow: tuple[str, ...] = ()  # failing verdicts that the user lets pass
    answers: dict[str, object] = field(default_factory=dict)  # what is no verdict on the port
    # Initial weights: rows of those that differ where they decide nothing, and what differs.
    initial: list[Row] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    memos: dict[str, Memo] = field(default_factory=dict)  # stem -> what was made of its logs

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
    def guide_failure(self) -> str:
        """Return why a result passes that fails by the guide's rule: of the rows that fail it."""
        if self.step.guide_failure and self.guide_passed is False:
            return self.step.guide_failure
        failing = count_verdicts(row for row in self.rows if row.guide_passed is False)
        if set(failing) <= set(AGREEING):
            return Kind.GUIDE_FAILS_BY_ROUNDING()
        counts = ", ".join(f"{count} {verdict}" for verdict, count in failing.items())
        return Kind.GUIDE_FAILS_IN_ROWS(counts=counts)

    @property
    def told(self) -> list[str]:
        """The notes, and in which modes the model was checked: what is kept of them."""
        return list(dict.fromkeys(filter(None, [*self.notes, self.modes])))

    @property
    def first_diverged(self) -> Row | None:
        """The first row that is not aligned."""
        return first_bad_row(self.rows, self.allow)

    def take(self, judgements: Mapping[str, Judgement], folder: Path, pair: Pair) -> None:
        """Take over what the judge found (stem -> judgement), and what the step itself adds."""
        step = self.step
        for judgement in judgements.values():
            self.rows += judgement.rows
            self.notes += judgement.notes
            self.lines |= judgement.lines
        sidecars = {side: _sidecars(folder, step, side) for side in SIDES}
        if sidecars["paddle"][0].transplanted:
            self.notes += load(TRANSPLANTS, "transplant")(folder, step.judged, self.rows)
        if step.initial:
            self._take_initial(folder)
        if step.extra is not None:
            rows, notes = step.extra(folder, pair)
            self.rows += rows
            self.notes += notes
        if step.answer is not None:
            self.answers, notes = step.answer(folder, pair)
            self.notes += notes
        if not (step.data or step.other):
            self.ran, self.modes = modes_checked(*(sidecars[side][0] for side in SIDES))
        for row in [*self.rows, *self.initial]:
            row.step, row.model = step.number, pair.name
            if row.verdict in self.allow:
                notes = list(row.reasons)
                row.reasons = (Kind.ALLOWED_VERDICT(verdict=row.verdict.lower(), notes=notes),)
        self.notes += two_environments(*(sidecars[side][0] for side in SIDES))
        self.notes += _upcasts(folder, step) + _tables(folder, step)
        self.notes += dict.fromkeys(
            escaped(told) for sidecar in sidecars["paddle"] for told in sidecar.loader.values()
        )
        for side in SIDES:
            for name in ("places", "settings", "made", "handed", "idle", "classes"):
                found = getattr(self, name)[side] = {}
                for sidecar in sidecars[side]:
                    found |= getattr(sidecar, name)
            places = {k: one.places[side] for k, one in self.lines.items() if side in one.places}
            self.places[side] |= places
            if any(True in sidecar.untaped_draws.values() for sidecar in sidecars[side]):
                self.notes.append(Kind.DRAWS_UNTAPED(side=side))
        heard = (sidecar.not_run for side in SIDES for sidecar in sidecars[side])
        self.not_run = together_not_run(heard)
        passed = first_bad_row(self.rows) is None
        self.notes += draw_notes(*(sidecars[side] for side in SIDES), passed)
        self.notes += dropout_notes(*(sidecars[side] for side in SIDES))
        self.notes += lowered_notes(sidecars["torch"])
        for sidecar in sidecars["paddle"]:
            self.variances |= sidecar.variances
        self.notes += variance_notes(self.variances)
        self.notes += nan_notes(self.rows, sidecars["torch"][0])
        first = sidecars["torch"][0]
        self.notes += [escaped(left_out) for left_out in first.varied.values() if left_out]
        if first.cases:
            self.notes.append(Kind.CASES_RAN(cases=_named_cases(first.cases)))
        self.probes = probe_options(first)
        if self.probes:
            self.notes.append(_few_probes(self.probes, self.exit_code != 0))
        for sidecar in sidecars["torch"]:
            self.cases += tuple(sidecar.batches)
        threshold = step.guide_threshold
        self.guide_passed = pair_passed(folder, step.guide_stem, threshold)
        self.guide_all_passed = guide_passed(folder, step.full_stem, threshold, judgements)
        if step.decides is not None:
            self.answers["decided"] = step.decides(self, folder)

    def _take_initial(self, folder: Path) -> None:
        """Take over how both sides' weights begin.

        A model that is built with given weights, as a live one is, has nothing to compare: a step
        that does not train passes it over.
        """
        logs = {side: ResultFolder(folder).log(self.step.initial, side) for side in SIDES}
        if not (self.step.trains or all(log.is_file() for log in logs.values())):
            return
        with ExitStack() as stack:
            drawn = [stack.enter_context(read_log(log)) for log in logs.values()]
            if not (self.step.trains or all(map(draws, drawn))):
                return
            rows = judge_initial(*drawn)
            sidecars = {side: sidecar_of(log) for side, log in logs.items()}
            self.starts = starts(rows, *drawn, sidecars)
        if self.step.trains:
            self.rows += rows
        else:
            self.initial = [row for row in rows if row.verdict in FAILING]

    def take_report(self, passed: bool | None, report: Path) -> None:
        """Take over what reprod_log says of the guide's logs; None: it could not be asked."""
        self.reprod_log = passed
        if passed is None:
            return
        self.guide_report = report.name
        ours = self.guide_passed if has_pair(self.step.guide_stem) else self.guide_all_passed
        if passed != ours:
            kind = Kind.REPROD_LOG_PASSED if passed else Kind.REPROD_LOG_FAILED
            self.notes.append(kind(report=report.name))


def port_alone_changes(ref: Sidecar, cand: Sidecar) -> str:
    """Return what train mode changes in the port alone; empty where nothing."""
    both = ((why, cand.modes.get(case, SAME)) for case, why in ref.modes.items())
    return next((what for why, what in both if why == SAME != what), "")


def modes_checked(ref: Sidecar, cand: Sidecar) -> tuple[tuple[str, ...], str]:
    """Return the modes in which a model was checked, in words too.

    Empty for a step that has none.  Raises UserError where the port alone has two, and torch could
    not be run in both.
    """
    ran = tuple(mode for mode in (EVAL, TRAIN) if mode in ref.modes.values())
    if not ran or ref.mode is None:
        return (), ""
    if what := port_alone_changes(ref, cand):
        raise UserError(Kind.MODES_MISSING(what=escaped(what)))
    if len(ran) == 2:
        return ran, Kind.MODES_BOTH()
    other = next((why for why in ref.modes.values() if why not in ran), "")
    if other == SAME:
        return ran, Kind.MODES_THE_SAME()
    modes = {"ran": ran[0], "missing": TRAIN if ran == (EVAL,) else EVAL}
    if not other:
        return ran, Kind.MODE_ALONE(**modes)
    return ran, Kind.MODE_ALONE_BECAUSE(why=escaped(other), **modes)


def variance_notes(variances: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a note on running variances that were converted before they were compared."""
    if not variances:
        return []
    key, one = min(variances.items(), key=lambda item: item[1]["n"])
    told = {name: one[name] for name in ("n", "held", "compared")}
    factor = one["n"] / max(one["n"] - 1, 1)
    rows = len(variances)
    return [Kind.VARIANCES_CONVERTED(rows=rows, key=escaped(key), factor=factor, **told)]


def lowered_notes(sidecars: Sequence[Sidecar]) -> list[str]:
    """Return notes on noise and learning rates that the check lowered, and gradients it gave."""
    notes, said = [], set()
    for sidecar in sidecars:
        for case, noise in sidecar.noise.items():
            if noise["level"] < 1:
                because = escaped(noise["because"])
                told = {"case": escaped(case), "level": noise["level"], "because": because}
                notes.append(Kind.NOISE_LOWERED(**told))
            keys = escaped(", ".join(noise.get("constant", ())))
            if keys and keys not in said:  # cases share their weights
                notes.append(Kind.STATE_CONSTANT(case=escaped(case), keys=keys))
            said.add(keys)
        for case, setups in sidecar.rates.items():
            for setup, rate in setups.items():
                if rate["factor"] < 1:
                    because = escaped(rate["because"])
                    told = {"case": escaped(case), "setup": escaped(setup), "because": because}
                    notes.append(Kind.RATE_LOWERED(factor=rate["factor"], **told))
        for case, given in sidecar.given_gradients.items():
            told = {"case": escaped(case), "setups": escaped(", ".join(given["setups"]))}
            notes.append(Kind.GRADIENTS_GIVEN(values=given["values"], **told))
    return notes


def nan_notes(rows: Sequence[Row], sidecar: Sidecar) -> list[str]:
    """Return a note on NaN that both sides have only where noise was added to weights."""
    cases = [prefix.rstrip("/") or "main" for prefix in sidecar.batches]
    noisy = [case for case in cases if case in sidecar.noise]
    clean = [escaped(case) for case in cases if case not in noisy]
    failing = [row for row in rows if exit_code([row.verdict])]
    alone = all(row.key.startswith(tuple(f"{case}/" for case in noisy)) for row in failing)
    if not (clean and alone and any(row.unlike == NAN_ALIKE for row in failing)):
        return []
    told = {"noisy": escaped(", ".join(noisy)), "clean": ", ".join(clean)}
    return [Kind.NAN_BY_NOISE(options=" ".join(f"--case {case}" for case in clean), **told)]


def probe_options(told: Sidecar | RunRequest) -> tuple[str, ...]:
    """The options that leave out probes, as they are typed; none where all are looked at."""
    named = (word for pattern in told.probes for word in ("--probe", escaped(pattern)))
    return ("--no-probe",) if told.no_probe else tuple(named)


def _few_probes(options: Sequence[str], is_red: bool) -> str:
    """Return the note of a run that did not look at every module."""
    kind = Kind.INSIDE_NOT_LOGGED_NOR_ORIGIN if is_red else Kind.INSIDE_NOT_LOGGED
    if options[0] == "--probe":
        kind = Kind.INSIDE_LOGGED_IN_PART_ORIGIN_TOO if is_red else Kind.INSIDE_LOGGED_IN_PART
    return kind(options=shlex.join(options))


def pair_passed(folder: Path, stem: str, threshold: float) -> bool | None:
    """The guide's rule on the pair that it asks for; None where there is no such pair."""
    logs = [ResultFolder(folder).log(stem, side) for side in SIDES]
    if not (has_pair(stem) and all(log.is_file() for log in logs)):
        return None
    with read_log(logs[0]) as ref, read_log(logs[1]) as cand:
        if set(ref) != set(cand) or not len(ref):
            return False
        means = [judge_tensor(key, ref[key], cand[key]).mean_abs for key in ref]
    return all(mean is not None and mean <= threshold for mean in means)


def guide_passed(
    folder: Path, stem: str, threshold: float, judgements: Mapping[str, Judgement]
) -> bool | None:
    """The guide's rule on every tensor of a log; None where nothing was compared.

    judgements  of this folder: the log may be among them
    """
    if stem in judgements:
        return judgements[stem].guide_passed
    logs = [ResultFolder(folder).log(stem, side) for side in SIDES]
    means = [row.mean_abs for row in judge_logs(*logs).rows]
    return bool(means) and all(mean is not None and mean < threshold for mean in means)


def overall_exit(results: Sequence[Result]) -> int:
    """The worst exit status of all results; nothing compared is 2."""
    return max((result.exit_code for result in results), default=2)


def refuse_unfit(
    step: Step, pair: Pair, folder: Path, run: RunRequest, fresh: Sequence[str], made_now: bool
) -> None:
    """Raise UserError for logs that are missing, that contradict each other, or that are stale.

    run       what is asked for: the cases of the preset, and the probes
    fresh     sides whose logs this check has made
    made_now  whether the check ran at all, so that no log can be stale
    """
    files = ResultFolder(folder)
    stems = dict.fromkeys((*step.judged, step.full_stem))
    logs = {(stem, side): files.log(stem, side) for stem in stems for side in SIDES}
    for log in logs.values():
        if not os.path.lexists(log):
            raise UserError(Kind.LOG_MISSING(log=shown(log), do=Kind.RUN_AGAIN()))
    problems = folder_problems(folder, fresh, run.backends)
    if not (problems or made_now) and has_pair(step.guide_stem):
        problems = pair_problems(folder, step.guide_stem)
    if problems:
        raise UserError(Kind.LOGS_UNFIT(folder=shown(folder), problems=problems))
    asked = probe_options(run)
    for (_, side), log in logs.items():
        told = sidecar_of(log)
        changed = [] if made_now else changed_sources(told.sources, pair, side)
        if changed:
            where = {"log": shown(log), "files": ", ".join(changed), "folder": shown(pair.folder)}
            raise UserError(Kind.LOG_STALE(do=Kind.RUN_AGAIN(), **where))
        if set(told.cases) != set(run.cases):  # a part is not the whole
            held, wanted = _named_cases(told.cases), _named_cases(run.cases)
            raise UserError(Kind.LOG_OF_OTHER_CASES(log=shown(log), held=held, asked=wanted))
        made = probe_options(told)
        if asked and set(asked) != set(made):
            both = {"made": _with(made), "asked": _with(asked)}
            raise UserError(Kind.LOG_OF_OTHER_PROBES(log=shown(log), **both))


def _with(options: Sequence[str]) -> str:
    if not options:
        return Kind.WITHOUT_PROBE_OPTIONS()
    return Kind.WITH_OPTIONS(options=shlex.join(options))


def _named_cases(cases: Sequence[str]) -> str:
    if not cases:
        return Kind.ALL_CASES()
    names = escaped(", ".join(cases))
    return Kind.CASES_ALONE(cases=names) if len(cases) > 1 else Kind.CASE_ALONE(case=names)


def _sidecars(folder: Path, step: Step, side: str, run: str = RunKind.PLAIN) -> list[Sidecar]:
    """The sidecars of a side's judged logs."""
    logs = [ResultFolder(folder).log(stem, side, run) for stem in step.judged]
    return [sidecar_of(log) for log in logs]


def _tables(folder: Path, step: Step) -> list[str]:
    """A note of the tables that are float32 in the port's float64 run, as in the reference's."""
    sidecars = _sidecars(folder, step, "paddle", RunKind.FLOAT64)
    names = sorted({name for sidecar in sidecars for name in sidecar.tables.values()})
    return [Kind.TABLES_ROUNDED(names=[printable(name) for name in names])] if names else []


def _upcasts(folder: Path, step: Step) -> list[str]:
    """A note of the models' own casts to float32, which the float64 runs made casts to float64."""
    found = []
    for side in SIDES:
        upcast = [sidecar.upcast for sidecar in _sidecars(folder, step, side, RunKind.FLOAT64)]
        lines = {line for places in upcast for line in places}
        calls = sum(sum(whats.values()) for places in upcast for whats in places.values())
        if lines:
            found.append(Kind.UPCASTS_OF_SIDE(side=side, calls=calls, lines=len(lines)))
    if len(found) > 1:
        found = [Kind.UPCASTS_OF_BOTH(**dict(zip(SIDES, found, strict=True)))]
    return [Kind.UPCASTS(where=where) for where in found]
