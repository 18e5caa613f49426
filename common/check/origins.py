"""Which of several origins inside a model is the one: the Paddle side is run again for each.

Single-step mode shows where a side computes something else.  In a pair that two people have
written, that may be meant so: one module adds the residual which its caller adds on the other side.
Fed with the reference's value there and nowhere else, a model becomes right only if that is where
it goes wrong.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from common.check.twins import Twins
from common.logs.key import Key
from common.logs.result_folder import CONSTANTS, SINGLE_STEP, ResultFolder
from common.logs.sidecar import sidecar_path
from common.pair.pairs import Pair
from common.verdict.inside import VALUES, make_inside, off_when_fed
from common.verdict.judge import Judgement
from common.verdict.row import FAILING, Row

MOST = 8  # origins that are tried


def prove_origins(twins: Twins, pair: Pair, folder: Path, stem: str, judgement: Judgement) -> None:
    """Make INSIDE what comes before the first origin that shows to be one.

    Where none does, for instance since there are two, all stay as they are.  One case is tried; in
    the others the same places are no origins either.
    """
    origins: dict[str, list[tuple[Row, Key]]] = {}
    for row in judgement.rows:
        if row.origin and row.verdict in FAILING:
            key = Key.parse(row.key, judgement.cases)
            origins.setdefault(key.case, []).append((row, key))
    case = next((c for c, rows in origins.items() if len(rows) > 1 and rows[0][0].inside), None)
    if case is None:
        return
    tried = _Tried(twins, pair, folder, stem, case, judgement)
    innocent: list[str] = []  # keys without their case
    for row, _ in origins[case][:MOST]:
        if not row.inside:
            break  # it decides: nothing has to be shown
        before, after = tried.off(row.key)
        if 2 * after < before:
            agree = f"{before - after} of {before} rows that decide agree"
            row.add_note(f"with torch's values here alone {agree}")
            if not after:
                innocent = [str(k) for r, k in origins[case] if r.inside and r is not row]
            innocent = [text.removeprefix(case) for text in innocent]
            for other, other_key in (pair for rows in origins.values() for pair in rows):
                if str(other_key).removeprefix(other_key.case) in innocent:
                    make_inside(other, VALUES)
            return
        innocent.append(row.key)


class _Tried:
    """The Paddle side run again, fed with the reference's values at one place."""

    def __init__(self, twins, pair: Pair, folder: Path, stem: str, case: str, judgement: Judgement):
        self.twins, self.pair, self.folder = twins, pair, folder
        self.stem, self.case, self.judgement = stem, case, judgement

    def off(self, key: str) -> tuple[int, int]:
        """How many rows that decide are off in the case, and how many when this key is fed."""
        axes = self.judgement.axes.get(key, ())
        order = " ".join(str(axes.index(axis)) for axis in range(len(axes)))
        cases = [self.case.rstrip("/")] if self.case else []
        with _fed(self.twins, self.pair, self.folder, {key: order}, cases) as proof:
            if proof is None:
                return 0, 0
            log = proof.log(self.stem, "paddle", SINGLE_STEP)
            logs = ResultFolder(self.folder).judged_logs(self.stem)
            return off_when_fed(logs, log, self.case, self.judgement.rows)


def run_without_constants(
    twins: Twins, pair: Pair, folder: Path, stem: str, judgement: Judgement
) -> None:
    """Leave the log of a run from which is taken off what each CONSTANT adds.

    Where that cannot be run there is no log, and what is off stays what it is.
    """
    constants = {row.key: "" for row in judgement.rows if row.verdict == "CONSTANT"}
    cases = twins.options.run.cases
    with _fed(twins, pair, folder, constants, cases, correct=True) as proof:
        if proof is not None:
            log = proof.log(stem, "paddle", CONSTANTS)
            for path in (log, sidecar_path(log)):
                os.replace(path, folder / path.name)


@contextmanager
def _fed(
    twins: Twins,
    pair: Pair,
    folder: Path,
    fed: Mapping[str, str],
    cases: Sequence[str],
    correct: bool = False,
) -> Iterator[ResultFolder | None]:
    """What a run leaves that is fed, in a folder that goes afterwards; None where it failed."""
    proof = folder / "proof"
    proof.mkdir()
    try:
        failed = twins.feed(pair, fed, cases, proof, correct)
        yield None if failed else ResultFolder(proof)
    finally:
        shutil.rmtree(proof)
