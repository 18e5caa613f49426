"""The report's page in a browser: it loads nothing, finds, sorts and opens rows, and shows as text
what came from a log."""

import errno
import itertools
import json
import os
import re
from pathlib import Path
from urllib.parse import unquote

import builders
import numpy as np
import pytest

from twincheck.common.check import command_line
from twincheck.common.check.result import Result
from twincheck.common.report import html_page, html_rows, html_words
from twincheck.common.report.sentences import decided
from twincheck.common.report.source_lines import source_context
from twincheck.common.report.terminal import number
from twincheck.common.system.reasons import ENGLISH, Kind
from twincheck.common.verdict.row import Row, claim
from twincheck.step1_forward.step import STEP as FORWARD
from twincheck.step4_backward.step import STEP as BACKWARD
from twincheck.step5_train.step import STEP as TRAIN

EVIL = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
# Keys as anybody may write them into a log.
HOSTILE = (
    f"main/{EVIL}",
    "main/\"quotes\" & 'quotes' `${window.hacked = 1}`",
    "main/line\u2028paragraph\u2029end",
    "main/\u202eright to left\u202c \u05d0\u05d1\u05d2 \u200f.",
    "main/" + "very.long." * 60 + "end",
    "main/lone \ud800 surrogate \0 and control \x1b[31m",
    "main/%2F%3Cb%3E%zz#?&=",
    "main/{{ 7 * 7 }}{% raw %}<!--",
)


# ---- results made by hand ------------------------------------------------------------------------


def green_row(i: int, key: str) -> Row:
    """A row whose numbers tell it from every other."""
    row = Row(key, "ROUNDING" if i % 3 else "IDENTICAL", size=60, shape=(3, 20), measure="rms")
    row.mean_abs, row.max_abs, row.guide_passed = 1e-8 * (i + 1), 4e-8 * (i + 1), True
    row.gap, row.allowed, row.scale = 1.5e-17 * (i + 1), 3e-12, 1.0 + i
    row.noise_ref, row.noise_cand = 2e-8, 3e-8
    row.difference, row.noise = 10**-6.1, 10**-6.2
    return row


def write_log(folder: Path, stem: str, side: str, arrays: dict, **told) -> None:
    """A log with a sidecar."""
    told |= {"framework": side, "framework_version": "1.2", "command": f"python -m {side} {EVIL}"}
    told |= {"environment": {"python": "3.11.7", "platform": EVIL}}
    builders.write_log(folder / f"{stem}_{side}.npy", arrays, told)


def forward_result(folder: Path) -> Result:
    """A red result: hostile keys, notes and sources, a flip, and 300 rows that agree."""
    folder.mkdir(parents=True)
    source = folder / "model.py"
    source.write_text("".join(f"line = {i}  # {EVIL}\n" for i in range(1, 11)))
    result = Result(FORWARD, f"red {EVIL}"[:40], folder=folder, cases=("main/",))
    result.rows = [green_row(i, f"main/layers.{i}.output") for i in range(300)]
    for key in HOSTILE:
        row = green_row(7, key)
        row.verdict, row.gap, row.origin, row.reasons = "DIVERGED", 0.25, True, (f"note {EVIL}",)
        row.beyond, row.worst_index, row.worst_ref, row.worst_cand = 3, (0, 1), 1.0, 1.25
        result.rows.append(row)
    carried = green_row(8, "main/carried")
    carried.verdict = "CARRIED"
    flip = Row("main/choice", "FLIP", measure="count", size=4, shape=(4,), gap=1e-9, allowed=2e-9)
    flip.add("torch float32: 1 of 4 different")
    result.rows += [carried, flip, claim("main/witness", 1.0, 2.0, "a claim")]
    places = {row.key: f"{source}:5" for row in result.rows}
    result.places = {"torch": places, "paddle": {key: f"{source}:10" for key in places}}
    result.notes = [f"a note {EVIL}"]
    result.guide_passed, result.guide_all_passed, result.elapsed_s = True, False, 1.0
    result.guide_report = "forward_diff.log"
    (folder / "forward_diff.log").write_text(f"[2026/11/22] root INFO: {EVIL}\ndiff check passed\n")
    ledger = {"main/choice": {"margin": "main/choice:margin", "scores": "main/choice:scores"}}
    told = {"choices": ledger, "places": {}, "seed": 0}
    margins = np.array([0.5, 1e-9, 3.0, 4.0])
    for side in ("torch", "paddle"):
        write_log(folder, "forward_all", side, {"main/choice:margin": margins}, **told)
    return result


def backward_result(folder: Path) -> Result:
    """A green result with an optimizer's steps."""
    folder.mkdir(parents=True)
    result = Result(BACKWARD, "green", folder=folder, cases=("main/",))
    for step, kind in itertools.product(range(4), ("grad", "weight")):
        key = f"main/adam/{step:03d}/{kind}/dense.weight"
        result.rows.append(green_row(step, key))
    result.guide_passed = result.guide_all_passed = True
    return result


def train_result(folder: Path) -> Result:
    """A green result with the curves of a training, and what was decided of it."""
    folder.mkdir(parents=True)
    result = Result(TRAIN, "green", folder=folder)
    result.rows = [claim("train/drift/epoch_001", 1e-4, 1e-3, "apart")]
    result.rows[0].size = 40
    said = "alike in float32: 1 part of the losses"
    result.answers = {"decided": {"whole training": {"verdict": "ROUNDING", "said": said}}}
    loss = np.exp(-np.arange(40) / 10)
    curves = {"curve/loss": loss, "curve/lr": loss}
    curves |= {"curve/order": [1, 2], "curve/accuracy": [0.5, 0.9]}
    write_log(folder, "train_full", "torch", curves)
    write_log(folder, "train_full", "paddle", curves | {"curve/loss": loss + 1e-6})
    return result


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    made = {"forward": forward_result, "backward": backward_result, "train": train_result}
    base = tmp_path_factory.mktemp("results")
    return [make(base / name) for name, make in made.items()]


@pytest.fixture(scope="module")
def written(results, tmp_path_factory):
    """The page of these results."""
    path = tmp_path_factory.mktemp("a page #1") / "report.html"
    html_page.write_page(path, results, f"python check.py {EVIL}", "all steps")
    return path


# ---- the browser ---------------------------------------------------------------------------------


class Opened:
    """A page in the browser, and what went wrong in it."""

    def __init__(self, browser, path: Path, fragment: str = "", **options):
        options = {"viewport": {"width": 1280, "height": 900}} | options
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(5000)
        self.problems: list[str] = []
        self.page.on("console", lambda message: self.problems.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("request", self._request)
        self.url = path.as_uri()
        self.page.goto(self.url + fragment)
        if options.get("java_script_enabled", True):  # the rows are unpacked behind the page
            self.page.locator("#tensors").wait_for()
            self.page.evaluate("document.getElementById('all-rows').open = true")

    def _request(self, request) -> None:
        if request.url.partition("#")[0] != self.url:
            self.problems.append(f"request: {request.url[:80]}")

    def faults(self) -> list[str]:
        """All that went wrong, a script or an image that came from a log among it."""
        counts = self.page.evaluate(
            "[window.hacked, document.querySelectorAll('img').length, document.scripts.length]"
        )
        return self.problems + ([] if counts == [None, 0, 2] else [f"markup from a log: {counts}"])

    def keys(self) -> list[str]:
        return self.page.locator("#rows td.key bdi").all_text_contents()

    def found(self) -> str:
        return self.page.locator("#found").text_content()

    def expect_found(self, start: str) -> None:
        """Wait until the number of rows begins so: a search begins a moment after the last key."""
        from playwright.sync_api import expect

        expect(self.page.locator("#found")).to_have_text(re.compile(f"^{start}"))

    def axe(self, *rules: str) -> list[str]:
        """Serious and critical faults of accessibility, by all rules or by those that are named."""
        from axe_playwright_python.sync_playwright import Axe

        options = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
        found = Axe().run(self.page, options=options).response["violations"]
        return [
            f"{one['id']}: {node['html'][:120]}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def open_page(browser):
    opened = []

    def open_one(path, fragment="", **options):
        opened.append(Opened(browser, path, fragment, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def shown(written, open_page):
    """The page as it opens."""
    return open_page(written)


# ---- what it does --------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_is_loaded_and_what_a_log_holds_is_text(shown):
    for block in shown.page.locator("details.result").all():
        block.evaluate("one => { one.open = true; }")
    shown.page.select_option("#f-result", "0")
    keys = shown.keys()
    for key in HOSTILE:
        text = html_rows.visible(key)
        assert text in keys
        button = shown.page.locator("#rows button").nth(keys.index(text))
        button.click()
    body = shown.page.locator("body").inner_text()
    assert "</script><script>window.hacked = 1</script>" in body and "{{ 7 * 7 }}" in body
    assert "\\u2028" in body and "\\u202e" in body and "\\ud800" in body and "\\x1b" in body
    assert shown.faults() == []


def test_rows_are_found_by_words_verdict_and_kind(shown):
    page = shown.page
    page.select_option("#f-result", "-1")
    assert shown.found().startswith("320 of 320 rows of all results")
    page.fill("#f-text", "layers 29 output")
    shown.expect_found("13 of")
    assert shown.found().startswith("13 of 320")  # 29, 129, 229 and 290 to 299
    page.fill("#f-text", "")
    shown.expect_found("320 of")
    for verdict in ("ROUNDING", "IDENTICAL"):
        page.uncheck(f"#f-verdicts input[value={verdict}]")
    assert shown.found().startswith("10 of 320 rows") and len(shown.keys()) == 10
    page.select_option("#f-kind", "choices")
    assert shown.keys() == ["main/choice"]
    assert shown.page.locator("#found").get_attribute("aria-live") == "polite"
    assert shown.problems == []


def test_rows_are_sorted_and_turned_over(shown, results):
    page = shown.page
    page.select_option("#f-result", "0")
    page.get_by_role("button", name="Mean diff").click()
    rows = sorted(results[0].rows, key=lambda row: row.mean_abs or 0.0, reverse=True)
    assert shown.keys()[:3] == [row.key for row in rows[:3]]
    heads = page.locator("#heads th")
    sorts = [heads.nth(i).get_attribute("aria-sort") for i in range(heads.count())]
    assert sorts == [None, None, None, "descending", *[None] * 5]
    first = page.locator("#rows tr").first.locator("td").all_text_contents()
    shown_ones = ("mean_abs", "max_abs", "noise_ref", "noise_cand", "gap")
    assert first[3:8] == [number(getattr(rows[0], name)) for name in shown_ones]
    page.get_by_role("button", name="Mean diff").click()
    assert shown.keys()[0] == "main/layers.0.output"
    page.get_by_role("button", name="Next").click()
    assert page.locator("#page").text_content() == "51 to 100 of 311"
    assert shown.problems == []


@pytest.mark.slow
def test_a_link_opens_its_row_and_shows_both_sources(written, results, open_page):
    name = html_page._name(results[0])
    links = {key: html_page._anchor(name, key) for key in ("main/layers.299.output", *HOSTILE)}
    shown = open_page(written, links[HOSTILE[0]])
    page = shown.page
    for key, link in links.items():
        page.goto(shown.url + link)
        target = page.locator("#rows tr.target")
        assert target.locator("bdi").text_content() == html_rows.visible(key)
        button = target.locator("button")
        assert button.get_attribute("aria-expanded") == "true"
        assert button.evaluate("one => one === document.activeElement")
        detail = page.locator("#rows tr.target + tr td.detail")
        lines = [detail.locator(f"figure.{s} .here").text_content() for s in ("torch", "paddle")]
        assert [line.split("  #")[0] for line in lines] == ["▶ 5line = 5", "▶ 10line = 10"]
        assert detail.locator("figure.torch .line").count() == 5
        assert detail.locator("figure.paddle .line").count() == 3  # the source ends there
        row = next(r for r in results[0].rows if r.key == key)
        assert decided(row) in detail.text_content()
        own = detail.get_by_text("Link to this row")
        assert own.evaluate("one => decodeURIComponent(one.hash)") == unquote(link)
    page.goto(shown.url + html_page._anchor(name, "main/absent"))
    assert "no row of" in shown.found() and "is called main/absent" in shown.found()
    assert shown.problems == []


OPEN_ALL = "document.querySelectorAll('details').forEach(one => { one.open = true; })"


@pytest.mark.slow
def test_axe_finds_no_serious_fault(written, results, open_page):
    link = html_page._anchor(html_page._name(results[0]), HOSTILE[0])
    shown = open_page(written, link, color_scheme="light")
    shown.page.evaluate(OPEN_ALL)
    assert shown.axe() == []
    levels = shown.page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(one => Number(one.tagName[1]))"
    )
    assert levels[0] == 1 and all(b - a <= 1 for a, b in itertools.pairwise(levels))
    shown.page.emulate_media(color_scheme="dark")
    assert shown.axe("color-contrast") == []
    # Planted: an input without a label, and text that can hardly be told from its ground.
    shown.page.evaluate(
        """() => {
            document.querySelector('main').append(document.createElement('input'));
            document.querySelector('.lead').style.color = '#777777';
        }"""
    )
    found = {fault.partition(":")[0] for fault in shown.axe("label", "color-contrast")}
    assert found == {"label", "color-contrast"}


OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_a_phone_never_scrolls_sideways(written, results, open_page):
    link = html_page._anchor(html_page._name(results[0]), HOSTILE[4])
    shown = open_page(written, link, viewport={"width": 360, "height": 740})
    shown.page.evaluate(OPEN_ALL)
    assert shown.page.evaluate(OVERFLOW) == 0
    assert shown.page.locator("#f-sort").is_visible()
    shown.page.evaluate("document.querySelector('.lead').style.width = '500px'")
    assert shown.page.evaluate(OVERFLOW) > 0


@pytest.mark.slow
def test_on_paper_all_is_open_and_nothing_can_be_pressed(written, open_page):
    from playwright.sync_api import expect

    shown = open_page(written, viewport={"width": 720, "height": 1000})  # A4 within its margins
    page = shown.page
    page.select_option("#f-result", "0")
    page.emulate_media(media="print")
    expect(page.locator("#rows td.key")).to_have_count(311)
    assert page.locator("details:not([open])").count() == 0
    for hidden in ("#controls", "nav", ".pages", ".copy >> nth=0"):
        assert not page.locator(hidden).is_visible(), hidden
    assert page.locator("#rows td.key").first.is_visible()
    assert page.evaluate(OVERFLOW) == 0  # nothing beyond the paper's edge
    page.emulate_media(media="screen")
    expect(page.locator("#rows td.key")).to_have_count(50)
    assert page.locator("details:not([open])").count() > 0


def test_without_scripts_the_worst_rows_are_there(written, open_page):
    shown = open_page(written, java_script_enabled=False)
    assert not shown.page.locator("#tensors").is_visible()
    worst = shown.page.locator("noscript table").first
    assert worst.is_visible() and "DIVERGED" in worst.text_content()
    assert worst.locator("tbody tr").count() == html_page.SHOWN_WITHOUT_SCRIPT


def test_charts_choices_and_environments_are_told(shown):
    page = shown.page
    page.evaluate(OPEN_ALL)
    labels = page.locator(".drawn > svg").evaluate_all("all => all.map(o => o.ariaLabel)")
    told = " ".join(labels)
    for words in (
        *("Error against depth", "Gradient and weight drift", "Difference of the losses"),
        *("come 1.0e-04 apart", "allow up to 1.0e-03", "Test accuracy", "at the end torch 0.9"),
    ):
        assert words in told, words
    paths = page.locator(".drawn > svg path").evaluate_all("all => all.map(o => o.outerHTML)")
    assert len(labels) >= 5 and not [path for path in paths if re.search("NaN|inf", path)]
    choices = page.get_by_role("table", name="Those that differ first").inner_text()
    assert "main/choice" in choices and "1.00e-09" in choices and "1 of 4 different" in choices
    environments = page.locator("#environments").inner_text()
    assert "3.11.7" in environments and "1.2" in environments
    assert "diff check passed" in page.locator("pre.log").first.inner_text()


# ---- without a browser ---------------------------------------------------------------------------


def test_numbers_come_back_to_three_digits():
    rng = np.random.default_rng(0)
    values = [None, np.nan, 0.0, np.inf, -2.5, 9.996e-8, 1e-99, 1e-120, 1e300, 1.0, 0.1, 1e-7]
    values += list(10.0 ** rng.uniform(-40, 40, 2000) * rng.uniform(1, 10, 2000))
    told = json.dumps([html_rows.plain_number(value) for value in values], allow_nan=False)
    for value, found in zip(values, json.loads(told, parse_int=float), strict=True):
        if value is None or np.isnan(value):
            assert found is None
        else:
            assert found == pytest.approx(value, rel=5.01e-3)


def many_rows(count: int) -> list[Row]:
    """Rows like those of the Reformer in the shape of enwik8, with keys as long as its."""
    parts = ("attention.self_attention.query_key_dots", "feed_forward.dense.weight", "layer_norm")
    rows = []
    for i in itertools.count():
        for kind, part in itertools.product(("", "grad/", "grad_of/", "adam/003/weight/"), parts):
            if len(rows) == count:
                return rows
            key = f"main/{kind}reformer.encoder.layers.{i % 12}.{part}.{i}:in/0"
            row = green_row(i, key)
            row.mean_abs *= 1 + 1 / (len(rows) + 1)
            row.add("noisier than 0.0001 of its scale: capped" if i % 2 else "")
            rows.append(row)


def test_a_row_says_what_decided_it_as_a_terminal_does(tmp_path):
    """The page's script puts the numbers into these sentences; most rows have one."""
    rows = [green_row(i, f"main/{name}") for i, name in enumerate(("a", "b", "c", "d"))]
    rows[1].excuses, rows[1].measured = (Kind.MEASURED,), True
    rows[2].verdict, rows[2].gap = "DIVERGED", 0.5
    rows[3].key, rows[3].gap = "main/grad/d", 0.0
    result = Result(FORWARD, "one", rows=rows, folder=tmp_path, cases=("main/",))
    packed = html_rows.PackedRows(html_words.Words(ENGLISH))
    packed.add("step1/one", "", result, range(4), "", set())
    data = json.loads(json.dumps(packed.as_json()))
    (one,) = data["results"]
    for i, row in enumerate(rows):
        numbers = {name: of[i] for name, of in one["numbers"].items()}
        (said,) = data["texts"][one["decided"][i]]
        told = said.format(**{name: number(value) for name, value in numbers.items()})
        assert told == decided(row)
    assert len(set(one["decided"])) == 3 and "0.00e+00" in told
    shared = {i: data["texts"][said] for i, said in one["digits"].items()}
    assert shared == {str(i): ["6.1 of 6.2 digits"] for i in range(3)}
    assert ">outputs share 6.1 of 6.2 digits<" in html_page.page(
        [result], "twincheck check", "step 1"
    )


def test_too_many_rows_leave_out_those_that_agree_best(tmp_path, monkeypatch):
    monkeypatch.setattr(html_rows, "MOST_ROWS", 50)
    result = Result(FORWARD, "one", rows=many_rows(200), folder=tmp_path, cases=("main/",))
    result.rows[3].verdict = "DIVERGED"
    (shown,) = html_rows.rows_shown([result])
    assert len(shown) == 50 and 3 in shown and 199 in shown and shown == sorted(shown)
    text = html_page.page([result], "", "step 1")
    assert "150 further rows, which agree, are left out" in text


def test_a_report_that_cannot_be_written_loses_no_verdict(results, tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    command_line.write_page(tmp_path / "file", results, "twincheck check", "all")
    said = capsys.readouterr().out
    assert said.startswith("no report: ") and "the verdict above stands" in said
    former = tmp_path / html_page.FILE
    former.write_text("the former page")
    monkeypatch.setattr(html_page.Path, "write_text", full_disk)
    command_line.write_page(tmp_path, results, "twincheck check", "all")
    assert "No space left on device" in capsys.readouterr().out
    assert former.read_text() == "the former page" and len(list(tmp_path.iterdir())) == 2


def full_disk(path: Path, content: str, encoding: str = "") -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def test_a_context_is_only_ever_a_python_file(tmp_path):
    source = tmp_path / "model.py"
    source.write_text("a\nb\r\n\tc\nd\ne\n")
    found = [(line.number, line.text, line.here) for line in source_context(f"{source}:2")]
    assert found == [(1, "a", False), (2, "b", True), (3, "\tc", False), (4, "d", False)]
    assert source_context(f"{source}:5 (where x is used)", before=0)[0].text == "e"
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    for place in (
        *(f"{secret}:1", f"{source}:6", f"{source}:0", f"{source}", "", "a\0.py:1"),
        *(f"{tmp_path}/../{tmp_path.name}/model.py:1", f"{tmp_path}/absent.py:1"),
    ):
        assert source_context(place) == (), place
    assert source_context("common/report/source_lines.py:1")[0].text.startswith('"""')
