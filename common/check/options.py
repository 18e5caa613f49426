"""What a check is asked for: what its workers are told, and what concerns the check alone.

And a command's parser, which takes options by their names, of those that are declared as fields: an
option that a command does not take is an error there, and not in its --help.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import NoReturn

from twincheck.common.pair.case_hooks import reads_file
from twincheck.common.pair.option import Option, option, options_of
from twincheck.common.pair.pairs import BOTH, Pair, built_in_models, load_pairs
from twincheck.common.pair.request import RunRequest
from twincheck.common.report import terminal as report
from twincheck.common.system import program
from twincheck.common.system.checkout import for_logs
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import load
from twincheck.common.system.frameworks import SIDES, is_graph
from twincheck.common.system.half import HALF
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import did_you_mean
from twincheck.common.transplant.table import TRANSPLANTS

# Groups of options that some steps do not take.
_OF_STEPS = ("cases", "half", "probes", "training", "optimizers")


# What declares an option of a group.
_judging, _output = (partial(option, of=group, judges=True) for group in ("judging", "output"))
_pythons, _reference, _data = (partial(option, of=of) for of in ("pythons", "reference", "data"))


@dataclass(frozen=True)
class CheckOptions:
    """The command line of a check."""

    run: RunRequest = RunRequest()  # what every worker is told, whichever its model
    models: tuple[str, ...] = option(
        ("all",),
        Kind.OPTION_MODEL(),
        of="run",
        name="model",
        judges=True,
        default=None,
        metavar="NAME|FOLDER",
    )
    out: Path | None = option(None, Kind.OPTION_OUT(), of="logs", judges=True, metavar="DIR")
    compare_only: bool = _judging(False, Kind.OPTION_COMPARE_ONLY())
    allow: tuple[str, ...] = _judging(
        (), Kind.OPTION_ALLOW(), choices=("precision", "undecided", "nan")
    )
    strict: bool = _judging(False, Kind.OPTION_STRICT())
    torch_python: str | None = _pythons(None, Kind.OPTION_TORCH_PYTHON(), metavar="PATH")
    paddle_python: str | None = _pythons(None, Kind.OPTION_PADDLE_PYTHON(), metavar="PATH")
    json: Path | None = _output(None, Kind.OPTION_JSON(), metavar="FILE")
    no_report: bool = _output(False, Kind.OPTION_NO_REPORT())
    reuse: str | None = _reference(None, Kind.OPTION_REUSE(), choices=("torch",))
    reference: Path | None = _reference(None, Kind.OPTION_REFERENCE(), metavar="DIR")
    lang: str | None = option(
        None, Kind.OPTION_LANG(), of="people", judges=True, choices=("en", "zh")
    )
    data: Path | None = _data(None, Kind.OPTION_DATA(), metavar="PATH")
    tokenizer: Path | None = _data(None, Kind.OPTION_TOKENIZER(), metavar="FILE")
    typed: tuple[tuple[str, tuple[str, ...]], ...] = ()  # option -> words, as they were typed
    judging: tuple[str, ...] = ()  # further options that mean something with --compare-only
    shared: bool = False  # by several steps, of which one may not use all that is given

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "CheckOptions":
        """Options from a parsed command line; what its parser does not take is as by default."""

        def given(declared: type) -> dict[str, object]:
            options = options_of(declared).items()
            values = {n: getattr(arguments, o.name.replace("-", "_"), None) for n, o in options}
            told = {name: value for name, value in values.items() if value not in (None, [])}
            return {n: tuple(v) if isinstance(v, list) else v for n, v in told.items()}

        typed = getattr(arguments, "typed", ())
        made = cls(run=RunRequest(**given(RunRequest)), typed=typed, **given(cls))
        if made.run.backends == SIDES:
            return made
        beside = f"{made.run.candidate}-against-{made.run.against}"  # not in the port's place
        run = replace(made.run, no_probe=made.run.no_probe or any(map(is_graph, made.run.backends)))
        return replace(made, run=run, out=(made.out or for_logs() / "log") / beside)

    @property
    def pythons(self) -> dict[str, str | None]:
        """Side -> the Python that was given for it."""
        return {side: getattr(self, f"{side}_python") for side in SIDES}

    def taken_by(self, names: Sequence[str]) -> "CheckOptions":
        """Return the options for a step that takes these; all others are as by default."""
        options = options_of(RunRequest).items()
        left = [dest for dest, one in options if one.of in _OF_STEPS and one.name not in names]
        run = replace(self.run, **{dest: getattr(RunRequest, dest) for dest in left})
        typed = tuple((n, words) for n, words in self.typed if n in names and n != "json")
        return replace(self, run=run, typed=typed, shared=True)

    def refuse_contradictions(self) -> None:
        """Raise UserError where two options exclude each other, or one has nothing to do."""
        given = ("compare_only", "reuse", "reference")
        names = [f"--{name.replace('_', '-')}" for name in given if getattr(self, name)]
        if len(names) > 1:
            _refuse_several(names)
        if self.run.backends != SIDES and (self.reuse or self.reference):
            raise UserError(Kind.AGAINST_USES_NO_LOGS(option=names[0]))
        if self.reference is not None and self.pythons.get("torch"):
            raise UserError(Kind.TORCH_PYTHON_WITH_REFERENCE())
        judging = {*OF_JUDGING, *self.judging}
        idle = [f"--{name}" for name, _ in self.typed if name not in judging]
        if self.compare_only and idle:
            raise UserError(Kind.COMPARE_ONLY_RUNS_NOTHING(options=", ".join(idle)))
        if self.run.autocast and self.run.dtype not in HALF:
            raise UserError(Kind.AUTOCAST_WITHOUT_DTYPE(first=HALF[0], second=HALF[1]))
        graph = any(map(is_graph, self.run.backends))
        if graph and (self.run.probes or self.run.dtype in HALF):
            given = "--probe" if self.run.probes else f"--dtype {self.run.dtype}"
            raise UserError(Kind.GRAPH_IS_CLOSED(option=given))
        if self.run.probes and self.run.no_probe:
            _refuse_several(["--probe", "--no-probe"])


def _refuse_several(names: Sequence[str]) -> NoReturn:
    both = reduce(lambda first, second: Kind.BOTH(first=first, second=second), names)
    raise UserError(Kind.OPTIONS_EXCLUDE_EACH_OTHER(options=both))


# Name -> the option, each declared once: the check's own, then those of what a side is asked.
OPTIONS: dict[str, Option] = {
    one.name: one
    for declared in (CheckOptions, RunRequest)
    for one in options_of(declared).values()
}


# ---- the command line ---------------------------------------------------------------------------


def at_least(least: int) -> Callable[[str], int]:
    """Return a function that reads a whole number from `least` on."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(Kind.NUMBER_TOO_SMALL(text=text, least=least))
        return int(text)

    return number


natural, positive = at_least(0), at_least(1)


def of(*groups: str) -> tuple[str, ...]:
    """The options of some groups, in the order of --help: the check's own of a group come first."""
    return tuple(name for group in groups for name, one in OPTIONS.items() if one.of == group)


OF_EVERY_CHECK = of("run", "logs", "judging", "pythons", "output")
OF_JUDGING = tuple(name for name, one in OPTIONS.items() if one.judges)
HELP = "help"  # as a value: lists what the option takes
# Options that take it, beside those with choices.
LISTED = ("model", "preset", "case", "transplant")


class Parser(program.Parser):
    """A command's parser that takes options by their names.

    What it has parsed has `typed`: option -> words, as the command line gave them.
    """

    def take(self, *names: str) -> "Parser":
        """Take options of the table."""
        for name in names:
            self.take_other(name)
        return self

    def take_other(self, name: str, **other: object) -> "Parser":
        """Take an option of the table, in a meaning that differs in what is given."""
        one = OPTIONS[name]
        number = {} if one.least is None else {"type": at_least(one.least)}
        self.add_argument(f"--{name}", **{**number, **one.told, **other})
        return self

    def parse_args(self, args=None) -> argparse.Namespace:
        """Parse a command line; `--preset help` and its like list values, and end there."""
        words = list(sys.argv[1:] if args is None else args)
        asked, others = self._values_asked_for(words)
        if asked:
            for action in self._actions:
                action.required = False
            self.exit(_show_values(asked, super().parse_args(others)))
        # None till it is typed, which no option's value is.
        usual = dict.fromkeys(action.dest for action in self._actions if action.dest != HELP)
        told, unknown = self.parse_known_args(words, argparse.Namespace(**usual))
        if unknown:
            self._refuse(unknown)
        given = {dest: value for dest, value in vars(told).items() if value is not None}
        typed = tuple(
            (option.removeprefix("--"), tuple(_words(option, action, given[action.dest])))
            for action in self._actions
            for option in action.option_strings[-1:]
            if action.dest in given
        )
        usual = {dest: copy(self.get_default(dest)) for dest in usual}
        return argparse.Namespace(**usual | given, typed=typed)

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        names = [word.partition("=")[0] for text in unknown for word in text.split()]
        names = [name for name in names if name.startswith("-")] or names
        taken = [option for action in self._actions for option in action.option_strings]
        elsewhere = all(name.removeprefix("--") in OPTIONS for name in names)
        kind = Kind.OPTION_HAS_NO_USE_HERE if elsewhere else Kind.OPTION_UNKNOWN
        self.error(kind(options=", ".join(names), meant=did_you_mean(names[0], taken)))

    def _values_asked_for(self, words: Sequence[str]) -> tuple[list[Option], list[str]]:
        """The options whose values are asked for, and the words beside them."""
        taken = {option for action in self._actions for option in action.option_strings}
        asked, others = [], []
        for word in words:
            name, is_joined, value = word.partition("=")
            name = name if is_joined else "".join(others[-1:])
            one = OPTIONS.get(name.removeprefix("--")) if name in taken else None
            lists = one is not None and (one.name in LISTED or one.told.get("choices"))
            if lists and (value if is_joined else word) == HELP:
                asked.append(one)
                others = others if is_joined else others[:-1]
            else:
                others.append(word)
        return asked, others


def _words(option: str, action: argparse.Action, value: object) -> list[str]:
    """An option as it is typed; a value that begins with a dash goes behind a `=`."""
    if action.nargs == 0:
        return [option]
    words = []
    for text in map(str, value if isinstance(value, list) else [value]):
        words += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return words


def _show_values(asked: Sequence[Option], told: argparse.Namespace) -> int:
    """Print what options take; returns the exit status.

    told     what the rest of the command line says
    """

    def show() -> int:
        for one in asked:
            for line in _lines(one, told):
                report.say(line)
        return 0

    return program.guarded(getattr(told, "debug", False), show)


def _lines(one: Option, told: argparse.Namespace) -> list[str]:
    name = one.name
    if name == "model":
        return [Kind.MODELS_LISTED(models=", ".join(built_in_models()))]
    if name == "transplant":
        return [f"--transplant: {load(TRANSPLANTS, 'listed')()}"]
    if name in ("preset", "case"):
        models = told.model if isinstance(told.model, list) else [told.model or "all"]
        preset = getattr(told, "preset", "default")
        return [_of_model(name, pair, preset, told) for pair in load_pairs(models)]
    return [f"--{name}: {', '.join(one.told['choices'])}"]


def _of_model(name: str, pair: Pair, preset: str, told: argparse.Namespace) -> str:
    if name == "preset":
        values = [
            Kind.PRESET_READS_FILE(preset=str(known)) if reads_file(pair, known) else str(known)
            for known in pair.case.CONFIGS
        ]
        return Kind.PRESETS_LISTED(model=pair.name, presets=", ".join(values))
    weights, mode = getattr(told, "weights", None), getattr(told, "mode", BOTH)
    cases = pair.cases(preset, weights, mode, decode=True)
    names = ", ".join(case.name or "main" for case in cases)
    return Kind.CASES_LISTED(model=pair.name, preset=preset, cases=names)
