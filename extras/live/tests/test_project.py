"""The example project: its test passes where there is no torch, and fails where it has to."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from checkout import change

from twincheck.common.logs.reader import read_log
from twincheck.extras.live.pairs import _document, checked
from twincheck.extras.live.result import NotChecked

ROOT = Path(__file__).resolve().parents[3]
PROJECT = ROOT / "examples" / "project_with_tests"
_TORCH = ("torch", "functorch", "transformers", "accelerate", "__editable__", "twincheck")
LOG = "step4_backward/classifier/bp_align_all_torch.npy"
WEIGHTS = "step1_forward/classifier/weights/main.npz"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python that has what this one has, and no torch: what a CI installs."""
    folder = tmp_path_factory.mktemp("no_torch")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for kind in ("purelib", "platlib"):
        for path in Path(sysconfig.get_path(kind)).iterdir():
            link = packages / path.name
            if not path.name.startswith(_TORCH) and not link.exists():
                link.symlink_to(path)
    (packages / "checkout.pth").write_text(f"{ROOT}\n")
    python = folder / "bin" / "python"
    asked = [python, "-c", "import paddle, twincheck, torch"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=folder)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'torch'"
    return python


@pytest.fixture
def project(tmp_path):
    """A copy of the project, without what a run has left in it."""
    copy = tmp_path / "project"
    shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns("log", "__pycache__", ".pytest*"))
    return copy


def outcome(python, project, *words):
    """(exit status of pytest in a project, what it says)."""
    # The checkout's plugin is named: pip leaves there what lets pytest find it, or does not.
    plugin = ("-p", "no:twincheck", "-p", "twincheck.extras.live.plugin")
    words = (*plugin, "-p", "no:cacheprovider", *words)
    command = [str(python), "-m", "pytest", "-c", "/dev/null", "--rootdir", ".", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, timeout=300)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_it_passes_without_torch_and_leaves_a_page_and_a_bundle(python, project):
    status, said = outcome(python, project, "--twincheck-report", "report")
    assert status == 0 and "1 passed" in said, said
    page = (project / "report" / "report.html").read_text()
    assert "classifier" in page and (project / "report" / "bundle.zip").is_file()
    sidecars = project.glob("report/step*/classifier/*_all_paddle.json")
    loaded = [json.loads(path.read_text())["frameworks_loaded"] for path in sidecars]
    assert loaded == [["paddle"]] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("side", "old", "new", "told"),
    [
        ("paddle", "epsilon=1e-5", "epsilon=1e-4", "epsilon is 1e-05 in torch and 0.0001 in Pad"),
        ("paddle", 'inputs["labels"])', 'inputs["labels"]) * 2', "step 3: "),
        ("torch", "The reference.", "Another.", "was made from another torch_model.py than the"),
    ],
    ids=["epsilon", "loss", "other sources"],
)
def test_what_is_wrong_is_told_with_the_command_to_type(python, project, side, old, new, told):
    change(project / "classifier" / f"{side}_model.py", old, new)
    status, said = outcome(python, project)
    assert status == 1 and "1 failed" in said and told in said, said
    assert f"again: {python} -m pytest test_port.py::test_port" in said
    assert "extras/live" not in said  # no frame of ours
    if "epsilon" in old:
        assert "classifier/paddle_model.py:10" in said and "classifier/torch_model.py:10" in said


def with_a_bit_changed(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "changed"),
    [
        *((Path.unlink, name) for name in (LOG, WEIGHTS)),
        *((with_a_bit_changed, name) for name in (LOG, WEIGHTS)),
        (shutil.rmtree, ""),
    ],
)
def test_what_is_missing_or_not_as_it_was_made_is_refused(python, project, how, changed):
    how(project / "reference" / changed)
    status, said = outcome(python, project)
    assert status == 1 and "not compared: " in said and "reference" in said, said


@pytest.mark.slow
def test_a_reference_is_made_again_and_gives_the_same_numbers(project):
    """The committed one is what `twincheck reference` makes."""
    command = [sys.executable, "-m", "twincheck", "reference", "classifier", "--out", "again"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("made again: torch's logs of steps 1, 3, 4, ")
    names = {p.relative_to(project / "again") for p in (project / "again").rglob("*.npy")}
    assert names == {
        p.relative_to(project / "reference") for p in project.glob("reference/**/*.npy")
    }
    for name in (name for name in names if name.stem.endswith("fp64")):
        with (
            read_log(project / "again" / name) as new,
            read_log(project / "reference" / name) as old,
        ):
            assert list(new) == list(old)
            for key in new:
                assert abs(new[key] - old[key]).max() <= 1e-9, key


def test_a_step_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NotChecked, match="there is no step 6: those are 1 to 5"):
        list(checked(tmp_path, [], ("6",), None, None))


def test_why_a_pair_was_not_checked_is_what_its_document_says(tmp_path, monkeypatch):
    """In English there, whatever language the check speaks; the error is told in the user's."""
    monkeypatch.setenv("LANGUAGE", "zh")
    with pytest.raises(NotChecked, match=r"第 1 步：--model .*该文件夹中没有 case\.py") as error:
        _document(1, tmp_path, [])
    assert re.match(r"step 1: --model .*there is no case\.py in this folder", error.value.args[0])
