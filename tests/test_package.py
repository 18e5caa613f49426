"""The wheel, installed: one command and one import, from a folder that knows no checkout."""

import json

import pytest
from builders import SMALL_CNN, copied
from checkout import ROOT
from packaged import Installed, build_wheel

pytestmark = pytest.mark.slow

NAMES = """
import importlib.util as u
names = "common tools extras examples faults tests conftest setup step1_forward fake_data".split()
print([name for name in names if u.find_spec(name)])
import twincheck
print(twincheck.__file__, twincheck.IN_A_CHECKOUT)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    return Installed(folder / "my environment", build_wheel(folder))


@pytest.fixture
def elsewhere(tmp_path):
    folder = tmp_path / "an empty folder"
    folder.mkdir()
    return folder


def well(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_has_one_name(package, elsewhere):
    names, where = well(package.run(elsewhere, "-c", NAMES)).splitlines()
    assert names == "[]"
    assert where == f"{package.packages / 'twincheck' / '__init__.py'} False"


def test_a_built_in_model_and_its_bundle(package, elsewhere):
    before = package.files()
    last = well(package.command(elsewhere, "step1", "fastformer")).splitlines()[-1]
    assert last.startswith("ALIGNED in step 1 ") and str(ROOT) not in last
    assert sorted(path.name for path in elsewhere.iterdir()) == ["log"]
    well(package.command(elsewhere, "bundle", "fastformer"))
    said = well(package.command(elsewhere, "verify", "log/bundle.zip"))
    assert (
        said.startswith("log/bundle.zip: intact; 1 of 1 result aligned")
        and "step1_forward, fastformer" in said
    )
    well(package.command(elsewhere, "report", "fastformer"))
    assert package.files() == before


def test_a_pair_with_a_common_of_its_own(package, elsewhere):
    pair = copied(SMALL_CNN, elsewhere)
    (pair / "common.py").write_text("SCALE = 1.0\n")
    for side in ("torch", "paddle"):
        path = pair / f"{side}_model.py"
        own = "from common import SCALE  # noqa: F401\n"
        path.write_text(path.read_text().replace("class SmallCNN", f"{own}\n\nclass SmallCNN", 1))
    words = ("step1", "small_cnn", "--json", "rows.json")
    well(package.command(elsewhere, *words))
    assert json.loads((elsewhere / "rows.json").read_text())["exit_code"] == 0
    assert (pair / "log").is_dir() and not (elsewhere / "log").exists()


def test_what_needs_a_checkout_says_so(package, elsewhere):
    done = package.command(elsewhere, "gallery")
    page = package.packages / "twincheck" / "docs" / "gallery.html"
    assert done.returncode == 2 and page.is_file() and not done.stdout
    said = "the gallery is run in a checkout, whose pages it writes; they are in"
    assert done.stderr == f"error: {said} {page}\n"
