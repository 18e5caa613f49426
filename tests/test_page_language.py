"""The page in another language: all that it says is said by templates, here by those of a language
that has one letter for every word; a button changes it, and changes it back."""

import re
from types import SimpleNamespace

import pytest
from test_report_page import (
    EVIL,
    OPEN_ALL,
    backward_result,
    open_page,  # noqa: F401
    train_result,
)
from test_report_tree import forward_of

from tools.sentences import read
from twincheck.common.report import html_page, html_words
from twincheck.common.report.html_words import Words, visible
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.reasons import ENGLISH, Kind, Language
from twincheck.common.system.words import call_sides

WORD = "字"
TEMPLATES = {
    text
    for top in ("common/report/reasons/*.toml", "extras/*/reasons.toml")
    for path in ROOT.glob(top)
    for text in read(path).values()
}
# The page's texts, and its labels, but for what it marks as names, code and figures.
TEXTS = """() => {
  const kept = "bdi, code, pre, script, style, noscript, span.key, .tick, .number, .language";
  const texts = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text; text = walk.nextNode())
    if (!text.parentElement.closest(kept) && !text.parentElement.closest(".either[hidden]"))
      texts.push(text.data);
  for (const one of document.querySelectorAll("body *"))
    for (const name of ["aria-label", "title", "data-label"])
      texts.push(one.getAttribute(name) ?? "");
  return [document.title, ...texts].map((text) => text.trim().replace(/\\s+/g, " "));
}"""
# A path, a key, an option, an element's place, a figure.
NAME = re.compile(r"--[\w-]+|[\w.<>*…-]*[/_.\[][\w./:\[\]*, -]*|[-\d.]+e[-+]?\d+")
NAMES = (visible(EVIL), "mean |a − b|")
NAMES += tuple("Layer deep green main fall accuracy float64 epsilon torch eval train".split())


def template(english):
    """A template of which each word is one letter, outside its fields and in what they count.

    What is none of the lists' is as it is.
    """
    if english not in TEMPLATES:
        return english
    parts = re.split(r"(\{\w+[^{}|]*\})", english)
    parts[::2] = [re.sub(r"(?<!\{)\b[A-Za-z][\w’']*", WORD, part) for part in parts[::2]]
    return "".join(parts)


JOINTS = dict.fromkeys(("", "and", "comma", "space", "lines", "dots", "listed", "last"), "、")
OTHER = SimpleNamespace(
    CODE="xx", TAG="zh-CN", NAME="其他", LANGUAGE=Language(template, JOINTS), language=lambda: "xx"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Red and green results, and one with texts of anybody's."""
    folder = tmp_path_factory.mktemp("page")
    found = [forward_of(folder / "red", only=("layers.3.extra",)), backward_result(folder / "back")]
    found.append(train_result(folder / "train"))
    found[-1].answers = {}
    found[-1].rows[0].reasons = (Kind.OTHER_TEXTS(),)
    found[0].notes = [Kind.DRAWS_UNTAPED(side="torch")]
    return found


def write(path, made):
    """The page of these results, for a reader of the other language."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_words, "languages", lambda: [OTHER])
        html_page.write_page(path, made, "twincheck check", Kind.STEPS_ALL())
    return path


@pytest.fixture(scope="module")
def page(made, tmp_path_factory):
    return write(tmp_path_factory.mktemp("page") / "report.html", made)


def english_in(lines, names=NAMES, terms=()):
    """Return the lines that have English words in them, but names, terms and verdicts."""
    left = []
    for line in dict.fromkeys(lines):
        text = line
        for name in names:
            text = text.replace(name, "")
        words = re.findall(r"[A-Za-z][A-Za-z0-9_]+", NAME.sub(" ", text))
        if [word for word in words if word.lower() not in terms and not word.isupper()]:
            left.append(line)
    return left


def looked_through(shown):
    """All texts of a page of which everything was opened: rows, modules, values."""
    shown.page.evaluate(OPEN_ALL)
    for button in shown.page.locator("#rows td.key button").all()[:3]:
        button.click()
    for line in ("1", "3", "5"):
        shown.page.locator("#tree [role=treeitem]").nth(int(line)).click()
    shown.page.locator("#t-flow").click()
    shown.page.locator("#f-kind").select_option("guide")
    return shown.page.evaluate(TEXTS)


@pytest.mark.slow
def test_all_that_a_page_says_is_said_by_templates(page, open_page):  # noqa: F811
    shown = open_page(page)
    said = looked_through(shown)
    assert english_in(said) == [] and not [one for one in said if "undefined" in one]
    assert shown.page.locator("html").get_attribute("lang") == "zh-CN" and shown.faults() == []
    assert shown.page.locator("h1").inner_text() == "字 字: 字 1 字 5"
    shown.page.evaluate("document.querySelector('main').append('This is no template of ours.')")
    assert english_in(shown.page.evaluate(TEXTS)) == ["This is no template of ours."]


def test_the_button_changes_the_language_and_changes_it_back(page, open_page):  # noqa: F811
    shown = open_page(page)
    button, body = shown.page.locator(".language button"), "document.body.outerHTML"
    header, html = shown.page.locator("header"), shown.page.locator("html")
    other = shown.page.evaluate(body)
    assert button.inner_text() == "English" and header.get_by_text("1 字 3 字").is_visible()
    button.click()
    english = shown.page.evaluate(body)
    assert "1 of 3 results does not agree" in header.inner_text()
    assert WORD not in header.inner_text() + shown.page.locator("main").inner_text()
    assert button.inner_text() == "其他" and html.get_attribute("lang") == "en"
    assert button.get_attribute("lang") == "zh-CN"
    button.click()
    assert shown.page.evaluate(body) == other and html.get_attribute("lang") == "zh-CN"
    button.click()
    assert shown.page.evaluate(body) == english and shown.faults() == []


def test_rows_are_found_by_the_words_of_both_languages(made, tmp_path, open_page):  # noqa: F811
    shown = open_page(write(tmp_path / "report.html", [made[-1]]))
    for words, found in (("other texts", 1), ("字 字 字", 1), ("no such text", 0)):
        shown.page.fill("#f-text", words)
        shown.expect_found(f"{found} ")


def test_without_another_language_there_is_no_button(made, tmp_path, monkeypatch, open_page):  # noqa: F811
    monkeypatch.setattr(html_words, "languages", lambda: [])
    html_page.write_page(tmp_path / "report.html", made, "twincheck check", "a step")
    shown = open_page(tmp_path / "report.html")
    assert shown.page.locator(".language").count() == 0
    looked_through(shown)
    assert shown.page.locator("[data-other], .either").count() == 0 and shown.faults() == []


def script_calls(source):
    """(kind, its fields) of the calls in a script whose fields stand there."""
    for name, fields in re.findall(r"\bKind\.([A-Z]\w*)\((?:\{ (.*?) \})?\)", source):
        parts = re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^]]*\]", "", fields).split(", ")
        yield name, {part.partition(":")[0] for part in parts if part}


def template_calls(source):
    """Give (kind, its fields) of the calls in a template."""
    from jinja2 import Environment, nodes

    for call in Environment().parse(source).find_all(nodes.Call):
        if isinstance(call.node, nodes.Getattr) and getattr(call.node.node, "name", "") == "Kind":
            yield call.node.attr, {one.key for one in call.kwargs}


@pytest.mark.lint
def test_each_sentence_of_the_page_is_given_its_fields():
    pages = [html_page._PAGE / name for name in html_page.SCRIPTS]
    calls = [one for path in pages for one in script_calls(path.read_text("utf-8"))]
    pages = [html_page._PAGE / "report.html.j2"]
    calls += [one for path in pages for one in template_calls(path.read_text("utf-8"))]
    assert [one for one in calls if Kind[one[0]].fields.keys() != one[1]] == []
    assert len(calls) > 180 and not list(script_calls("Kind.A(b)"))
    drawn = "f(Kind.A({ b, c: d(e, f(g)), h: i[0] }), Kind.B())"
    assert list(script_calls(drawn)) == [("A", {"b", "c", "h"}), ("B", set())]


def test_the_sides_have_their_names_in_words_alone():
    words = Words(ENGLISH)
    try:
        call_sides(("torch", "torch"))
        said = words.texts(Kind.SETTING_DIFFERS(setting="torch", torch="torch", paddle="1"))
    finally:
        call_sides(("torch", "paddle"))
    assert said == ["torch is torch in the reference and 1 in the candidate"]
