"""Which tensors a check keeps whole: with sums a fault is found where it is found without."""

import pytest
from builders import copied, ended, translated
from checkout import change

from twincheck.common.logs.guide_pair import has_pair
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import read_sidecar
from twincheck.common.system.run_kind import RunKind

PAIR, CODED = translated("wide"), translated("coded")
STEMS = {1: "forward_all", 4: "bp_align_all"}
# What is planted in the Paddle side -> the step that finds it, and its first row.
FAULTS = {
    "one column of a sum": ("second(hidden))", "second(hidden) + _off())", 1, "last:in/0"),
    "a gradient": ("hidden.mean(1)", "_half(hidden).mean(1)", 4, "grad_of/second"),
}
HELPERS = """

def _off():
    import paddle

    return 1e-6 * paddle.nn.functional.one_hot(paddle.to_tensor([7]), 128).astype("float32")


def _half(value):
    return 0.999 * value + (0.001 * value).detach()
"""


def check(checkout, folder, step, pair=PAIR, *options):
    options = ("--model", str(pair), "--no-report", "--out", str(folder), *options)
    done, report = checkout.rows(step, *options)
    return done, (report or {}).get("rows", []), next(folder.glob("step*"), folder) / pair.name


def planted(folder, pair, old, new):
    """A copy of a pair with a fault in its Paddle side."""
    return plant(copied(pair, folder), old, new)


def plant(pair, old, new):
    change(pair / "paddle_model.py", old, new)
    with open(pair / "paddle_model.py", "a") as file:
        file.write(HELPERS)
    return pair


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 4])
def test_a_correct_pair_passes_on_sums(checkout, tmp_path, step):
    done, rows, folder = ended(0, check(checkout, tmp_path, step, PAIR, "--keep", "rows"))
    assert "were judged by a sample of their values and by sums" in done.stdout
    for path, name in ResultFolder(folder).logs():
        sums = read_sidecar(path).sums
        if has_pair(name.stem):  # what the guide asks for is whole
            assert not sums
            continue
        assert sums["first"] == [2, 72, 128] and "logits" not in sums
    if step == 1:
        log = ResultFolder(folder).log("forward_all", "torch", RunKind.FLOAT64)
        assert log.stat().st_size < 10**6
    first = next(row for row in rows if row["key"] == "first")
    assert (first["shape"], first["size"]) == ([2, 72, 128], 2 * 72 * 128)


@pytest.mark.slow
def test_small_models_are_kept_whole_and_all_keeps_all(checkout, tmp_path):
    found = []
    for keep in ("auto", "all"):
        out = tmp_path / keep
        done, _, folder = ended(0, check(checkout, out, 1, PAIR, "--keep", keep))
        found.append({path.name: path.read_bytes() for path, _ in ResultFolder(folder).logs()})
    assert found[0] == found[1] and len(found[0]) == 8


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_on_sums(checkout, tmp_path, fault):
    old, new, step, origin = FAULTS[fault]
    pair = planted(tmp_path, PAIR, old, new)
    verdicts = []
    for keep in ("rows", "all"):
        done, rows, folder = ended(1, check(checkout, tmp_path / keep, step, pair, "--keep", keep))
        assert not list(folder.glob("*_whole*")), "what a teacher-forced run was fed with is gone"
        assert (folder / f"{STEMS[step]}_paddle_fp64_teacher_forced.npy").is_file()
        origins = [row["key"] for row in rows if row["origin"]]
        assert origins[0].startswith(origin)
        verdicts.append({row["key"]: row["verdict"] for row in rows})
    assert verdicts[0] == verdicts[1]


@pytest.mark.slow
def test_the_reference_log_of_sums_cannot_feed_where_torch_is_not(checkout, tmp_path):
    """Somebody else's logs: the first origin is sure, and a sentence says what to ask for."""
    pair = copied(PAIR, tmp_path)
    done, _, folder = ended(0, check(checkout, tmp_path / "theirs", 1, pair, "--keep", "rows"))
    old, new, *_ = FAULTS["one column of a sum"]
    plant(pair, old, new)
    told = ("--reference", str(folder), "--keep", "rows")
    done, rows, _ = ended(1, check(checkout, tmp_path / "ours", 1, pair, *told))
    assert next(row["key"] for row in rows if row["origin"]) == "last:in/0"
    assert "ask for logs made with --keep all" in " ".join(done.stdout.split())


# ---- choices among many -------------------------------------------------------------------------


@pytest.mark.slow
def test_of_a_choice_among_many_the_largest_scores_are_kept(checkout, tmp_path):
    """A flip is found to be one, and the log is a twelfth of the size."""
    flips, sizes = [], []
    for keep in ("rows", "all"):
        done, rows, folder = ended(0, check(checkout, tmp_path / keep, 1, CODED, "--keep", keep))
        told = "2 choices among many were judged by the 8 largest scores of each"
        assert (told in " ".join(done.stdout.split())) == (keep == "rows")
        flips.append([row for row in rows if row["verdict"] == "FLIP"])
        with read_log(ResultFolder(folder).log("forward_all", "paddle", RunKind.FLOAT64)) as log:
            sizes.append(log["argmax:scores"].size)
            assert ("argmax:places" in log) == (keep == "rows")
        assert not any(row["key"].endswith(":places") for row in rows)
    for one, other in zip(*flips, strict=True):
        assert one["key"].endswith("argmax") and one["beyond"] == 2 * 72
        assert all(other[name] == one[name] for name in ("key", "gap", "beyond"))
    assert sizes == [2 * 72 * 10, 2 * 72 * 128]


# What is planted in the scores -> the first row that is off.  The second is of a code that is never
# chosen, and whose score is none of the largest: the sum of all shows it.
WRONG_SCORES = {
    "another choice": ("concat([near, near", "concat([near.roll(1, -1), near", "argmax:scores"),
    "a score that loses": ("* (1 + 1e-9)], -1)", "* (1 + 1e-9)], -1) - _off()", "argmax:scores"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG_SCORES)
def test_wrong_scores_are_found_from_few_of_them(checkout, tmp_path, fault):
    old, new, first = WRONG_SCORES[fault]
    pair = planted(tmp_path, CODED, old, new)
    origins = []
    for keep in ("rows", "all"):
        done, rows, _ = ended(1, check(checkout, tmp_path / keep, 1, pair, "--keep", keep))
        off = [row for row in rows if row["origin"] and row["verdict"] != "FLIP"]
        origins.append([(row["key"], row["verdict"]) for row in off])
    assert origins[0] == origins[1] and origins[0][0] == (first, "DIVERGED")
