"""Correct pairs that are hard to judge, which `make faults` runs: what near ties show."""

import re
import shutil

import pytest
from builders import ended
from checkout import ROOT

from faults import hard
from twincheck.common.pair.pairs import MODELS, built_in_models

PAIRS = ROOT / "faults" / "pairs"


def few(folder, name, cases):
    """A copy of a folder of hard pairs, with a preset `few` of only some of its cases."""
    made = shutil.copytree(PAIRS / name, folder / name)
    with open(made / "case.py", "a") as file:
        file.write(
            "\n_ALL = {k: v for cases in reversed(CASES.values()) for k, v in cases.items()}\n"
            f"CASES['few'] = {{name: _ALL[name] for name in {cases!r}}}\n"
            "CONFIGS['few'] = {}\n"
        )
    return made


@pytest.mark.slow
def test_what_the_near_ties_show(checkout, tmp_path):
    """They do flip, the flip is explained, and a pair without ties says nothing of it."""
    cases = ["experts", "codebook", "hashed", "largest_of_all"]
    folder = few(tmp_path, "choices", cases)
    done, report = ended(
        0, checkout.rows(1, "--model", str(folder), "--preset", "few", "--no-report")
    )
    assert report["verdict"] == "FLIP"
    flips = [row for row in report["rows"] if row["verdict"] == "FLIP"]
    assert {row["key"].split("/")[0] for row in flips} >= {"experts", "codebook", "hashed"}
    for row in flips:
        assert 0 <= row["gap"] <= row["allowed"]
        assert "a near tie that rounding decides" in row["note"]
        assert "float32: " in row["note"] and "widest margin" in row["note"]
        assert "scores' noise there" in row["note"]
    assert re.search(r"FLIP (in \d+ rows, such as )?experts/layer\.topk", done.stdout)


# ---- faults/hard.py itself ----------------------------------------------------------------------


def test_there_are_enough_of_them():
    """At least 40 cases, in all three steps, from every family."""
    assert {run.step for run in hard.RUNS} == {1, 3, 4}
    folders = {path.name for path in PAIRS.iterdir()}
    assert {run.folder for run in hard.RUNS} - set(built_in_models()) == folders
    for run in hard.RUNS:
        folder = MODELS if run.folder not in folders else PAIRS
        assert (folder / run.folder / "case.py").is_file()
