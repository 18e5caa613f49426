"""A choice among many, judged by its largest scores: as by all of them."""

import numpy as np
import pytest
from builders import write_log
from test_choices import in_float32, near_ties, top

from twincheck.common.logs.leading import KEPT, LARGEST, can_be_led, leading_places, led
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.sidecar import Sidecar, write_sidecar
from twincheck.common.sides.instruments import margins
from twincheck.common.verdict.choices import Choice, judge_choice
from twincheck.common.verdict.judge import judge_logs

AMONG = 128


def scores_of(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=(*shape, AMONG))


# ---- what is kept -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 5), (9000,)])
def test_the_largest_scores_are_kept_in_their_order(shape):
    scores = scores_of(*shape)
    places = leading_places(scores)
    assert places.shape == (*shape, KEPT) and places.dtype == np.int32
    assert np.array_equal(places, np.argsort(-scores, axis=-1)[..., :KEPT])
    numbers = led(scores.astype(np.float32), places)
    assert numbers.dtype == np.float32 and numbers.shape == (*shape, KEPT + 2)
    assert np.array_equal(numbers[..., 0], scores.max(axis=-1).astype(np.float32))
    assert np.array_equal(numbers[..., LARGEST], numbers[..., 0])


def test_few_scores_and_infinite_ones_are_kept_whole():
    assert can_be_led(scores_of(200)) and not can_be_led(scores_of(20))
    assert not can_be_led(scores_of(200).reshape(-1, 32)) and not can_be_led(scores_of(200).ravel())
    masked = scores_of(200)
    masked[3, 5] = -np.inf
    assert not can_be_led(masked) and not can_be_led(np.ones((200, AMONG), np.int64))


# ---- how they are judged ------------------------------------------------------------------------


def ties_of(scores):
    scores = scores.copy()
    scores[:, 5] = scores[:, 9] = 10.0
    return scores


def other_at(scores, rank):
    """A run that chooses another rank of its own scores, at one place."""
    choice = scores.argmax(axis=-1)
    choice[7] = np.argsort(-scores[7], kind="stable")[rank]
    return Choice(choice, scores.astype(np.float32))


def swapped(scores):
    scores = scores.copy()
    scores[4] = scores[4, ::-1]
    return scores


def later_of_equals(scores):
    return Choice(np.full(len(scores), 9), scores.astype(np.float32))


def no_such_place(scores):
    return Choice(np.full(len(scores), AMONG), scores.astype(np.float32))


def of_float32(seed):
    return lambda scores: top(in_float32(scores, seed))


SCORES = near_ties(200, AMONG)
# Scores -> what Paddle's float32 and float64 runs made of them.
CASES = {
    "alike": (scores_of(200), of_float32(2), top),
    "near ties": (SCORES, of_float32(2), top),
    "rounded to a tie": (SCORES, lambda scores: top(scores.astype(np.float32)), top),
    "the third": (SCORES, lambda scores: other_at(scores, 2), top),
    "one that is not kept": (SCORES, lambda scores: other_at(scores, 100), top),
    "other scores": (SCORES, of_float32(2), lambda scores: top(swapped(scores))),
    "ties": (ties_of(SCORES), of_float32(2), top),
    "ties broken otherwise": (ties_of(SCORES), later_of_equals, top),
    "a place that there is not": (SCORES, no_such_place, top),
}
VERDICTS = dict.fromkeys(("alike", "ties"), "IDENTICAL")
VERDICTS |= dict.fromkeys(("near ties", "rounded to a tie"), "FLIP")
# How much these lose is not known of few scores.
UNKNOWN = ("one that is not kept", "a place that there is not", "other scores")


@pytest.mark.parametrize("name", CASES)
def test_few_scores_say_what_all_of_them_do(name):
    scores, cand32, cand64 = CASES[name]
    runs = [top(scores), top(in_float32(scores, 1)), cand32(scores), cand64(scores)]
    places = leading_places(scores)
    few = [Choice(run.choice, led(run.scores, places), places) for run in runs]
    margin = margins(scores, runs[0].choice)
    rows = [judge_choice("k", exact, margin, *others) for exact, *others in (runs, few)]
    assert {row.verdict for row in rows} == {VERDICTS.get(name, "DIVERGED")}
    assert rows[0].beyond == rows[1].beyond
    assert rows[0].note.count("wrong") == rows[1].note.count("wrong")
    if name not in UNKNOWN:
        assert rows[0].worst_index == rows[1].worst_index and rows[0].gap == rows[1].gap


@pytest.mark.parametrize("which", [1, 2, 3])
def test_scores_of_other_places_are_invalid(which):
    places = leading_places(SCORES)
    runs = [top(SCORES)] * 4
    few = [Choice(run.choice, led(run.scores, places), places) for run in runs]
    few[which] = Choice(runs[which].choice, few[which].scores, places[:, ::-1])
    row = judge_choice("k", few[0], margins(SCORES, runs[0].choice), *few[1:])
    assert row.verdict == "INVALID" and "other scores were kept" in row.note


# ---- in a log -----------------------------------------------------------------------------------


def write(path, dtype, seed, places=None, **options):
    """A log with a tensor before a choice and one behind it; what the writer found."""
    scores = SCORES.astype(dtype) if dtype == np.float64 else in_float32(SCORES, seed)
    choice = scores.argmax(axis=-1)
    arrays = {"before": scores.ravel(), "hash:scores": scores}
    arrays |= {"hash:margin": margins(scores, choice), "hash": choice, "behind": scores.ravel() + 1}
    writer = write_log(path, arrays, places=places, **options)
    parts = {name: f"hash:{name}" for name in ("margin", "scores")}
    parts |= {"places": "hash:places"} if writer.places else {}
    write_sidecar(path, Sidecar(batches={"": 200}, choices={"hash": parts}, sums=writer.sums))
    return writer


@pytest.mark.parametrize("limit", [1, 300_000, 500_000])
def test_a_log_that_grows_too_large_keeps_the_largest_scores(tmp_path, limit):
    """Scores that were written in full before it did are cut too, as in a log that began so."""
    for name, how in {"grown": {"limit": limit}, "from the start": {"summing": True}}.items():
        write(tmp_path / f"{name}.npy", np.float64, 0, **how)
    grown, begun = ((tmp_path / f"{n}.npy").read_bytes() for n in ("grown", "from the start"))
    assert grown == begun
    with read_log(tmp_path / "grown.npy") as log:
        keys = "before hash:places hash:scores hash:margin hash behind"
        assert list(log) == keys.split()
        assert log.shape("hash:scores") == (200, KEPT + 2)


def test_logs_of_few_scores_are_judged_as_whole_ones(tmp_path):
    verdicts = {}
    for name, options in {"whole": {}, "few": {"summing": True}}.items():
        folder = tmp_path / name
        folder.mkdir()
        paths = {run: folder / f"{run}.npy" for run in ("ref64", "ref32", "cand32", "cand64")}
        first = write(paths["ref64"], np.float64, 0, **options)
        for seed, run in enumerate(("ref32", "cand32", "cand64"), 1):
            dtype = np.float64 if run == "cand64" else np.float32
            write(paths[run], dtype, seed, first.places or None, **options)
        found = judge_logs(**paths)
        verdicts[name] = {row.key: row.verdict for row in found.rows}
        told = [note for note in found.notes if "choices among many" in note]
        assert len(told) == (name == "few")
    assert verdicts["few"] == verdicts["whole"]
    assert verdicts["few"]["hash"] == "FLIP" and "hash:places" not in verdicts["few"]
