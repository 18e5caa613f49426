"""Step 2's --agree DATA: on which examples do the sides choose otherwise, and does rounding decide?

The check's process: it reads and prepares the data in batches, has both sides answer the same
arrays in float32, each side going its own way, and has every example on which they differ run again
alone, in float64 and float32.  extras/agreement/agreement.py judges and says what is written.
"""

import hashlib
import os
import shutil
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from rich.table import Table

from twincheck.common.check.command_line import Added
from twincheck.common.check.options import CheckOptions, Parser, positive
from twincheck.common.check.result import shown
from twincheck.common.check.runner import base_folder
from twincheck.common.check.steps import Step
from twincheck.common.logs.result_folder import AGREEMENT_FILE
from twincheck.common.report import terminal as report
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import write_json
from twincheck.common.system.npz import read_npz
from twincheck.common.system.reasons import reasons_json
from twincheck.extras.agreement import Kind, agreement
from twincheck.extras.agreement.agreement import Found
from twincheck.extras.agreement.choosing import ANSWERS, BATCHES
from twincheck.extras.agreement.examples import Batch, Examples
from twincheck.extras.shared.made_by import made_by
from twincheck.extras.shared.sides import Sides, asked, only_pair

BATCH_SIZE = 32
STEM = "agree"
# A side is asked for so many batches at a time: its model is built once for each such chunk.
CHUNK, CHUNK_BYTES = 64, 1 << 28
AGAIN = 32  # examples that are run again at a time
SHOWN = 10  # disagreements in the terminal
DATA_WEIGHTS = "perturbed"  # as step 2 scores: weights as initialised hide faults
# What --agree goes by; other options of this check mean nothing there.
OF_AGREEMENT = (
    *("agree", "batch-size", "model", "preset", "device", "seed", "weights", "out", "tokenizer"),
    *("transplant", "torch-python", "paddle-python", "json", "lang", "debug"),
)

Answers = dict[str, dict[str, np.ndarray]]  # side -> what it answers


def add(parser: Parser) -> None:
    """Give the check's parser the options."""
    group = parser.add_argument_group(Kind.OPTIONS())
    group.add_argument("--agree", type=Path, metavar="DATA", help=Kind.HELP_AGREE())
    size = Kind.HELP_BATCH_SIZE(size=BATCH_SIZE)
    group.add_argument("--batch-size", type=positive, metavar="N", help=size)


def run(step: Step, given: Namespace) -> int:
    """Compare both sides' choices on the data that are named; returns the exit status."""
    if given.agree is None:
        raise UserError(Kind.AGREE_MISSING())
    idle = [f"--{name}" for name, _ in given.typed if name not in OF_AGREEMENT]
    if idle:
        raise UserError(Kind.OPTIONS_IDLE(options=idle))
    options, path = CheckOptions.of(given), given.agree
    pair = only_pair(options, Kind.MODEL_MISSING())
    base = base_folder(step, options)
    with (
        report.progress() as on_progress,
        asked(pair, options, base, data_weights=DATA_WEIGHTS) as one,
    ):
        weights, tokenizer = one.run.weights, options.tokenizer
        data = Examples(path, one.pair, one.case, one.run.seed, tokenizer, weights)
        with one.sides("twincheck.extras.agreement.answers", STEM) as sides:
            size = given.batch_size or BATCH_SIZE
            result = Agreeing(data, sides, size, on_progress).result(path, one.notes)
        place = base / one.pair.name / AGREEMENT_FILE
        place.parent.mkdir(exist_ok=True)
        write_json(place, result)
    show(result, place)
    if given.json:
        write_json(given.json, result)
    return result["exit_code"]


ADDED = Added(add, ("agree", "batch-size"), run)


class Agreeing:
    """One agreement: what is done, and what is still to be done."""

    def __init__(self, examples: Examples, sides: Sides, size: int, on_progress: Callable):
        self.examples, self.sides, self.size = examples, sides, size
        self.on_progress = on_progress
        self.started = time.monotonic()
        self.parts: list[dict] = []  # what each batch came to
        self.diverged = 0
        sides.told = lambda side, what: self._say(f"{side}: {what}")

    def result(self, path: Path, notes: list[str]) -> dict[str, object]:
        """Go through the data; what agreement.json holds."""
        self._say(Kind.NOW_WEIGHTS())
        notes = notes + self._first_example()
        batches: list[Batch] = []
        for first in range(0, self.examples.count, self.size):
            last = min(first + self.size, self.examples.count)
            batches.append(self.examples.read(first, last))
            read = sum(a.nbytes for one in batches for a in one.arrays.values())
            if len(batches) == CHUNK or read >= CHUNK_BYTES or last == self.examples.count:
                self._answer(batches)
                batches = []
        try:
            total = agreement.summed(self.parts)
        except ValueError as error:
            raise UserError(Kind.DATA_REFUSED(path=str(path), error=str(error))) from None
        asked_for, pair = self.sides.run, self.sides.pair
        fed = "".join(part["fed"] for part in self.parts)
        notes += self.examples.notes
        if not self.sides.exact:
            notes.append(Kind.NO_FLOAT64_RUN())
        return {
            "schema": agreement.SCHEMA,
            "model": pair.name,
            "pair": str(pair.folder),
            "preset": asked_for.preset,
            "weights": asked_for.weights or DATA_WEIGHTS,
            "seed": asked_for.seed,
            "device": asked_for.device,
            "dtype": "float32",
            **made_by({side: self.sides.sidecar(side) for side in SIDES}),
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "elapsed_s": round(time.monotonic() - self.started, 3),
            "data": {
                "path": os.path.abspath(path),
                "kind": self.examples.kind,
                "examples": self.examples.count,
                "sha256": hashlib.sha256(fed.encode()).hexdigest(),
                "arrays": self.parts[0]["arrays"],
            },
            **total,
            "notes": notes,
            "reasons": reasons_json(notes),
        }

    # ---- the course of it -----------------------------------------------------------------------

    def _first_example(self) -> list[str]:
        """Have the first example answered alone: it makes the weights, and may show a fault."""
        first = {"first": _inputs(self.examples.read(0, 1).arrays)}
        both = list(dict(self._ask(first, "float64"))["first"].values())
        return [note for note in [agreement.another_function(*both)] if note] if both[1:] else []

    def _ask(
        self, batches: dict[str, dict[str, np.ndarray]], dtype: str
    ) -> Iterator[tuple[str, Answers]]:
        """Have both sides answer batches, by name; yields each side's answer where it has one."""
        folders = [self.sides.folder / name for name in (BATCHES, ANSWERS)]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        folders[0].mkdir(parents=True)
        for name, arrays in batches.items():
            np.savez(folders[0] / f"{name}.npz", **arrays)
        self.sides.answer(dtype)
        for name in batches:
            paths = {side: folders[1] / f"{name}_{side}.npz" for side in SIDES}
            yield name, {side: read_npz(path) for side, path in paths.items() if path.is_file()}

    def _answer(self, batches: list[Batch]) -> None:
        """Have batches answered, and judge what differs, the first ranks first."""
        self._say()
        given = {str(batch.first): _inputs(batch.arrays) for batch in batches}
        found: list[tuple[Batch, dict, Found]] = []
        for batch, (_, answers) in zip(batches, self._ask(given, "float32"), strict=True):
            try:
                counts, some = agreement.compare(answers, batch.mask)
            except ValueError as error:
                where = {"first": batch.first, "last": batch.first + len(batch.sources) - 1}
                raise UserError(Kind.EXAMPLES_NOT_COMPARED(**where, error=str(error))) from None
            part = {
                "fed": answers["torch"]["fed"].tobytes().hex(),
                "arrays": {k: f"{v.dtype}{list(v.shape[1:])}" for k, v in batch.arrays.items()},
                "choices": counts,
                "disagreements": [],
                "unjudged": 0,
            }
            self.parts.append(part)
            found += [(batch, part, each) for each in some]
        examples: dict[int, list[tuple[Batch, dict, Found]]] = {}
        for batch, part, each in sorted(found, key=lambda one: one[2].rank):
            examples.setdefault(batch.first + each.row, []).append((batch, part, each))
        numbers = list(examples)
        for first in range(0, len(numbers), AGAIN):
            some = {number: examples[number] for number in numbers[first : first + AGAIN]}
            if self.diverged < agreement.STOP:
                self._judge(some)
                continue
            for _, part, _ in (each for several in some.values() for each in several):
                part["unjudged"] += 1

    def _judge(self, examples: dict[int, list[tuple[Batch, dict, Found]]]) -> None:
        """Run examples, by their numbers, again, each alone, and judge what was found of them."""
        self._say(Kind.NOW_AGAIN(count=len(examples)))
        again = {}
        for number, some in examples.items():
            batch, row = some[0][0], some[0][2].row
            places: dict[str, list] = {}
            for _, _, each in some:
                places.setdefault(f"at/{each.choice}", []).append((0, *each.position))
            at = {key: np.array(positions) for key, positions in places.items()}
            again[str(number)] = (
                _inputs({k: v[row : row + 1] for k, v in batch.arrays.items()}) | at
            )
        dtypes = ("float64", "float32") if self.sides.exact else ("float32",)
        runs: dict[str, dict] = {name: {} for name in again}
        for dtype in dtypes:
            for name, answers in self._ask(again, dtype):
                runs[name] |= {(side, dtype): each for side, each in answers.items()}
        for number, some in examples.items():
            seen = dict.fromkeys((each.choice for _, _, each in some), 0)
            for batch, part, each in some:
                told = agreement.judge(each, runs[str(number)], seen[each.choice])
                seen[each.choice] += 1
                self.diverged += told["verdict"] == "DIVERGED"
                where = {"example": number, "source": batch.sources[each.row]}
                part["disagreements"].append(where | told)

    def _say(self, what: str = "") -> None:
        count = self.examples.count
        done = min(len(self.parts) * self.size, count)
        now = Kind.NOW(done=done, count=count)
        self.on_progress(Kind.NOW_DOING(now=now, what=what) if what else now, done / count)


def _inputs(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"in/{name}": values for name, values in arrays.items()}


# ---- what people see ----------------------------------------------------------------------------


def show(result: dict, place: Path) -> None:
    """Shares beside the thresholds, then the disagreements that decide first."""
    said = {"count": result["data"]["examples"], "verdict": result["verdict"]}
    report.say(Kind.RESULT(model=result["model"], **said))
    table = Table(box=None, pad_edge=False)
    table.add_column(Kind.COLUMN_CHOICE())
    asked = Kind.COLUMN_MAINTAINERS, Kind.COLUMN_OURS, Kind.COLUMN_SCORES
    for heading in (Kind.COLUMN_EQUAL, Kind.COLUMN_OF_ALL, Kind.COLUMN_SHARE, *asked):
        table.add_column(heading(), justify="right")
    ours = Kind.OURS_FAIL() if result["exit_code"] else Kind.OURS_PASSED()
    for choice in result["choices"]:
        by = Kind.BY_SCORES() if choice["by"] == "top" else Kind.BY_HOOK()
        rows = [(by, *choice["top1"].values())]
        top = choice["top5"]
        if top:
            rows.append((Kind.TOP_AS_SETS(count=top["k"]), top["same_set"], top["set_share"]))
            rows.append((Kind.TOP_IN_ORDER(count=top["k"]), top["same_order"], top["order_share"]))
        for i, (what, equal, share) in enumerate(rows):
            reached = Kind.ASKED_REACHED if share >= agreement.MAINTAINERS else Kind.ASKED_FAIL
            asked = reached(share=agreement.MAINTAINERS) if i == 0 else ""
            of = f"{choice['decisions']:,}"
            name = Kind.CHOICE_BY(name=report.visible(choice["name"]), what=what)
            cells = [name, f"{equal:,}", of, f"{share:.3%}", asked, "" if i else ours]
            scores, apart = choice["scores"] if i == 0 else None, ""
            if scores:
                largest = report.number(scores["largest"])
                apart = Kind.APART_OF(apart=largest, scale=scores["of"])
            table.add_row(*cells, apart)
    report.show_table(table)
    words = {"disagreements": Kind.DISAGREEMENTS(), "unjudged": Kind.UNJUDGED()}
    counts = {words.get(word, word): count for word, count in result["counts"].items() if count}
    counts = [Kind.COUNT_OF(count=count, what=word) for word, count in counts.items()]
    report.say(Kind.COUNTED(counts=counts) if counts else Kind.EVERY_CHOICE_THE_SAME())
    if result["disagreements"]:
        table = Table(box=None, pad_edge=False)
        numbers = Kind.COLUMN_MARGIN(), Kind.COLUMN_ALLOWED(), Kind.COLUMN_VERDICT()
        for heading in (Kind.COLUMN_EXAMPLE(), Kind.COLUMN_RANK(), *SIDES, *numbers):
            table.add_column(heading, overflow="fold")
        for each in result["disagreements"][:SHOWN]:
            where = [str(each["example"]), *map(str, each["position"])]
            where = Kind.EXAMPLE_AT(place=[*where, report.visible(each["source"])])
            chosen = [str(each[side]) for side in SIDES]
            numbers = [report.number(each[key]) for key in ("margin", "allowed")]
            table.add_row(where, str(each["rank"]), *chosen, *numbers, each["verdict"])
        report.show_table(table)
        for said in dict.fromkeys(each["said"] for each in result["disagreements"][:SHOWN]):
            report.say(said)
    for note in result["notes"]:
        report.say(note)
    report.say(Kind.WRITTEN(path=shown(place)))
