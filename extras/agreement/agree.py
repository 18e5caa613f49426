"""Step 2's --agree DATA: on which examples do the sides choose otherwise, and does rounding decide?

The check's process: it reads and prepares the data in batches, has both sides answer the same
arrays in float32, each side going its own way, and has every example on which they differ run again
alone, in float64 and float32.  extras/agreement/agreement.py judges and says what is written.

What is done is kept beside the results until all of it is, for --resume:

    step2_metric/log/.checkpoints/MODEL/agree/last.json    what the batches depend on
                                             /NUMBER.json  what a batch came to
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from rich.table import Table

from twincheck.common.check.options import CheckOptions
from twincheck.common.check.result import shown
from twincheck.common.check.runner import base_folder
from twincheck.common.check.steps import Step
from twincheck.common.check.unfinished import Unfinished
from twincheck.common.logs.result_folder import AGREEMENT_FILE
from twincheck.common.report import terminal as report
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.npz import read_npz
from twincheck.common.system.reasons import reasons_json
from twincheck.extras.agreement import Kind, agreement
from twincheck.extras.agreement.agreement import Found
from twincheck.extras.agreement.choosing import ANSWERS, BATCHES, answer_file
from twincheck.extras.agreement.examples import Batch, Examples, open_examples
from twincheck.extras.shared.made_by import made_by
from twincheck.extras.shared.sides import Sides, asked, only_pair

BATCH_SIZE = 32
STEM = "agree"
OF_BATCHES = "answers.of-batches"  # the answers of a chunk, while its examples are run again
# A side is asked for a chunk of batches at a time: its model is built once for each, and what a
# chunk comes to is kept.  So a chunk should take long beside that, and hold little.
CHUNK_S, CHUNK_BYTES = 20.0, 1 << 28
AGAIN = 32  # examples that are run again at a time
SHOWN = 10  # disagreements in the terminal
DATA_WEIGHTS = "perturbed"  # as step 2 scores: weights as initialised hide faults


def agree(step: Step, options: CheckOptions, path: Path, size: int, json_path: Path | None) -> int:
    """Compare both sides' choices on the data at `path`; returns the exit status."""
    pair = only_pair(options, Kind.MODEL_MISSING())
    base, resume = base_folder(step, options), options.run.resume
    more = {"data_weights": DATA_WEIGHTS, "resume": False}
    with (
        report.progress() as on_progress,
        asked(pair, options, base, **more) as one,
        Unfinished(base, one.work, resume, Kind.AGREEMENT()) as unfinished,
    ):
        told = one.pair, one.case, one.run.seed, options.tokenizer, one.run.weights
        with (
            open_examples(path, *told) as data,
            one.sides("twincheck.extras.agreement.answers", STEM) as sides,
        ):
            notes = one.notes + unfinished.claim(one.pair)
            kept = unfinished.folder / one.pair.name / "agree"
            result = Agreeing(data, sides, kept, size, on_progress).result(path)
        result["notes"] = notes + result["notes"]
        place = base / one.pair.name / AGREEMENT_FILE
        place.parent.mkdir(exist_ok=True)
        write_json(place, result)
        unfinished.forget(one.pair)
    show(result, place)
    if json_path:
        write_json(json_path, result)
    return result["exit_code"]


@dataclass
class Chunk:
    """Batches that are answered together, in files of their own."""

    folder: Path
    batches: dict[int, Batch] = field(default_factory=dict)  # number -> it, without its arrays
    identities: dict[int, str] = field(default_factory=dict)
    bytes: int = 0

    def write(self, name: str, batch: Batch, at: dict[str, np.ndarray] | None = None) -> None:
        """Write a batch for both sides; `at` is choice -> the positions of wanted scores."""
        self.folder.mkdir(parents=True, exist_ok=True)
        arrays = {f"in/{key}": values for key, values in batch.arrays.items()}
        arrays |= {f"at/{key}": values for key, values in (at or {}).items()}
        self.bytes += sum(values.nbytes for values in arrays.values())
        np.savez(self.folder / f"{name}.npz", **arrays)


class Agreeing:
    """One agreement: what is done, and what is still to be done."""

    def __init__(
        self, examples: Examples, sides: Sides, kept: Path, size: int, on_progress: Callable
    ):
        self.examples, self.sides, self.kept, self.size = examples, sides, kept, size
        self.on_progress = on_progress
        self.started = time.monotonic()
        self.parts: dict[int, dict] = {}  # number of a batch -> what it came to
        self.diverged = 0
        self.notes: list[str] = []
        self._before, self._answered = 0, dict.fromkeys(SIDES, 0)  # examples

    def result(self, path: Path) -> dict[str, object]:
        """Go through the data; what agreement.json holds."""
        self._say(Kind.NOW_WEIGHTS())
        self._begin()
        self._go_on()
        try:
            total = agreement.summed([self.parts[number] for number in sorted(self.parts)])
        except ValueError as error:
            raise UserError(Kind.DATA_REFUSED(path=str(path), error=str(error))) from None
        run, pair = self.sides.run, self.sides.pair
        cars = {side: self.sides.sidecar(side) for side in SIDES}
        fed = hashlib.sha256("".join(p["fed"] for _, p in sorted(self.parts.items())).encode())
        arrays = next(iter(self.parts.values()))["arrays"]
        notes = [*self.notes, *self.examples.notes]
        if not self.sides.exact:
            notes.append(Kind.NO_FLOAT64_RUN())
        return {
            "schema": agreement.SCHEMA,
            "model": pair.name,
            "pair": str(pair.folder),
            "preset": run.preset,
            "weights": run.weights or DATA_WEIGHTS,
            "seed": run.seed,
            "device": run.device,
            "dtype": "float32",
            **made_by(cars),
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "elapsed_s": round(time.monotonic() - self.started, 3),
            "data": {
                "path": os.path.abspath(path),
                "kind": self.examples.kind,
                "examples": self.examples.count,
                "sha256": fed.hexdigest(),
                "arrays": arrays,
            },
            **total,
            "notes": notes,
            "reasons": reasons_json(notes),
        }

    # ---- the course of it -----------------------------------------------------------------------

    def _begin(self) -> None:
        """The first example alone: weights, faults that show at once, what batches depend on."""
        chunk = Chunk(self.sides.folder / BATCHES)
        chunk.write("first", self.examples.read(0, 1))
        self.sides.answer("float64")
        exact = [self._take("first", side, "float64") for side in SIDES]
        if all(each is not None for each in exact):
            self.notes += filter(None, [agreement.another_function(*exact)])
        self.sides.answer("float32")
        self._clear()
        cars = [self.sides.sidecar(side) for side in SIDES]
        depends = {
            "size": self.size,
            "sides": [
                [car.sources, car.workbench_sha256, car.weights_sha256, car.framework_version]
                for car in cars
            ],
            "run": [self.sides.run.preset, self.sides.run.seed, self.sides.run.device],
            "transplant": self.sides.run.transplant,
        }
        self.kept.mkdir(parents=True, exist_ok=True)
        last = self.kept / "last.json"
        former = load_json(last) if last.is_file() else depends
        changed = [name for name in depends if former.get(name) != depends[name]]
        if changed:
            raise UserError(Kind.RESUME_OF_ANOTHER(changed=changed))
        write_json(last, depends)

    def _go_on(self) -> None:
        """Every batch that is not done, a chunk at a time; the next is read meanwhile."""
        left = self._left()
        self.diverged = sum(
            each["verdict"] == "DIVERGED"
            for p in self.parts.values()
            for each in p["disagreements"]
        )
        count = 1
        self.sides.on_batch = self._batch_answered
        chunk, problem = self._read(left, count)
        while chunk is not None and chunk.batches:
            shutil.rmtree(self.sides.folder / BATCHES, ignore_errors=True)
            os.replace(chunk.folder, self.sides.folder / BATCHES)
            started = time.monotonic()
            reading = partial(self._read, left, count) if problem is None else lambda: (None, None)
            ahead = self.sides.answer("float32", reading)
            if time.monotonic() - started < CHUNK_S / 2 and chunk.bytes < CHUNK_BYTES / 2:
                count *= 2
            self._conclude(chunk)
            if problem is not None:
                raise problem
            chunk, problem = ahead
        if problem is not None:
            raise problem

    def _left(self) -> Iterator[tuple[int, str, int, int]]:
        """(number, identity, first, last + 1) of each batch that is not done; takes what is."""
        left = []
        for number, (first, last) in enumerate(self.examples.parts(self.size)):
            identity = hashlib.sha256(self.examples.identity(first, last).encode()).hexdigest()
            path = self.kept / f"{number:06d}.json"
            former = load_json(path) if path.is_file() else {}
            if former.get("identity") == identity:
                self.parts[number] = former
                self._before += last - first
            else:
                left.append((number, identity, first, last))
        return iter(left)

    def _read(self, left: Iterator, count: int) -> tuple[Chunk | None, UserError | None]:
        """The next chunk, of so many batches or of CHUNK_BYTES; what went wrong behind it."""
        chunk = Chunk(self.sides.folder / f"{BATCHES}.next")
        shutil.rmtree(chunk.folder, ignore_errors=True)
        for number, identity, first, last in islice(left, count):
            try:
                batch = self.examples.read(first, last)
            except UserError as error:
                return chunk, error
            chunk.write(f"{number:06d}", batch)
            arrays = {k: f"{v.dtype}{list(v.shape[1:])}" for k, v in batch.arrays.items()}
            chunk.batches[number] = replace(batch, arrays=arrays)
            chunk.identities[number] = identity
            if chunk.bytes >= CHUNK_BYTES:
                break
        return chunk, None

    def _conclude(self, chunk: Chunk) -> None:
        """Compare both sides' answers to a chunk, judge what differs, and keep what it came to."""
        waiting: list[tuple[int, Found]] = []
        for number, batch in chunk.batches.items():
            name = f"{number:06d}"
            answers = [self._take(name, side, "float32") for side in SIDES]
            count = len(batch.sources)
            try:
                counts, found = agreement.compare(*answers, batch.mask)
            except ValueError as error:
                where = {"first": batch.first, "last": batch.first + count - 1}
                raise UserError(Kind.EXAMPLES_NOT_COMPARED(**where, error=str(error))) from None
            self.parts[number] = {
                "identity": chunk.identities[number],
                "fed": answers[0]["fed"].tobytes().hex(),
                "arrays": batch.arrays,
                "choices": counts,
                "disagreements": [],
                "unjudged": 0,
            }
            waiting += [(number, each) for each in found]
        whole = {
            number: read_npz(self.sides.folder / BATCHES / f"{number:06d}.npz")
            for number in {number for number, _ in waiting}
        }
        shutil.rmtree(self.sides.folder / OF_BATCHES, ignore_errors=True)
        os.replace(self.sides.folder / ANSWERS, self.sides.folder / OF_BATCHES)
        waiting.sort(key=lambda each: each[1].rank)
        while waiting and self.diverged < agreement.STOP:
            of_these = list(dict.fromkeys((n, each.row) for n, each in waiting))[:AGAIN]
            some = [each for each in waiting if (each[0], each[1].row) in of_these]
            waiting = [each for each in waiting if (each[0], each[1].row) not in of_these]
            self._judge(chunk, whole, of_these, some)
        for number, _ in waiting:
            self.parts[number]["unjudged"] += 1
        for number in chunk.batches:
            write_json(self.kept / f"{number:06d}.json", self.parts[number])
        self._clear()

    def _judge(self, chunk: Chunk, whole, rows: list[tuple[int, int]], found) -> None:
        """Run the examples (batch, row) again, each alone, and judge what was found of them."""
        self._say(Kind.NOW_AGAIN(count=len(rows)))
        self._clear()
        again = Chunk(self.sides.folder / BATCHES)
        places: dict[tuple[int, int, str], list[tuple[int, ...]]] = {}
        for number, each in found:
            positions = places.setdefault((number, each.row, each.choice), [])
            if each.position not in positions:
                positions.append(each.position)
        for number, row in rows:
            arrays = {k[3:]: v[row : row + 1] for k, v in whole[number].items()}
            at = {
                choice: np.array([(0, *where) for where in wanted])
                for (n, r, choice), wanted in places.items()
                if (n, r) == (number, row)
            }
            again.write(f"{number:06d}_{row}", Batch(0, arrays), at)
        on_batch, self.sides.on_batch = self.sides.on_batch, lambda side: None
        if self.sides.exact:
            self.sides.answer("float64")
        self.sides.answer("float32")
        self.sides.on_batch = on_batch
        runs = [(side, dtype) for side in SIDES for dtype in ("float64", "float32")]
        for number, row in rows:
            name = f"{number:06d}_{row}"
            answers = {run: self._take(name, *run) for run in runs}
            answers = {run: each for run, each in answers.items() if each is not None}
            for _, each in (one for one in found if (one[0], one[1].row) == (number, row)):
                at = places[number, row, each.choice].index(each.position)
                told = self._verdict(each, number, answers, at)
                self.diverged += told["verdict"] == "DIVERGED"
                batch = chunk.batches[number]
                where = {"example": batch.first + row, "source": batch.sources[row]}
                self.parts[number]["disagreements"].append(where | told)

    def _verdict(self, found: Found, number: int, answers, at: int) -> dict[str, object]:
        """What agreement.json has of a decision; `at` is its place among the wanted positions."""
        key = f"scores/{found.choice}"
        if any(key in each for each in answers.values()):
            return agreement.judge(found, {run: each[key][at] for run, each in answers.items()})
        row = slice(found.row, found.row + 1)
        for side in SIDES:
            path = answer_file(self.sides.folder, f"{number:06d}", side, "float32")
            of_batch = read_npz(self.sides.folder / OF_BATCHES / path.name)
            answers |= {(side, "batch"): {k: v[row] for k, v in of_batch.items() if "out/" in k}}
        outputs = {
            run: {k[4:]: v for k, v in each.items() if k.startswith("out/")}
            for run, each in answers.items()
        }
        return agreement.judge_integers(found, outputs)

    def _take(self, batch: str, side: str, dtype: str) -> dict[str, np.ndarray] | None:
        """A side's answer to a batch; None where there is none in that precision."""
        path = answer_file(self.sides.folder, batch, side, dtype)
        return read_npz(path) if path.is_file() else None

    def _clear(self) -> None:
        for name in (BATCHES, ANSWERS):  # not OF_BATCHES: it is still needed
            shutil.rmtree(self.sides.folder / name, ignore_errors=True)

    # ---- how far it is --------------------------------------------------------------------------

    def _batch_answered(self, side: str) -> None:
        self._answered[side] += self.size
        self._say()

    def _say(self, what: str = "") -> None:
        done = self._before + sum(self._answered.values()) // len(SIDES)
        done, count = min(done, self.examples.count), self.examples.count
        now = Kind.NOW(done=done, count=count)
        self.on_progress(Kind.NOW_DOING(now=now, what=what) if what else now, done / count)


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
            place = [str(each["example"]), *map(str, each["position"])]
            place = Kind.EXAMPLE_AT(place=[*place, report.visible(each["source"])])
            chosen = [str(each[side]) for side in SIDES]
            numbers = [report.number(each[key]) for key in ("margin", "allowed")]
            table.add_row(place, str(each["rank"]), *chosen, *numbers, each["verdict"])
        report.show_table(table)
        for said in dict.fromkeys(each["said"] for each in result["disagreements"][:SHOWN]):
            report.say(said)
    for note in result["notes"]:
        report.say(note)
    report.say(Kind.WRITTEN(path=shown(place)))
