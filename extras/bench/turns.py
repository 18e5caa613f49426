"""Two or more processes that take turns, one step each, and what their steps took."""

import json
import statistics
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from twincheck.common.system.checkout import ROOT
from twincheck.common.system.processes import environment
from twincheck.extras.bench import Kind
from twincheck.extras.bench.comparisons import MEGA, OF_GRADIENTS, Comparison, Program, Series

ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# For memory, what is freed must go back to the system: large arrays one by one, at every size, or
# holes between them count as the model's.
KEEPS_MEMORY = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_")
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
STEPS_OF_A_POINT = 2
LAST_LINES = 2
WALL, CPU, MEMORY = "wall", "cpu", "memory"


class BenchError(Exception):
    """A row that cannot be measured: a sentence says why."""


class Process:
    """One side's process (extras/bench/side.py)."""

    def __init__(self, program: Program, python: str, folder: Path, lean: bool = False):
        self.program, self.said = program, folder / f"{program.name}_said.txt"
        request = folder / f"{program.name}.json"
        asked = {"program": program.program or program.name, "setting": program.setting}
        request.write_text(json.dumps(asked))
        variables = environment() | dict.fromkeys(ONE_THREAD, "1") | {"BENCH_FOLDER": str(folder)}
        if lean:
            variables = {k: v for k, v in variables.items() if k not in KEEPS_MEMORY} | GIVES_BACK
        side = str(ROOT / "extras" / "bench" / "side.py")
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [python, "-P", "-W", "ignore", side, str(request)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env=variables,
                text=True,
            )

    def __enter__(self):
        try:
            self.read()
        except BaseException:
            self.__exit__(True)
            raise
        return self

    def __exit__(self, *problem):
        self.process.stdin.close()
        if problem[0] is not None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def step(self) -> dict:
        """Let it do one step; what that took."""
        try:
            print("step", file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # what it said last is the reason
        return self.read()

    def read(self) -> dict:
        """Its next answer; raises BenchError where it ended instead."""
        line = self.process.stdout.readline()
        if not line:
            said = self.said.read_text(errors="replace").strip().splitlines()[-LAST_LINES:]
            said = " ".join(said) or Kind.SAID_NOTHING()
            raise BenchError(Kind.PROGRAM_ENDED(program=self.program.name, said=said))
        return json.loads(line)


def measure_comparison(
    one: Comparison, pythons: dict[str, str], repetitions: int, folder: Path
) -> dict:
    """Both sides in turn: what each step took, ratios of the medians and of single turns."""
    of_memory = one.kind in ("layer", "leaner")
    sides, firsts, turns = (one.ours, one.other), [], []
    with ExitStack() as stack:
        running = []
        for side in sides:
            process = Process(side, pythons[side.environment], folder, lean=of_memory)
            running.append(stack.enter_context(process))
            firsts.append(running[-1].step())
        for _ in range(0 if of_memory else repetitions):
            turns.append([process.step() for process in running])
    found = {"sides": [side.name for side in sides], "turns": turns, "first": firsts}
    if one.kind == "layer":
        more = one.ours.setting["layers"] - one.other.setting["layers"]
        bytes_each = (firsts[0][MEMORY] - firsts[1][MEMORY]) / more - OF_GRADIENTS
        return found | {MEMORY: _ratio([bytes_each / MEGA])}
    if one.kind == "leaner":
        return found | {MEMORY: _ratio([firsts[0][MEMORY] / firsts[1][MEMORY]])}
    return found | {what: _of_time(one, turns, what) for what in (WALL, CPU)}


def _of_time(one: Comparison, turns: Sequence, what: str) -> dict:
    """The ratio that a goal is for: of the medians, and of single turns."""
    taken = [[step[what] for step in turn] for turn in turns]
    medians = [statistics.median(side) for side in zip(*taken, strict=True)]
    ratios = [_quotient(one, *pair) for pair in (medians, *taken)]
    return _ratio(ratios[1:]) | {"ratio": ratios[0], "seconds": medians}


def _quotient(one: Comparison, ours: float, other: float) -> float:
    return (other / ours if one.kind == "faster" else ours / other) * one.scale


def _ratio(values: Sequence[float]) -> dict:
    return {"ratio": statistics.median(values), "lowest": min(values), "highest": max(values)}


def passed(one: Comparison, found: dict) -> bool:
    """Whether the goal is reached, by CPU time or memory, which others on the machine move less."""
    ratio = found[MEMORY if MEMORY in found else CPU]["ratio"]
    return ratio >= one.goal if one.kind == "faster" else ratio <= one.goal


def measure_series(one: Series, pythons: dict[str, str], folder: Path) -> dict:
    """Points of each program: the quantity, seconds of CPU and wall time, bytes; each value in turn
    by all programs, in processes of their own."""
    points: dict[str, list] = {program.name: [] for program in one.programs}
    for value in one.values:
        for program in one.programs:
            setting = one.setting | {one.quantity: value}
            side = Program(program.name, setting, program.environment, program.program)
            with Process(side, pythons[side.environment], folder, lean=True) as process:
                steps = [process.step() for _ in range(STEPS_OF_A_POINT)]
            best = {what: min(step[what] for step in steps) for what in (WALL, CPU)}
            points[program.name].append({one.quantity: value, MEMORY: steps[0][MEMORY]} | best)
    return {"points": points}
