"""The ledger of discrete choices: margins, near ties made on purpose, and wrong rules."""

import numpy as np
import pytest

from twincheck.common.sides.instruments import margins
from twincheck.common.verdict.choices import Choice, judge_choice


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def top(scores, k=None):
    """Return the choice of a sound run: the largest (k None), or the k largest in their order."""
    order = np.argsort(-scores, axis=-1, kind="stable")
    return Choice(order[..., 0] if k is None else order[..., :k], scores)


def judged(exact, ref32, cand32, cand64=None):
    margin = margins(exact.scores, exact.choice)
    return judge_choice("k", exact, margin, ref32, cand32, cand64 or exact)


def near_ties(count=20, among=8):
    """Scores of 20 choices among 8, of which every second is 1e-9 below the one before it."""
    scores = normal(count, among)
    scores[:, 1::2] = scores[:, ::2] - 1e-9
    return scores


def in_float32(scores, seed):
    """Return scores with the noise of float32."""
    noise = 1e-7 * np.random.default_rng(seed).normal(size=scores.shape)
    return (scores + noise).astype(np.float32)


# ---- margins ------------------------------------------------------------------------------------


def test_margins_of_the_k_largest():
    """To the neighbour above and below; the last one's to the score that was not taken."""
    scores = np.array([[1.0, 7.0, 3.0, 6.0]])
    assert margins(scores, np.zeros((1, 2), int)).tolist() == [[1.0, 1.0]]
    assert margins(scores, np.zeros((1, 3), int)).tolist() == [[1.0, 1.0, 2.0]]
    assert margins(scores, np.zeros((1, 4), int)).tolist() == [[1.0, 1.0, 2.0, 2.0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_margins_are_finite_and_of_the_scores_dtype(dtype):
    scores = np.array([[1.0, -np.inf, -np.inf], [np.inf, 3.0, 1.0]], dtype)
    for k in (1, 2, 3):
        found = margins(scores, np.zeros((2, k), int))
        assert np.isfinite(found).all() and found.dtype == dtype and found.shape == (2, k)
    assert margins(np.array([[4.0]]), np.zeros((1, 1), int)).tolist() == [[4.0]]


# ---- near ties ----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [None, 1, 3, 8])
def test_near_ties_flip(k):
    scores = near_ties()
    exact = top(scores, k)
    one, other = (top(in_float32(scores, seed), k) for seed in (1, 2))
    assert (one.choice != exact.choice).any() and (other.choice != exact.choice).any()
    row = judged(exact, one, other)
    assert (row.verdict, row.excuse) == ("FLIP", "near tie") and row.beyond > 0
    assert 0 < row.gap <= 1.1e-9 < row.allowed < 1e-6
    assert "torch float32: " in row.note and "paddle float32: " in row.note
    assert "a near tie that rounding decides" in row.note


def wrong_rules(scores, k):
    """Give each other rule, in words, and what it chooses from the same scores."""
    order = np.argsort(-scores, axis=-1, kind="stable")
    yield "the smallest", order[..., ::-1][..., :k]
    yield "one rank further", order[..., 1 : k + 1]
    yield "one index further", (order[..., :k] + 1) % scores.shape[-1]
    yield "the best k times", np.repeat(order[..., :1], k, axis=-1)
    yield "in order of index", np.sort(order[..., :k], axis=-1)
    yield "an index from 1", order[..., :k] + 1


@pytest.mark.parametrize("rule", range(6))
@pytest.mark.parametrize("noisy", [False, True])
def test_a_wrong_rule_among_near_ties_is_diverged(rule, noisy):
    """However near the ties are: what counts is whether the run's own scores say so."""
    scores = near_ties()
    exact = top(scores, 3)
    seen = in_float32(scores, 2) if noisy else scores.astype(np.float32)
    name, choice = list(wrong_rules(seen, 3))[rule]
    row = judged(exact, top(in_float32(scores, 1), 3), Choice(choice, seen))
    assert row.verdict == "DIVERGED", name
    assert "paddle float32: " in row.note and "wrong" in row.note


def test_masked_scores():
    """-inf on every side: no noise, and never chosen before a finite one."""
    scores = near_ties()
    scores[:, 5:] = -np.inf
    exact = top(scores, 3)
    row = judged(exact, top(in_float32(scores, 1), 3), top(in_float32(scores, 2), 3))
    assert row.verdict == "FLIP"
    seen = scores.astype(np.float32)
    masked = exact.choice.copy()
    masked[3, 1] = 6
    row = judged(exact, top(seen, 3), Choice(masked, seen))
    assert row.verdict == "DIVERGED" and row.worst_index == (3, 1)
    open_one = seen.copy()
    open_one[0, 6] = 1.0
    row = judged(exact, top(seen, 3), top(open_one, 3))
    assert row.verdict == "INVALID" and "infinite in one run alone" in row.note


def test_float64_scores_are_allowed_no_more_than_rounding():
    """In float64 the scores of another function may not excuse the flip that they cause."""
    scores = normal(20, 8)
    scores[0, 2], scores[0, 5] = 4.0, 4.0 - 1e-8
    other = scores.copy()
    other[0, 5] += 1e-6
    exact = top(scores)
    assert judged(exact, top(scores.astype(np.float32)), exact, top(other)).verdict == "DIVERGED"


def test_choices_that_cannot_be_compared():
    good = top(near_ties())
    choice, scores = good.choice, good.scores
    others = (choice[:5], scores), (choice, scores[:5]), (choice * 1.0, scores)
    for bad in (*others, (choice, scores * np.nan)):
        assert judged(good, good, Choice(*bad)).verdict == "INVALID"
    margin = margins(scores, choice)
    assert judge_choice("k", good, margin[:3], good, good, good).verdict == "INVALID"
