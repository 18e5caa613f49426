"""The page's top, its tree of the model and its charts, in a browser."""

from dataclasses import replace

import builders
import numpy as np
import pytest
from test_report_page import EVIL, OPEN_ALL, OVERFLOW, green_row, open_page  # noqa: F401

from twincheck.common.check.result import Result
from twincheck.common.logs.sidecar import Sidecar
from twincheck.common.report import acceptance, html_flow, html_page, html_tree
from twincheck.common.system.frameworks import SIDES
from twincheck.common.verdict.row import claim, worst_row
from twincheck.step1_forward.step import STEP as FORWARD
from twincheck.step4_backward.step import STEP as BACKWARD
from twincheck.step5_train.step import STEP as TRAIN

LAYERS, RED = 12, "layers.7.norm"
NAMES = [f"layers.{i}{part}" for i in range(LAYERS) for part in ("", ".attention", ".norm")]


def forward_of(folder, red=RED, only=()):
    """Step 1 of twelve layers: all alike, or wrong from one module on.

    only  modules that Paddle alone has, behind layers.3.norm
    """
    folder.mkdir(parents=True)
    result = Result(FORWARD, "deep", folder=folder, cases=("main/", "train/"))
    result.ran, result.guide_passed, result.guide_all_passed = ("eval", "train"), not red, not red
    keys = []
    for case in result.cases:
        keys.append(f"{case}embedded")
        for layer in range(LAYERS):
            inner = [f"layers.{layer}.attention", f"layers.{layer}.norm", f"layers.{layer}"]
            keys += [f"{case}{name}" for name in inner]
        keys.append(f"{case}logits")
    result.rows = [green_row(i, key) for i, key in enumerate(keys)]
    first = keys.index(f"main/{red}") if red else len(keys)
    for i, row in enumerate(result.rows):
        row.guide_passed, row.inside = True, not row.key.endswith("logits")
        if red and i >= first and row.key.startswith("main/"):
            row.verdict, row.gap, row.guide_passed = "CARRIED", 1e-3, False
    if red:
        row = result.rows[first]
        row.verdict, row.origin, row.worst_index, row.beyond = "DIVERGED", True, (0, 1), 60
        row.worst_ref, row.worst_cand = 1.0, 1.25
    at = NAMES.index("layers.3.norm") + 1
    for side, own in (("torch", NAMES), ("paddle", [*NAMES[:at], *only, *NAMES[at:]])):
        modules = {f"{case}{name}": 2 for case in result.cases for name in own}
        more = () if side == "torch" else only
        places = dict.fromkeys([*keys, *(f"main/{name}" for name in more)], "model.py:3")
        classes = {key: f"own Layer {EVIL}" for key in keys}
        told = {"modules": modules, "places": places, "classes": classes}
        values = np.linspace(0, 1, 60).reshape(3, 20)
        values[0, :2] += 0.25 * (side == "paddle") * np.array([1, 1e-7])
        path = folder / f"forward_all_{side}_fp64.npy"
        builders.write_log(path, {f"main/{red or NAMES[0]}": values}, {})
        builders.write_log(folder / f"forward_all_{side}.npy", {"main/logits": values}, told)
        result.classes[side] = classes
    built = {"torch": {"epsilon": 0.1}, "paddle": {"epsilon": 0.2}}
    result.settings = {side: {f"main/{red}": of} for side, of in built.items()}
    return result


def write(path, *results):
    html_page.write_page(path, results, "twincheck check", "a step")
    return path


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    folder = tmp_path_factory.mktemp("red")
    result = forward_of(folder / "deep", only=("layers.3.extra",))
    return write(folder / "report.html", result)


@pytest.fixture(scope="module")
def green(tmp_path_factory):
    folder = tmp_path_factory.mktemp("green")
    return write(folder / "report.html", forward_of(folder / "deep", red=""))


def lines(shown):
    """Return the text of each visible line of the tree, without what is told by colour."""
    return shown.page.locator("#tree [role=treeitem]").all_inner_texts()


def line_of(shown, name):
    return shown.page.locator("#tree [role=treeitem]").filter(has_text=name).first


# ---- the tree ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_alike_is_folded_into_one_line(green, open_page):  # noqa: F811
    shown = open_page(green)
    told = lines(shown)
    assert len(told) == 2 and "layers.0 to 11: 72 tensors agree" in told[1]
    line_of(shown, "layers.0 to 11").click()
    assert len(lines(shown)) == 2 + LAYERS
    assert shown.problems == []


def test_it_opens_on_what_is_red_deep_in_twelve_layers(red, open_page):  # noqa: F811
    shown = open_page(red)
    told = [" ".join(text.split()) for text in lines(shown)]
    folds = [text.split(":")[0].removeprefix("▸ ") for text in told if " to " in text]
    assert folds == ["layers.0 to 2", "layers.4 to 6", "layers.8 to 11"]
    assert any("layers.8 to 11" in text and "12 CARRIED" in text for text in told)
    assert any(text.startswith("▾ layers.7 Layer") for text in told)
    chosen = shown.page.locator("#tree [aria-selected=true]")
    assert "norm" in chosen.inner_text() and "1 DIVERGED" in chosen.inner_text()
    assert "origin" in chosen.get_attribute("class")
    panel = shown.page.locator("#t-panel").inner_text()
    assert panel.startswith(RED) and "epsilon: 0.1 in torch, 0.2 in Paddle" in panel
    worst = shown.page.locator("#t-panel table tbody tr").first.locator("td").all_inner_texts()
    assert worst == ["[0, 0]", "0", "0.25", "2.50e-01"]
    assert "58 are 0" in panel and shown.page.locator("#t-panel .bars i").count() == 8
    assert EVIL in shown.page.locator("#tree").inner_text() and shown.faults() == []


def test_a_module_that_one_side_alone_has_stands_where_it_is(red, open_page):  # noqa: F811
    shown = open_page(red)
    line_of(shown, "layers.3").locator(".twist").click()
    told = [" ".join(text.split()) for text in lines(shown)]
    at = next(i for i, text in enumerate(told) if "not in torch" in text)
    assert "norm" in told[at - 1] and "layers.3" in told[at - 3] and "layers.4" in told[at + 1]
    assert "extra" in told[at] and "no counterpart" in told[at]
    line_of(shown, "not in torch").click()
    assert "Only Paddle has this module" in shown.page.locator("#t-panel").inner_text()


def test_values_stand_in_the_order_in_which_they_flow(green, open_page):  # noqa: F811
    shown = open_page(green)
    assert not any("logits" in text for text in lines(shown))
    shown.page.get_by_role("button", name="Values in the order").click()
    assert "embedded" in lines(shown)[1] and "logits" in lines(shown)[-1]
    line_of(shown, "layers.0 to 11").click()
    shown.page.locator("#tree [role=treeitem]").nth(3).locator(".twist").click()
    inner = [" ".join(text.split()) for text in lines(shown)[4:7]]
    assert "attention" in inner[0] and "norm" in inner[1] and inner[2].startswith("layers.0 3 × 20")


def test_an_input_says_which_values_it_is(tmp_path):
    first, second = np.random.default_rng(0).normal(size=(2, 3, 20))
    third = np.nextafter(first + 2 * second, np.inf)  # one bit from the sum
    values = {"embed": first, "fc:in/0": first, "fc": second, "norm:in/0": first + second}
    values |= {"norm": third, "head:in/0": third + second, "tail:in/0": np.nextafter(third, 9)}
    result = Result(FORWARD, "fed", folder=tmp_path / "fed", cases=("main/", "again/"))
    keys = [f"{case}{name}" for case in result.cases for name in values]
    result.rows = [green_row(i, key) for i, key in enumerate(keys)]
    modules = {key.partition(":")[0]: 2 for key in keys}
    logged = {f"{case}{name}": v for case in result.cases for name, v in values.items()}
    logged |= {"again/fc:in/0": 3 * first}  # which only the other case's embed is
    logged["again/embed"] = 4 * first
    result.folder.mkdir()
    for side in SIDES:
        builders.write_log(result.folder / f"forward_all_{side}_fp64.npy", logged, {})
        told = {"modules": modules}
        builders.write_log(result.folder / f"forward_all_{side}.npy", {"main/a": first}, told)
    assert html_flow.flow_of(result, range(len(keys))) == {
        1: ["embed"],
        3: ["embed", "fc"],
        5: ["fc", "norm"],
        12: ["fc", "norm"],
    }


def test_the_keys_of_a_tree_move_open_and_choose(red, open_page):  # noqa: F811
    shown = open_page(red)
    keys, page = shown.page.keyboard, shown.page

    def at():
        told = page.evaluate("[document.activeElement.role, document.activeElement.innerText]")
        return told[0], " ".join(told[1].split())

    page.locator("#tree [tabindex='0']").focus()
    assert page.locator("#tree [tabindex='0']").count() == 1
    keys.press("Home")
    assert at()[0] == "treeitem" and "the model" in at()[1]
    keys.press("ArrowDown")
    assert "layers.0 to 2" in at()[1]
    count = len(lines(shown))
    keys.press("ArrowRight")
    assert len(lines(shown)) == count + 3
    keys.press("ArrowRight")
    assert "layers.0 Layer" in at()[1]
    keys.press("Enter")
    assert page.locator("#t-panel h3").inner_text() == "layers.0"
    keys.press("ArrowLeft")
    assert "layers.0 to 2" in at()[1]
    keys.press("ArrowLeft")
    assert len(lines(shown)) == count
    keys.press("End")
    assert "layers.8 to 11" in at()[1]
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert shown.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_in_tree_and_top(scheme, red, open_page):  # noqa: F811
    shown = open_page(red, color_scheme=scheme)
    shown.page.evaluate(OPEN_ALL)
    assert shown.axe() == []
    # Planted: a line that is no item of the tree.
    shown.page.evaluate("document.querySelector('#tree').append(document.createElement('button'))")
    assert {fault.partition(":")[0] for fault in shown.axe()} >= {"aria-required-children"}


@pytest.mark.slow
def test_a_large_model_opens_in_a_second_and_is_small(tmp_path, open_page):  # noqa: F811
    result = forward_of(tmp_path / "deep")
    for i in range(400):
        name = f"train/layers.{i % LAYERS}.norm:in/{i}"
        result.rows += [green_row(i, f"{name}@{n}") for n in range(75)]
    path = write(tmp_path / "report.html", result)
    assert path.stat().st_size < 3_000_000
    shown = open_page(path)
    took = shown.page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive")
    ready = shown.page.evaluate("performance.now()")
    assert len(lines(shown)) > 5 and took < 1000 and ready < 5000, (took, ready)


# ---- what decides --------------------------------------------------------------------------------


def train_of(folder, verdict="UNDECIDED"):
    """Step 5, whose guide's rule fails; undecided or as good as each other."""
    folder.mkdir(parents=True)
    result = Result(TRAIN, "deep", folder=folder)
    row = claim("seeds/accuracy", 0.1, 0.2, "five seeds")
    row.verdict = verdict
    result.rows = [row]
    result.guide_passed = False
    return result


def answers(shown):
    told = shown.page.locator("table.overview").first.locator("tbody tr")
    return {
        told.nth(i).locator("th").inner_text(): told.nth(i).locator(".answer").inner_text()
        for i in range(told.count())
    }


def test_the_first_words_answer_the_questions(tmp_path, open_page):  # noqa: F811
    results = [forward_of(tmp_path / "a", red=""), train_of(tmp_path / "b")]
    shown = open_page(write(tmp_path / "report.html", *results))
    told = {"Same function?": "yes", "Trains alike?": "undecided"}
    told |= {"The guide’s rule?": "FAIL", "Modes checked": "eval and train"}
    assert answers(shown) == told
    assert shown.page.locator("h1 .open use").get_attribute("href") == "#v-UNDECIDED"
    tones = [shown.page.locator(f".answer.{tone}").count() for tone in ("open", "carried")]
    assert tones[0] and not tones[1]
    first = "[...document.querySelectorAll('h2, h3.part')].map(one => one.innerText)"
    heads = shown.page.evaluate(first)
    order = ["Overview", "The guide’s acceptance", "What is not plain agreement"]
    assert heads[:3] == order and heads[3].startswith("The model")
    shown.page.get_by_role("link", name="passed").first.click()
    shown.page.locator("#rows tr.target").wait_for(timeout=5_000)
    assert shown.page.locator("#rows tr.target").count() == 1


def test_the_acceptance_leads_to_the_row_that_fails(tmp_path):
    red = forward_of(tmp_path / "a")
    ((node, (answer,)),) = acceptance.met([red])
    assert (node.numbers, node.node) == ("NLP 3.1, CV 3.1", True)
    assert (answer.word, answer.said, answer.row.key) == ("FAIL", "DIVERGED", f"main/{RED}")
    green = forward_of(tmp_path / "b", red="")
    ((_, (answer,)),) = acceptance.met([green])
    assert (answer.word, answer.tone) == ("passed", "good")
    green.reprod_log = False  # its own word counts
    ((_, (answer,)),) = acceptance.met([green])
    assert (answer.word, answer.tone) == ("FAIL", "mind")
    assert len(acceptance.NODES) == 12


def test_the_worst_tensor_is_one_that_readers_know(tmp_path):
    rows = [green_row(1, "main/logits"), claim("main/witness/sgd_step/torch", 0.9, 1.0, "a step")]
    assert worst_row(rows).key == "main/logits"
    assert worst_row(rows[1:]).key == "main/witness/sgd_step/torch"
    failing = [claim(key, off, 1.0, "a step") for key, off in (("a", 1.14), ("b", 813.0))]
    carried = replace(claim("c", 9000.0, 1.0, "a step"), verdict="CARRIED")
    assert worst_row([*rows, *failing, carried]).key == "b"
    assert worst_row([*rows, *failing], {"DIVERGED"}).key == "main/logits"
    result = Result(BACKWARD, "one", rows=rows, folder=tmp_path, cases=("main/",))
    page = html_page.page([result], "twincheck check", "step 4")
    overview = page.partition('id="results"')[0]
    assert "main/logits" in overview and "witness/sgd_step" not in overview


# ---- charts --------------------------------------------------------------------------------------


def test_a_chart_tells_a_point_and_is_enlarged_by_dragging(red, open_page):  # noqa: F811
    from playwright.sync_api import expect

    shown = open_page(red)
    page = shown.page
    chart = page.locator(".drawn > svg").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    before = chart.locator(".plot path").first.get_attribute("d")

    def to(x, y, **how):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], **how)

    hit = chart.locator(".plot path.bad").evaluate(
        "one => { const b = one.getBoundingClientRect(); return [b.x + 4, b.y + 4]; }"
    )
    page.mouse.move(*hit)
    tip = page.locator("figure.chart .tip").first
    assert tip.is_visible() and f"main/{RED}" in tip.inner_text()
    assert "DIVERGED: float64 gap" in tip.inner_text()
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("#rows tr.target bdi")).to_have_text(f"main/{RED}")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    to(0.3, 0.5)
    page.mouse.down()
    to(0.6, 0.5, steps=4)
    page.mouse.up()
    assert chart.locator(".plot path").first.get_attribute("d") != before
    page.get_by_role("button", name="Show all of it").click()
    assert chart.locator(".plot path").first.get_attribute("d") == before.replace(" ", " ")
    assert shown.problems == []


def test_a_line_that_built_a_module_goes_before_one_that_called_it(tmp_path):
    rows = [green_row(0, "main/token_1/a.norm:in/0"), green_row(1, "main/a.norm/1")]
    result = Result(FORWARD, "one", rows=rows, folder=tmp_path, cases=("main/",))
    result.places = {"torch": {"main/a.norm": "called.py:1", "main/a.norm:in/0": "called.py:2"}}
    result.made = {"torch": {"main/a.norm": "made.py:1"}}
    cars = {side: [Sidecar(modules={"main/a": 2, "main/a.norm": 2})] for side in SIDES}
    tree = html_tree.tree_of(rows, range(2), result, cars)
    assert tree["places"]["torch"] == ["", "", "made.py:1"] and tree["of"] == [2, 2]
    result.made = {}
    tree = html_tree.tree_of(rows, range(2), result, cars)
    assert tree["places"]["torch"][2] == "called.py:1"
