"""The page of two results compared: text alone, folded, and fit to be read; each fault is found."""

import json
import re

import numpy as np
import pytest
from test_page_language import OTHER

from twincheck.common.report import html_words
from twincheck.extras.compared import command
from twincheck.extras.compared import page as pages
from twincheck.extras.compared.tests.made import make, paddle_off, tensors, told

HOSTILE = "<script>alert(1)</script>"


def test_the_page_is_text_and_loads_nothing(tmp_path, capsys):
    values = tensors()
    make(tmp_path / "old", values | {f"a/{HOSTILE}": values["body.0"]})
    make(tmp_path / "new", values | {f"a/{HOSTILE}": paddle_off(values["body.0"], 1e-3)})
    assert told(capsys, tmp_path / "old", tmp_path / "new")[0] == 1
    page = (tmp_path / "new" / pages.FILE).read_text()
    assert "&lt;script&gt;alert(1)" in page and "<script" not in page
    assert "default-src 'none'" in page and not re.search(r"(src|href)=\"(?!#|data:)", page)


def test_long_lists_are_folded(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pages, "MOST_ROWS", 15)
    rng = np.random.default_rng(3)
    many = {f"body.{i:02d}": rng.normal(size=(5, 8)) for i in range(20)}
    make(tmp_path / "old", tensors() | many)
    off = {key: paddle_off(one, 1e-3) for key, one in many.items()}
    make(tmp_path / "new", tensors() | off)
    status, said, document = told(capsys, tmp_path / "old", tmp_path / "new")
    assert status == 1 and len(document["rows"]) == 20 and "and 10 more, in --json FILE" in said
    page = (tmp_path / "new" / pages.FILE).read_text()
    assert "<summary>5 of 10 more</summary>" in page and "All are in what <code>--json" in page
    assert page.count('<td role="cell" class="key">') == 15


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """The page of two results that have all that it can show."""
    return written(tmp_path_factory.mktemp("seen"))


def written(folder):
    """Two results that have all that a page can show, and the page."""
    values = tensors()
    noisy = {name: paddle_off(values["body.2"], 0.0, noise=n) for name, n in (("o", 1), ("n", 9))}
    long = ".".join(["a_module_with_a_long_name"] * 6)
    old = tensors(**{"body.0": 1e-3}) | {"body.2": noisy["o"], long: values["body.0"]}
    new = tensors(**{"body.1": 1e-3}) | {"body.2": noisy["n"]}
    old["gone"], new[long] = values["body.1"], paddle_off(values["body.0"], 1e-2)
    layers = [{f"{long}.{i}": {"epsilon": value} for i in range(3)} for value in (1e-5, 1e-6)]
    make(folder / "old", old, settings=layers[0])
    make(folder / "new", new, settings=layers[1])
    more = ["--json", str(folder.parent / "said.json")]
    assert command.main([str(folder / "old"), str(folder / "new"), *more]) == 1
    return folder / "new" / pages.FILE


def words_of(page):
    """The words of three letters and more that a page's reader sees, but for names and code."""
    text = re.sub(r"(?s)<(style|symbol|bdi|code)\b.*?</\1>", " ", page)
    labels = re.findall(r'(?:aria-label|data-label|title)="([^"]*)"', text)
    return set(re.findall(r"\b[a-z]{3,}\b", " ".join([re.sub("<[^>]*>", " ", text), *labels])))


def test_the_page_is_in_the_language_that_people_read(tmp_path, monkeypatch):
    """All words of it, but for names: here a language that has one letter for every word."""
    english = words_of(written(tmp_path / "english").read_text())
    assert {"agree", "starts", "noise"} <= english
    monkeypatch.setattr(html_words, "languages", lambda: [OTHER])
    page = written(tmp_path / "other").read_text()
    assert f'<html lang="{OTHER.TAG}">' in page and "<h1><span" in page
    names = {"torch", "paddle", "small_cnn", "body", "model", "main", "epsilon", "gone", "still"}
    assert words_of(page) <= names
    assert json.loads((tmp_path / "said.json").read_text())["sentence"].startswith("2 rows agree")


# What does not fit, of a page.
TOO_WIDE = """
[...document.querySelectorAll('body, th, td, dd, p')]
    .filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.textContent.slice(0, 80))
"""


def faults_of(browser, path, width, scheme):
    """What is wrong with a page: too wide, a script, something asked for, hard to read."""
    from axe_playwright_python.sync_playwright import Axe

    how = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    page = browser.new_page(**how)
    found = []
    page.on("request", lambda request: found.append(f"asks for {request.url}"))
    page.on("console", lambda message: found.append(message.text))
    page.goto(path.as_uri())
    found.remove(f"asks for {path.as_uri()}")
    found += [f"does not fit: {text}" for text in page.evaluate(TOO_WIDE)]
    found += ["a script"] * page.evaluate("document.scripts.length")
    page.close()
    page = browser.new_page(bypass_csp=True, **how)  # or the page lets axe's own script not in
    page.goto(path.as_uri())
    violations = Axe().run(page).response["violations"]
    page.close()
    return found + [one["id"] for one in violations if one["impact"] in ("serious", "critical")]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_can_be_read_by_all(browser, seen, width, scheme):
    assert faults_of(browser, seen, width, scheme) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("white-space: normal; max-width: 28rem", "", "does not fit"),
        ("overflow-wrap: anywhere", "overflow-wrap: normal", "does not fit"),
        ("--bad: #ae1418", "--bad: #f0b0b0", "color-contrast"),
        ('<link rel="icon" href="data:,">', '<img src="https://localhost/a.png">', "asks for"),
        ('<html lang="en">', "<html>", "html-has-lang"),
    ],
)
def test_these_faults_of_a_page_are_found(browser, seen, tmp_path, old, new, said):
    text = seen.read_text()
    assert old in text
    text = re.sub('<meta http-equiv="Content-Security[^>]*>', "", text)  # it fits one style alone
    (tmp_path / "page.html").write_text(text.replace(old, new))
    found = faults_of(browser, tmp_path / "page.html", 390, "light")
    assert any(said in one for one in found), found
