"""Extras: each entry point names what is there, and without them the core is whole."""

import re
import shutil
import tomllib

import pytest
from builders import ended
from checkout import ROOT, Checkout

from twincheck.common.system import extras
from twincheck.common.system.errors import UserError

POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """A copy of the checkout without its extras."""
    made = Checkout(tmp_path_factory.mktemp("core"), pairs=("tests/pairs/small_cnn", "tools"))
    shutil.rmtree(made.root / "extras")
    return made


@pytest.mark.lint
def test_the_page_has_every_extra_and_no_file_that_is_gone():
    text = (ROOT / "extras" / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)/` \| (.*)", text, re.M))
    assert rows.keys() == {path.parent.name for path in ROOT.glob("extras/*/__init__.py")}
    for name, row in rows.items():
        for file in re.findall(r"`([\w/]+\.\w+)`", row.rpartition(" | ")[2]):
            assert (ROOT / "extras" / name / file).is_file(), f"{name}: {file}"


def folder_of(point):
    """The folder of an extra that an entry point names."""
    return point.removeprefix("twincheck.").rpartition(".")[0].replace(".", "/")


@pytest.mark.slow
@pytest.mark.parametrize("name", POINTS[extras.COMMANDS])
def test_a_command_without_its_extra_is_a_sentence(core, name):
    # Of several pairs, or of two results, the extras of check and report make one.
    done = ended(2, core.module("twincheck", name, str(core.root), str(core.root)))
    where = folder_of(POINTS[extras.COMMANDS][name])
    said = f"error: {name} is an extra that is not in this checkout: {where} is missing\n"
    assert done.stderr == said and not done.stdout


@pytest.mark.parametrize(
    ("group", "option"),
    [(g, name) for g in POINTS if g.startswith("twincheck.check_") for name in POINTS[g]],
)
def test_an_option_without_its_extra_is_a_sentence(core, group, option):
    done = ended(2, core.check(int(group[-1]), f"--{option}", "anything"))
    where = folder_of(POINTS[group][option])
    said = f"error: {option} is an extra that is not in this checkout: {where} is missing\n"
    assert done.stderr == said and not done.stdout


@pytest.mark.parametrize("step", [1, 5])
def test_help_of_the_core(core, step):
    done = core.check(step, "--help")
    assert done.returncode == 0 and "--model" in done.stdout and not done.stderr


@pytest.mark.slow
def test_all_steps_of_the_core_end_without_what_extras_add(core):
    pair, out = str(core.path("tests/pairs/small_cnn")), core.elsewhere / "results"
    ended(0, core.check(1, "--model", pair, "--out", str(out)))
    done = ended(0, core.module("twincheck", "report", pair, "--out", str(out)))
    assert done.stdout.splitlines()[-1].startswith("ALIGNED in step 1 ") and not done.stderr
    assert (out / "report.html").is_file() and not (out / "bundle.zip").exists()


@pytest.mark.parametrize(("group", "name"), [(g, name) for g in POINTS for name in POINTS[g]])
def test_an_entry_point_names_what_an_extra_has(group, name):
    point = extras.entry_points(group)[name]
    assert point.load() is not None
    assert (ROOT / "extras" / point.module.split(".")[2]).is_dir()


def test_what_an_extra_lacks_is_not_the_extra(monkeypatch):
    """An extra that is there, and imports what is not, is no missing extra."""
    for value in ("twincheck.extras.pr_report.gone:main", "gone.extra:main"):
        point = extras.metadata.EntryPoint("one", value, extras.COMMANDS)
        monkeypatch.setattr(extras, "entry_points", lambda group, point=point: {"one": point})
        with pytest.raises(UserError, match="one is an extra that is not in this checkout: "):
            extras.load(extras.COMMANDS, "one")
    monkeypatch.setattr(extras.metadata.EntryPoint, "load", lambda point: __import__("no_such"))
    with pytest.raises(ModuleNotFoundError, match="no_such"):
        extras.load(extras.COMMANDS, "one")
