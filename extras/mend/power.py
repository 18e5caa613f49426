"""Plant mistakes into a right port, and count those that the check would see.

    twincheck power DIR            how many, and which it would not see
    twincheck power DIR --write    and puts the inputs that show these into case.py, as cases
    twincheck power DIR --quick    forty mistakes alone

The pair must be green in steps 1, 3 and 4.  Single edits of the lines of the port that run, such as
`twincheck mend` knows, are planted one by one, in memory: a setting left out, another number, a
sign, a comparison, an axis, a name, a function, the order of arguments, a statement; of every line
some.  Each runs in float64 in each case and mode of step 1, then of steps 3 and 4 where none before
has shown it.  What does not run is none; what takes a value further from the reference's than
rounding does is seen.  Those left run with changed inputs, within the kinds that case.py's are of:
ids and masks at the ends of sequences, zeros, large and small floats.
What makes no difference there is the same on every input tried (so are initial
values, since shared weights replace them); what makes one would not be seen, and the whole check
has said so.  Where the pair itself differs from the reference with such inputs that is said.

It leaves power.json in DIR/log/power: schema 1; model; pair; planted, seen, same; crashed (others,
which do not run); unseen, a list of {place, old, new, shown (lines of code that change the
inputs)}; alike, a list of what is the same; itself, the lines with which the pair itself is red;
undecided (the time was up); seconds.

Exit status: 0 it was measured; 2 it could not be, or the pair is red.
"""

import ast
import itertools
import random
import re
import shutil
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from twincheck.common.check.options import CheckOptions, Parser, positive
from twincheck.common.check.result import Result, shown
from twincheck.common.check.steps import Step
from twincheck.common.check.workers import Processes
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.pairs import PERTURBED, Case, load_pair
from twincheck.common.pair.request import FIRST
from twincheck.common.pair.worker_process import WorkerProcess
from twincheck.common.report import terminal as report
from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.files import whole
from twincheck.common.system.folders import remove_abandoned, working_folder
from twincheck.common.system.json_file import write_json
from twincheck.common.system.program import guarded
from twincheck.common.system.reasons import renamed
from twincheck.common.system.run_kind import RunKind
from twincheck.extras.mend import Kind
from twincheck.extras.mend.command import TRIAL_S, Search, Tried, allowed_of, of_lines, other_code
from twincheck.extras.mend.edits import CASE, KINDS, Edit, Source, Values, edits
from twincheck.extras.mend.inputs import Change, changes, with_cases
from twincheck.extras.shared.sides import answered, asked, folder_of, function_of, only_pair
from twincheck.extras.shared.steps import STEPS, crashed_at

SCHEMA = 1
PATIENCE_S = 120
PLANTING = 0.4  # of the time, after which nothing more is planted
MOST, QUICK = 430, 40  # mistakes
QUICK_S = 30
BATCH, MOST_AT_ONCE, BATCH_S = 6, 60, 5.0  # mistakes that a process is asked for at once
LONGEST = 90  # text of a mistake that is shown
DETACHED, NO_GRADIENT = b".detach()", b"@paddle.no_grad()"
# An argument by its name, an axis that goes away and comes back, nothing taken away.
IDLE_CHANGE = re.compile(rb"\b(\w+)=(?:self\.)?\1\b|\.transpose\(\[1, 0, 2\]\)$|- 0\b|astype\('")
FILE = "power.json"


@dataclass
class Planted:
    """A mistake in the port, and what became of it."""

    file: Path  # in a copy of the pair
    edit: Edit
    ran: bool = True
    seen: int = 0  # the step that has
    by: Change | None = None  # the inputs that would show it


@of_pairs("--out")
def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "power")
    parser.take("model", "out", "preset", "mode", "seed", "weights")
    said = Kind.OPTION_SECONDS_POWER(seconds=PATIENCE_S)
    parser.add_argument("--seconds", type=positive, metavar="S", help=said)
    parser.add_argument("--quick", action="store_true", help=Kind.OPTION_QUICK(count=QUICK))
    parser.add_argument("--write", action="store_true", help=Kind.OPTION_WRITE_INPUTS())
    given = parser.take("json", "torch-python", "paddle-python", "debug").parse_args(arguments)
    return guarded(given.debug, lambda: _power(given))


def _power(given: Namespace) -> int:
    options = CheckOptions.of(given)
    pair = only_pair(options, Kind.MODELS_NOT_ONE(command=to_type("power", "DIR")))
    if pair.built_in:
        raise UserError(Kind.PAIR_BUILT_IN(model=pair.name))
    base = folder_of(options, "power")
    base.mkdir(parents=True, exist_ok=True)
    seconds = given.seconds or (QUICK_S if given.quick else PATIENCE_S)
    with report.progress() as on_progress:
        search = Search(pair, options, base, seconds, on_progress)
        power = Power(search, QUICK if given.quick else MOST, seconds)
        power.run(given.write)
    write_json(base / FILE, power.as_json())
    if given.json:
        write_json(given.json, power.as_json())
    power.show()
    return 0


class Power:
    """The measurement of one pair, in the copies that a search for a mend works in."""

    def __init__(self, search: Search, most: int, seconds: int):
        self.search, self.most, self.seconds = search, most, seconds
        self.planted: list[Planted] = []  # those that were tried
        self.left: list[Planted] = []  # those of them that nothing has shown yet
        self.undecided: list[Planted] = []
        self.itself: list[Change] = []  # with these the pair is red
        self.crashed = 0  # others, with which the port does not run
        self.written: list[Change] = []  # the cases that case.py has got
        self.sources: dict[Path, Source] = {}

    def run(self, write: bool) -> None:
        """Plant, and look for inputs that show what was not seen."""
        search = self.search
        pair, run = search.pair, search.options.run
        steps = [step for step in STEPS if not step.why_not(pair)]
        remove_abandoned(search.base)
        with working_folder(search.base) as work, Processes() as search.processes:
            search.work_in(work)
            try:
                results = {step: search.check(step) for step in steps}
            except UserError as error:  # what it names in full is gone with the copy
                failure = getattr(error, "failure", None)
                told = failure.reason if failure else str(error)
                told = renamed(told, str(search.copy), shown(pair.folder))
                raise UserError(told) from None
            if red := [step.number for step, one in results.items() if one.exit_code]:
                command = to_type("mend", shown(pair.folder))
                raise UserError(Kind.POWER_OF_RED(model=pair.name, step=red[0], command=command))
            cases = pair.cases(run.preset, run.weights, run.modes)
            cases.sort(key=lambda case: case.weights != PERTURBED)  # these show most
            like = next((case for case in cases if not case.train), cases[0])
            allowed = {step: allowed_of(one.rows) for step, one in results.items()}
            search.until = time.monotonic() + self.seconds
            with self._processes():
                for step, case in itertools.product(steps, cases):
                    with self._case(search.copy, step, case.name or "main", allowed[step]):
                        if not self.sources:
                            self._plant(results[step])
                        else:
                            self._look(step)
                for change, copy in self._further(work, like):
                    self._look_with(change, copy, dict.fromkeys((steps[0], steps[-1])), allowed)
            self._ask_the_check(steps)
            chosen = [one.by for one in self.left if one.by]
            chosen = list(dict.fromkeys([*chosen, *self.itself]))
            if write and chosen:
                self._write(work, like, chosen, steps)
        search.seconds = time.monotonic() - search.started

    @contextmanager
    def _processes(self) -> Iterator[None]:
        """Both sides' processes while it lasts."""
        first = FIRST.format
        with (
            WorkerProcess(self.search.python("torch"), first("torch")) as self.torch,
            WorkerProcess(self.search.python("paddle"), first("paddle")) as self.paddle,
        ):
            self.torch.module = "twincheck.extras.mend.in_torch"
            self.paddle.module = "twincheck.extras.mend.trial"
            yield

    @contextmanager
    def _case(self, copy: Path, step: Step, case: str, allowed: dict[str, float]) -> Iterator[None]:
        """While it lasts, `_asked` tries edits in one case of a step of one copy of the pair.

        Raises UserError where the reference does not run.
        """
        search = self.search
        options = replace(search.options, models=(str(copy),))
        with asked(load_pair(str(copy)), options, copy.parent, keep="all") as one:
            run = replace(one.run, states=None, progress=False, cases=(case,))
            work = one.work / step.name
            work.mkdir(parents=True, exist_ok=True)
            told = {"step": function_of(step, ""), "origin": "", "allowed": allowed}
            told |= {"forced": False, "seconds": TRIAL_S}
            write_json(work / "edits.json", told)
            answered(self.torch, run, work / "request_torch.json")
            told["torch"] = str(ResultFolder(work).log("mend", "torch", RunKind.FLOAT64))
            if not Path(told["torch"]).is_file():
                raise UserError(Kind.FLOAT64_MISSING())

            def ask(file: Path, some: list[Edit]) -> list[Tried]:
                own = {**told, "file": str(copy / file)}
                return search._asked(self.paddle, run, work, own, some)

            self._asked = ask
            yield

    def _try(self, some: list[Planted]) -> Iterator[tuple[Planted, Tried | None]]:
        """Yield what each comes to, till the time is up; None where it ends the process."""
        size = BATCH
        while some and time.monotonic() < self.search.until:
            began = time.monotonic()
            file, of_file = next(itertools.groupby(some[:size], key=attrgetter("file")))
            batch = list(of_file)
            found = {one.edit: one for one in self._asked(file, [one.edit for one in batch])}
            yield from ((one, found.get(one.edit)) for one in batch)
            some = some[len(batch) :]
            self.search.on_progress(Kind.MISTAKES_LEFT(count=len(some)))
            each_s = (time.monotonic() - began) / len(batch)
            size = max(1, min(MOST_AT_ONCE, int(BATCH_S / each_s)))

    def _plant(self, result: Result) -> None:
        """Try mistakes of all lines of the port that run, in the case that shows most.

        Of a package's file, which is imported once, those in functions.
        """
        search, found = self.search, {}
        log = ResultFolder(result.folder).log(STEPS[0].initial, "paddle")
        of_class = Path(next(iter(sidecar_of(log).owners.values()))[""][2])
        files = [Path("paddle_model.py")]
        self._asked(files[0], [])
        own = sorted(path.relative_to(search.copy) for path in search.files)
        own += [] if of_class.is_relative_to(search.copy) or not of_class.is_file() else [of_class]
        for file in dict.fromkeys([*files, *(p for p in own if p.name != CASE)]):
            self._asked(file, [])
            source = Source((search.copy / file).read_bytes())
            self.sources[file] = source
            for edit in mistakes(source, search.ran):
                line = source.text.count(b"\n", 0, edit.start)
                found.setdefault((file, line), []).append(Planted(file, edit))
        random_order = random.Random(0)
        for some in found.values():
            random_order.shuffle(some)
            kinds = {id(one): number for one, number in _numbered(some)}
            some.sort(key=lambda one: kinds[id(one)])  # noqa: B023 - it is called at once
        rounds = itertools.zip_longest(*found.values())
        some = [one for of in rounds for one in of if one is not None]
        end, now = search.until, time.monotonic()
        search.until = now + PLANTING * (end - now)
        for one, tried in self._try(some):
            self._judge(one, tried, STEPS[0])
            self.planted += [one] if one.ran else []
            self.crashed += not one.ran
            if len(self.planted) == self.most:
                break
        search.until = end

    def _judge(self, one: Planted, tried: Tried | None, step: Step) -> None:
        one.ran = tried is not None and not tried.failed
        if not one.ran or tried.off > self.search.off:
            one.seen = step.number
        else:
            self.left.append(one)

    def _look(self, step: Step) -> None:
        """Try what nothing has shown yet in another case or step."""
        some, self.left = self.left, []
        waiting = dict.fromkeys(map(id, some))
        for one, tried in self._try(some):
            del waiting[id(one)]
            self._judge(one, tried, step)
        self.undecided += [one for one in some if id(one) in waiting]

    def _further(self, work: Path, like: Case) -> Iterator[tuple[Change, Path]]:
        """(change, a copy of the pair that has it as a case)."""
        search = self.search
        pair, run = load_pair(str(search.copy)), search.options.run
        some = list(changes(pair, like, run.seed, self.sources.values()))
        copy = work / "further" / pair.name
        shutil.copytree(search.copy, copy, symlinks=True)
        text = (copy / CASE).read_text(encoding="utf-8")
        (copy / CASE).write_text(with_cases(text, pair, run.preset, like, some))
        yield from ((change, copy) for change in some)

    def _look_with(self, change: Change, copy: Path, steps, allowed) -> None:
        """Try what nothing has shown yet with changed inputs."""
        search = self.search
        for step in steps:
            some = [one for one in self.left if not one.by]
            if time.monotonic() > search.until:
                return
            own = {f"{change.name}/{key.partition('/')[2]}": v for key, v in allowed[step].items()}
            with suppress(UserError), self._case(copy, step, change.name, own):
                self._asked(Path("paddle_model.py"), [])
                if search.crashed or search.off:
                    if self._is_red(copy, step, change):
                        self.itself.append(change)
                    return
                for one, tried in self._try(some):
                    if tried is None or tried.failed or tried.off:
                        one.by = change

    def _is_red(self, copy: Path, step: Step, change: Change) -> bool:
        """Return whether the pair is red with a change, as its own check says."""
        options = self.search.options
        run = replace(options.run, cases=(change.name,))
        options = replace(options, models=(str(copy),), run=run, out=copy.parent / "out")
        try:
            return bool(self.search._checked(step, options).exit_code)
        except UserError as error:
            return bool(crashed_at(error))

    def _ask_the_check(self, steps: Sequence[Step]) -> None:
        """Keep of what other inputs show what the whole check does not see."""
        for one in [one for one in self.left if one.by and not one.file.is_absolute()]:
            path, source = self.search.copy / one.file, self.sources[one.file].text
            path.write_bytes(one.edit.applied(source))
            for step in steps:
                try:
                    is_red = self.search.check(step).exit_code
                except UserError:
                    is_red = True
                if is_red:
                    one.seen = step.number
                    self.left.remove(one)
                    break
            path.write_bytes(source)

    def _write(self, work: Path, like: Case, chosen: list[Change], steps: Sequence[Step]) -> None:
        """Put cases into the pair's case.py, if the pair is as green with them."""
        search, pair = self.search, self.search.pair
        path = pair.folder / CASE
        text = path.read_text(encoding="utf-8")
        written = with_cases(text, pair, search.options.run.preset, like, chosen)
        copy = work / "written" / pair.name
        shutil.copytree(search.copy, copy, symlinks=True)
        (copy / CASE).write_text(written, encoding="utf-8")
        options = replace(search.options, models=(str(copy),), out=copy.parent / "out")
        green = all(search._checked(step, options).exit_code == 0 for step in steps)
        if green or self.itself:
            shutil.copyfile(path, path.with_name(f"{CASE}.orig"))
            with whole(path) as temporary:
                temporary.write_text(written, encoding="utf-8")
            self.written = chosen

    def as_json(self) -> dict[str, object]:
        """See the module's docstring."""
        seen = [one for one in self.planted if one.seen]
        unseen = [one for one in self.left if one.by]
        return {
            "schema": SCHEMA,
            "model": self.search.pair.name,
            "pair": str(self.search.pair.folder),
            "planted": len(self.planted),
            "seen": len(seen),
            "crashed": self.crashed,
            "same": len(self.left) - len(unseen),
            "unseen": [self._told(one) for one in unseen],
            "alike": [self._told(one) for one in self.left if not one.by],
            "itself": [list(one.lines) for one in self.itself],
            "undecided": len(self.undecided),
            "seconds": round(self.search.seconds, 1),
        }

    def _told(self, one: Planted) -> dict[str, object]:
        """Return the place of a mistake, its texts, and the lines of code that would show it."""
        source, own = self.sources[one.file], self.search.pair.folder
        line = source.text.count(b"\n", 0, one.edit.start) + 1
        file = one.file
        if not file.is_absolute():
            file = self.search.original(self.search.copy / file)
            file = file.relative_to(own) if file.is_relative_to(own) else file.name
        old, new = (
            " ".join(text.decode().split())
            for text in (source.text[one.edit.start : one.edit.end], one.edit.new)
        )
        return {
            "place": f"{file}:{line}",
            "old": old,
            "new": new,
            "shown": list(one.by.lines) if one.by else [],
        }

    def show(self) -> None:
        """Print how many mistakes would be seen, and those that would not."""
        told = self.as_json()
        unseen, name = told["unseen"], told["model"]
        counts = {key: told[key] for key in ("seen", "planted", "same")}
        report.say(Kind.POWER(model=name, **counts, unseen=len(unseen)))
        for lines in told["itself"]:
            report.say(Kind.PAIR_ITSELF_RED(model=name, lines=_without_copies(lines)))
        for one in unseen:
            old, new = (_short(one[key]) for key in ("old", "new"))
            made = Kind.MISTAKE if new else Kind.MISTAKE_LEFT_OUT
            report.say(made(place=one["place"], old=old, **({"new": new} if new else {})))
            report.say(Kind.SHOWN_WITH(lines=_without_copies(one["shown"])))
        if told["undecided"]:
            report.say(Kind.POWER_UNDECIDED(count=told["undecided"]))
        if self.written:
            path = self.search.pair.folder / CASE
            count = len(self.written)
            report.say(Kind.CASES_WRITTEN(path=shown(path), name=path.name, count=count))
        path = self.search.base / FILE
        report.say(Kind.RESULT_WRITTEN(path=shown(path), seconds=told["seconds"]))


def mistakes(source: Source, ran: AbstractSet[int]) -> Iterator[Edit]:
    """Yield the edits of lines that ran that a person may make of right code by mistake.

    What a person does to code that stays as it is is none: statements exchanged, or put into one
    another, arguments named.
    """
    starts = [source.span(one)[0] for one in ast.walk(source.tree) if isinstance(one, ast.stmt)]
    functions = (node for _, node in source.functions() if isinstance(node, ast.FunctionDef))
    some = (
        edit
        for node in functions
        for edit in edits(source, node, Values())
        if not (edit.new.startswith(NO_GRADIENT) and node.name in ("build", "__init__"))
    )
    likely = (
        one
        for one in some
        if (one.kind != "around" or one.new.endswith(DETACHED))
        and not IDLE_CHANGE.search(one.new)
        and (not one.new or sum(one.start <= at < one.end for at in starts) < 2)
    )
    yield from other_code(source, of_lines(source, likely, ran))


def _numbered(some: Sequence[Planted]) -> Iterator[tuple[Planted, tuple[int, int]]]:
    """Each with its number among those of its kind, so that all kinds come in turn."""
    counts: Counter[str] = Counter()
    for one in some:
        yield one, (counts[one.edit.kind], KINDS.index(one.edit.kind))
        counts[one.edit.kind] += 1


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 2]} \N{HORIZONTAL ELLIPSIS}"


def _without_copies(lines: Sequence[str]) -> str:
    return "; ".join(line for line in lines if "np.array(" not in line)
