"""Which tensors a check keeps whole: with sums a fault is found where it is found without."""

import pytest
from builders import copied, ended, translated
from checkout import change

from twincheck.common.logs.guide_pair import has_pair
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import read_sidecar
from twincheck.common.system.run_kind import RunKind

PAIR, CODED = translated("wide"), translated("coded")
# Faults of the Paddle side: one column of a sum, and the score of a code that is never chosen.
COLUMN = ("second(hidden))", "second(hidden) + _off())")
SCORE = ("* (1 + 1e-9)], -1)", "* (1 + 1e-9)], -1) - _off()")
HELPERS = """

def _off():
    import paddle

    return 1e-6 * paddle.nn.functional.one_hot(paddle.to_tensor([7]), 128).astype("float32")
"""


def check(checkout, folder, step, pair=PAIR, *options):
    options = ("--model", str(pair), "--no-report", "--out", str(folder), *options)
    done, report = checkout.rows(step, *options)
    return done, (report or {}).get("rows", []), next(folder.glob("step*"), folder) / pair.name


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
@pytest.mark.parametrize(
    ("pair", "fault", "first"), [(PAIR, COLUMN, "last:in/0"), (CODED, SCORE, "argmax:scores")]
)
def test_a_fault_is_found_on_sums(checkout, tmp_path, pair, fault, first):
    pair, verdicts = plant(copied(pair, tmp_path), *fault), []
    for keep in ("rows", "all"):
        done, rows, folder = ended(1, check(checkout, tmp_path / keep, 1, pair, "--keep", keep))
        assert not list(folder.glob("*_whole*")), "what a teacher-forced run was fed with is gone"
        assert (folder / "forward_all_paddle_fp64_teacher_forced.npy").is_file()
        off = [row for row in rows if row["origin"] and row["verdict"] != "FLIP"]
        assert (off[0]["key"], off[0]["verdict"]) == (first, "DIVERGED")
        verdicts.append({row["key"]: row["verdict"] for row in rows})
    shared = verdicts[0].keys() & verdicts[1].keys()
    assert all(verdicts[0][key] == verdicts[1][key] for key in shared) and first in shared


@pytest.mark.slow
def test_the_reference_log_of_sums_cannot_feed_where_torch_is_not(checkout, tmp_path):
    """Somebody else's logs: the first origin is sure, and a sentence says what to ask for."""
    pair = copied(PAIR, tmp_path)
    done, _, folder = ended(0, check(checkout, tmp_path / "theirs", 1, pair, "--keep", "rows"))
    plant(pair, *COLUMN)
    told = ("--reference", str(folder), "--keep", "rows")
    done, rows, _ = ended(1, check(checkout, tmp_path / "ours", 1, pair, *told))
    assert next(row["key"] for row in rows if row["origin"]) == "last:in/0"
    assert "ask for logs made with --keep all" in " ".join(done.stdout.split())
