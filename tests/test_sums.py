"""Large tensors in a log as a sample and sums: judged as whole ones are, and nothing is lost."""

from dataclasses import replace

import numpy as np
import pytest
from builders import write_log

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.sidecar import read_sidecar, write_sidecar
from twincheck.common.logs.sums import SMALLEST, place_of, sample_of, shape_of_sums, summed
from twincheck.common.logs.writer import LogWriter
from twincheck.common.system.errors import LogError
from twincheck.common.verdict.judge import judge_logs

SHAPES = [
    (SMALLEST,),
    (70000,),
    (2, 3, 57, 57),
    (256, 64),
    (257, 64),
    (30522, 3),
    (1, 20000),
    (16411,),
]
NAMES = {
    "ref32": ("torch", "float32"),
    "cand32": ("paddle", "float32"),
    "ref64": ("torch", "float64"),
    "cand64": ("paddle", "float64"),
}


def random(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_value_changes_a_sum_near_its_place(shape):
    values = random(shape)
    numbers = summed(values)
    assert numbers.shape == shape_of_sums(shape) and numbers.dtype == np.float64
    assert numbers.size <= 1600
    spacing = 1e-13 * np.abs(numbers).max()
    for flat in (*np.random.default_rng(1).integers(0, values.size, 50), values.size - 1):
        place = np.unravel_index(flat, shape)
        other = values.copy()
        other[place] += 1e-9
        moved = np.abs(summed(other) - numbers)
        index = np.unravel_index(np.argmax(moved), moved.shape)
        first, count = place_of(shape, tuple(int(i) for i in index))
        start = np.ravel_multi_index(first, shape)
        assert moved.max() > 100 * spacing
        assert start <= flat < start + count
        assert (count == 1) == (index[-1] < sample_of(shape))


# ---- the writer ---------------------------------------------------------------------------------


def entries():
    """Key, array and whether it stays whole: large and small, one array under two keys."""
    large = random((200, 300))
    yield "a", large, False
    yield "b", random(8), False
    yield "c", large, False
    yield "d", random((200, 300), 2).astype(np.float32), False
    yield "e:scores", large + 1, True  # of a top-k
    yield "f", np.arange(50000), False
    yield "g", np.where(np.arange(60000) == 7, np.nan, 1.0), False
    yield "h", np.zeros(0), False
    yield "i", large + 2, True


def log_of_entries(path, **how):
    with LogWriter(path, **how) as writer:
        for key, values, whole in entries():
            writer.add(key, values, whole)
    return writer


def test_a_log_that_outgrows_its_limit_is_as_one_that_sums_from_the_start(tmp_path):
    paths = [tmp_path / name for name in ("limit.npy", "start.npy")]
    hashes = []
    for path, how in zip(paths, ({"limit": 10**6}, {"summing": True}), strict=True):
        writer = log_of_entries(path, **how)
        assert writer.summing and writer.skipped == ["h"]
        assert writer.sums == {"a": [200, 300], "c": [200, 300], "d": [200, 300]}
        hashes.append(writer.sha256)
    assert hashes[0] == hashes[1] and paths[0].read_bytes() == paths[1].read_bytes()
    with read_log(paths[0]) as log:
        for key, values, _ in entries():
            if key in writer.sums:
                assert log[key].tobytes() == summed(values).tobytes()
            elif key != "h":
                assert np.array_equal(log[key], values, equal_nan=True)
    assert set(tmp_path.iterdir()) == set(paths)


@pytest.mark.parametrize("marked", range(4))
def test_what_is_taken_back_stays_so_where_the_log_was_written_anew(tmp_path, marked):
    """The limit is passed after the mark, before it, and never."""
    keys = "abcdef"
    arrays = {key: random((150, 200), i) for i, key in enumerate(keys)}
    expected = [*keys[:marked], "z"]
    for limit in (1, 500_000, 10**6, 10**9):
        path = tmp_path / f"{limit}.npy"
        with LogWriter(path, limit=limit) as writer:
            for key in keys[:marked]:
                writer.add(key, arrays[key])
            with writer.trying() as take_back:
                for key in keys[marked:]:
                    writer.add(key, arrays[key])
                take_back()
            writer.add("z", arrays["f"])
        with read_log(path) as log:
            assert list(log) == expected
            for key in expected:
                values = arrays["f" if key == "z" else key]
                assert (key in writer.sums) == (log.shape(key) != values.shape)
                values = summed(values) if key in writer.sums else values
                assert log[key].tobytes() == values.tobytes()


# ---- the verdict --------------------------------------------------------------------------------

SHAPE = (4, 64, 96)


def runs(change=lambda name, values: values, shape=SHAPE):
    """Four runs of one function, each with its own rounding."""
    exact = random(shape)
    arrays = {}
    for i, (name, (_, dtype)) in enumerate(NAMES.items()):
        noise = (1e-7 if dtype == "float32" else 1e-16) * random(shape, i + 1)
        arrays[name] = np.asarray(change(name, exact * (1.0 + noise)), dtype)
    return arrays


def written(folder, arrays, summing=True, **more):
    """The paths of four logs, of sums or whole."""
    paths = {}
    for name, (side, dtype) in NAMES.items():
        paths[name] = folder / f"{name}.npy"
        told = {"side": side, "dtype": dtype, "batches": {"": SHAPE[0]}} | more
        write_log(paths[name], arrays[name], told, summing=summing)
    return paths


def judged(folder, arrays, summing=True, key="block.out"):
    paths = written(folder, {name: {key: values} for name, values in arrays.items()}, summing)
    judgement = judge_logs(**paths)
    return judgement.rows[0], judgement


@pytest.mark.parametrize("shape", [SHAPE, (40000,), (300, 200)])
def test_rounding_is_rounding(tmp_path, shape):
    row, judgement = judged(tmp_path, runs(shape=shape))
    assert (row.verdict, row.shape, row.size) == ("ROUNDING", shape, np.prod(shape))
    assert any("1 large tensors were judged by a sample" in note for note in judgement.notes)


def one_element(name, values):
    values = values.copy()
    values[2, 31, 40] += 1e-6 if name.startswith("cand") else 0.0
    return values


def one_row(name, values):
    values = values.copy()
    values[1, 17] *= 1.0 + 1e-8 if name.startswith("cand") else 1.0
    return values


def swapped(name, values):
    return values[:, ::-1] if name.startswith("cand") else values


def half(name, values):
    return values.astype(np.float16) if name == "cand32" else values


FAULTS = [(one_element, "DIVERGED"), (one_row, "DIVERGED"), (swapped, "DIVERGED")]
FAULTS += [(half, "PRECISION")]


@pytest.mark.parametrize("fault, verdict", FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_has_the_verdict_that_it_has_in_a_whole_tensor(tmp_path, fault, verdict):
    rows = [judged(tmp_path, runs(fault), summing)[0] for summing in (True, False)]
    assert [row.verdict for row in rows] == [verdict, verdict]
    assert [row.of_sums > 0 for row in rows] == [True, False]
    # What Adam makes of a gradient's noise is known of values, not of their sums.
    of_adam, _ = judged(tmp_path, runs(fault), key="adam/003/weight/a.weight")
    assert of_adam.verdict == verdict
    if fault is one_element:
        start = np.ravel_multi_index(rows[0].worst_index, SHAPE)
        place = np.ravel_multi_index((2, 31, 40), SHAPE)
        assert start <= place < start + rows[0].of_sums


def turned(name, values):
    return values.transpose(0, 2, 1) if name.startswith("cand") else values


def test_another_shape_is_found_although_its_sums_are_as_many(tmp_path):
    row, _ = judged(tmp_path, runs(turned))
    assert shape_of_sums((4, 64, 96)) == shape_of_sums((4, 96, 64))
    assert row.verdict == "INVALID"
    assert "shape (4, 64, 96) on the torch side, (4, 96, 64) on the paddle side" in row.note


@pytest.mark.parametrize("sums", [{"block.out": [5, 64, 96]}, {"other": [40000]}])
def test_a_sidecar_that_tells_of_sums_that_are_not_there_is_refused(tmp_path, sums):
    paths = written(tmp_path, {name: {"block.out": v} for name, v in runs().items()})
    write_sidecar(paths["ref64"], replace(read_sidecar(paths["ref64"]), sums=sums))
    with pytest.raises(LogError, match="its sidecar says that it holds sums of"):
        judge_logs(**paths)


def test_a_large_value_inside_that_is_shaped_otherwise_is_inside(tmp_path):
    """Channels last on one side: as many sums, of other neighbours."""
    arrays = {
        name: {"inner": turned(name, values), "logits": values[:, :5, 0]}
        for name, values in runs().items()
    }
    paths = written(tmp_path, arrays, classes={"inner": "own Block"})
    inner, logits = judge_logs(**paths).rows
    assert (inner.verdict, inner.excuse, logits.verdict) == ("INSIDE", "other shape", "ROUNDING")
    inner, logits = judge_logs(**paths, strict=True).rows
    assert inner.verdict == "INVALID" and inner.origin
