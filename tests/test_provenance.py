"""What a log depends on of the workbench itself: neither too little nor too much is hashed.

Too little, and --reuse and --resume trust stale results; too much, and a new colour in a table
refuses them.
"""

import json
import shutil
from pathlib import Path

import pytest
from builders import python

from twincheck.common.pair import provenance
from twincheck.common.pair.pairs import load_pair
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.frameworks import SIDES

STEPS = sorted(path.name for path in ROOT.glob("step*_*"))
# Step -> what its worker scripts import beside common/.
READ_BY_WORKERS = {
    "step1_forward": "step1_forward: forward decoding step5_train: initial",
    "step2_metric": "step2_metric: metric hard_texts tokenizers",
    "step3_loss": "step3_loss: loss",
    "step4_backward": "step4_backward: backward parallel setups given rates",
    "step5_train": "step4_backward: setups step5_train: train training initial",
}
ROOMS = ("system", "logs", "pair", "weights", "transplant", "sides")
RUNS = [(side, step) for side in SIDES for step in STEPS]


def may_change_a_log(file: Path, side: str, step: str) -> bool:
    """Return whether a change of a file of the checkout may change a side's logs of a step."""
    if file.name.startswith(f"{SIDES[1 - SIDES.index(side)]}_"):
        return False
    if file.parts[0] == "common":
        return file.parts[1] in (*ROOMS, "__init__.py", "models")
    if file.parent == Path(step, side) or file.name == "fastformer.npz":
        return True
    if file == Path("twincheck", f"{side}_side.py"):  # what a user's model file imports
        return True
    folder = ""
    for word in READ_BY_WORKERS.get(step, "").split():
        folder = word[:-1] if word.endswith(":") else folder
        if file == Path(folder, f"{word}.py"):
            return True
    return False


def all_files() -> list[Path]:
    """The workbench's own, but for the built-in models, which model_sources hashes."""
    names = ("common", "fake_data", "tools", "faults", "twincheck", *STEPS)
    folders = [ROOT / name for name in names]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    files += (ROOT / "fake_data").glob("*.npz")
    files = [path.relative_to(ROOT) for path in files]
    return [f for f in files if f.parts[:2] != ("common", "models") or len(f.parts) == 3]


def mistakes() -> list[str]:
    """Files whose change is forgotten, or feared, each with the run."""
    pair, found = load_pair("fastformer"), []
    for run in RUNS:
        hashed = {path.relative_to(ROOT) for path in provenance.workbench_files(pair, *run)}
        for file in all_files():
            if (file in hashed) != may_change_a_log(file, *run):
                found.append(f"{'feared' if file in hashed else 'forgotten'}: {file} {run}")
    return found


def test_what_may_change_a_log_is_hashed_and_nothing_else():
    assert mistakes() == []


def test_a_hash_changes_with_every_one_of_its_files(tmp_path, monkeypatch):
    files = [tmp_path / name for name in ("a.py", "b.py")]
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.setattr(provenance, "workbench_files", lambda *run: files)
    hashes = set()
    for text in ("1", "2"):
        for file in files:
            file.write_text(text)
            files[1].touch()
            hashes.add(provenance.workbench_sha256(None, "torch", "step5_train"))
    assert len(hashes) == 4


def test_a_file_of_a_folder_that_a_pair_has_a_link_to_is_a_logs(tmp_path):
    """Also where the folder holds the pair; what checks have left is no source."""
    pair = tmp_path / "package" / "pair"
    shutil.copytree(ROOT / "tests" / "pairs" / "small_cnn", pair)
    (pair.parent / "net.py").write_text("x = 1\n")
    (pair / "package").symlink_to("..")
    for name in ("log", "of_paddle", "of_torch"):
        (pair / name).mkdir()
        (pair / name / "net.py").touch()
    own = load_pair(str(pair))
    recorded = provenance.model_sources(own, "torch")
    assert set(recorded) == {*("case.py", "torch_model.py", "package/net.py", "of_torch/net.py")}
    (pair.parent / "net.py").write_text("x = 2\n")
    assert provenance.changed_sources(recorded, own, "torch") == ["package/net.py"]


def own_files(files) -> set[Path]:
    """Of the workbench, of these."""
    roots = [ROOT / name for name in ("common", *STEPS)]
    return {Path(file) for file in files if any(Path(file).is_relative_to(r) for r in roots)}


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
def test_every_file_that_the_steps_import_is_hashed(side):
    scripts = [path for step in STEPS for path in (ROOT / step / side).glob("*.py")]
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in scripts]
    lines = [f"import {', '.join(modules)}, json, sys", "modules = list(sys.modules.values())"]
    lines += ["print(json.dumps([getattr(m, '__file__', None) or '' for m in modules]))"]
    told = python("-c", "\n".join(lines)).splitlines()[-1]
    loaded, pair = own_files(json.loads(told)), load_pair("fastformer")
    hashed = [provenance.workbench_files(pair, side, step) for step in STEPS]
    assert loaded and loaded <= set().union(*hashed)
