"""The notebook says what a run of it says, and lines in its cells are shown as a file's are."""

import re
import sys

import nbformat
import pytest

from tools.notebook import NOTEBOOK, executed
from twincheck.extras.live import cells
from twincheck.extras.live.result import shown

pytestmark = pytest.mark.slow

NUMBER = re.compile(r"\d[\d,.]*(?:e[+-]?\d+)?")


def code_of(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def words_of(cell):
    """Return the kinds and words that a cell shows, without a result's numbers: they may differ."""
    told = []
    for output in cell.outputs:
        data = output.get("data", {})
        text = output.get("text") or data.get("text/html") or data.get("text/plain", "")
        is_result = output.output_type == "execute_result"
        told.append(
            (output.output_type, sorted(data), NUMBER.sub("#", text) if is_result else text)
        )
    return told


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The notebook as it is kept, and after a run, with the folder of the run."""
    folder = tmp_path_factory.mktemp("notebook")
    return nbformat.read(NOTEBOOK, as_version=4), executed(folder), folder


def test_what_is_kept_is_what_a_run_shows(run):
    kept, now, _ = run
    assert [cell.source for cell in kept.cells] == [cell.source for cell in now.cells]
    for cell, again in zip(code_of(kept), code_of(now), strict=True):
        assert words_of(cell) == words_of(again), f"{cell.source}\n\npython -m tools.notebook"
    numbers = [cell.execution_count for cell in code_of(kept)]
    assert numbers == list(range(1, len(numbers) + 1))


def results_in(notebook):
    outputs = [output for cell in code_of(notebook) for output in cell.outputs]
    return [output.data for output in outputs if output.output_type == "execute_result"]


def test_it_gets_red_is_mended_and_gets_green(run):
    _, now, _ = run
    red, green = results_in(now)
    assert red["text/plain"].startswith("NOT ALIGNED in 3 of 3 steps (eval; ")
    assert "LayerNorm's epsilon is 1e-12 in torch and 1e-05 in Paddle" in red["text/plain"]
    assert green["text/plain"].startswith("ALIGNED in steps 1, 3 and 4 (eval; ")
    for data in (red, green):
        assert "1 forward" in data["text/html"] and "4 backward" in data["text/html"]
    pictures = [output for cell in code_of(now) for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in pictures) == 2


def test_both_sources_are_shown_and_named_as_a_reader_knows_them(run):
    _, now, folder = run
    red, _ = results_in(now)
    (port,) = (cell for cell in code_of(now) if cell.source.startswith("class Block"))
    lines = port.source.splitlines()
    number = next(i for i, line in enumerate(lines, 1) if "layernorm_before = " in line)
    place = f"cell [{port.execution_count}], line {number}"
    assert f"paddle  {place}\n" in red["text/plain"] and f"paddle {place}<pre>" in red["text/html"]
    assert f"->     {number} {lines[number - 1]}\n" in red["text/plain"]
    assert "torch   transformers/models/vit/modeling_vit.py:" in red["text/plain"]
    copy = folder / "log" / "red" / "pair" / "vit" / f"cell-{port.execution_count}.py"
    assert copy.read_text().splitlines() == lines
    page = (folder / "log" / "red" / "report.html").read_text()
    assert copy.name in page and lines[number - 1].strip() in page  # with the source


@pytest.mark.parametrize("notebook", ["kept", "run"])
def test_no_path_of_this_machine_is_in_it(run, notebook):
    kept, now, folder = run
    text = nbformat.writes(kept if notebook == "kept" else now)
    for path in (str(folder), str(NOTEBOOK.parents[2]), "/tmp", "ipykernel", sys.prefix):
        assert path not in text, path


def test_what_is_no_cell_is_left_alone(tmp_path, monkeypatch):
    def own():
        return 1

    cached = {"<attrs generated init x>": (1, None, ["x\n"], "x"), __file__: (lambda: "",)}
    monkeypatch.setattr(cells.linecache, "cache", cached)
    assert cells.written(tmp_path) == {} and not list(tmp_path.iterdir())
    cells.rename({})
    assert own.__code__.co_filename == __file__


def test_paths_are_shown_from_the_working_folder_or_the_package_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = f"at {tmp_path}/a/b.py:3 and /else/c.py:1, /x/lib/site-packages/torch/nn.py:2"
    assert shown(told) == "at a/b.py:3 and /else/c.py:1, torch/nn.py:2"
    monkeypatch.syspath_prepend("/of a user/site-packages")
    assert shown("at /of a user/site-packages/vit.py:5") == "at vit.py:5"
