"""What the pages say is there: links, paths, commands and options, for people."""

import re
import subprocess

import pytest
from pages import (
    CHINESE,
    DOCS,
    PAGES,
    README,
    README_CN,
    ROOT,
    commands,
    dead_links,
    dead_paths,
    prose_of,
    wrong_options,
)
from translation import TRANSLATED, TRANSLATED_DOCS, differences

from tools import rooms
from tools.readme import RED_EXAMPLE, fill_pages, red_block
from tools.twins import markdown_table
from twincheck.common.verdict.row import SEVERITY, exit_code
from twincheck.examples.gallery.__main__ import RESULTS
from twincheck.examples.gallery.run import read_result
from twincheck.step2_metric.hard_texts import SENTENCE

pytestmark = pytest.mark.lint

ALL = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
OF_THE_READMES = ("steps", "red", "acceptance", "measured", "detects")
GENERATED = {
    **dict.fromkeys(OF_THE_READMES, [README, README_CN]),
    "accuracies": [ROOT / "docs" / "results.md"],
    "faults": [ROOT / "docs" / "faults.md"],
    "spellings": [ROOT / "docs" / "porting.md"],
}


@ALL
def test_links_lead_somewhere_and_paths_that_are_named_exist(page):
    text = page.read_text()
    assert dead_links(page, text) == []
    assert dead_paths(text) == []


@pytest.mark.parametrize(
    "folder", ["common", "step*", "extras", "faults", "tools", "examples", "tests"]
)
def test_paths_that_comments_and_docstrings_name_exist(folder):
    sources = [path for top in ROOT.glob(folder) for path in top.rglob("*.py")]
    assert sources
    dead = {path: dead_paths(prose_of(path.read_text())) for path in sources}
    assert {path: paths for path, paths in dead.items() if paths} == {}


@ALL
def test_commands_take_the_options_that_a_page_gives_them(page):
    for command in commands(page.read_text()):
        assert wrong_options(command) == [], command


@ALL
def test_make_has_the_targets_that_a_page_names(page):
    text = page.read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:`|^)make ([a-z-]+)", text, flags=re.M):
        assert re.search(rf"^{target}:", makefile, flags=re.M), target


@pytest.mark.parametrize("readme", [README, README_CN], ids=lambda page: page.name)
def test_the_readme_is_short_and_links_every_page(readme):
    text = readme.read_text()
    assert len(text.splitlines()) <= 250
    chinese = [page.name for page in CHINESE] if readme == README_CN else []
    for page in DOCS:
        folder = "docs/zh" if page.name in chinese else "docs"
        assert f"({folder}/{page.name}" in text, page


@pytest.mark.parametrize(("name", "pages"), GENERATED.items(), ids=GENERATED)
def test_generated_parts_are_there(name, pages):
    parts = {path: generated(name, path) for path in PAGES}
    assert [path for path, found in parts.items() if found] == pages
    for page in pages:
        assert [part.strip() for part in parts[page]] != [""], "run python -m tools.readme"
        assert fill_pages({page: page.read_text()}, {name: "new"})[page].count("\nnew\n") == 1


def generated(name, page):
    """Return what stands in the places of a generated part."""
    pattern = rf"<!-- generated: {name} -->\n(.*?)<!-- end -->"
    return re.findall(pattern, page.read_text(), flags=re.S)


def test_the_table_of_spellings_is_the_one_in_force():
    assert markdown_table().strip() in GENERATED["spellings"][0].read_text()


def test_the_red_block_is_what_a_check_said_of_a_published_pair():
    """The gallery's last run has kept it; nothing in it is of one machine alone."""
    told = red_block(read_result(RESULTS / f"{RED_EXAMPLE}.json")).strip()
    for page in (README, README_CN):
        assert [part.strip() for part in generated("red", page)] == [told], "python -m tools.readme"
    assert "DIVERGED" in told and "  also" not in told
    for side in ("torch  ", "paddle "):
        assert re.search(rf"^    {side} \w[\w/]+\.py:\d+$", told, re.M), side


@pytest.mark.parametrize(
    ("page", "chinese"),
    (TRANSLATED | TRANSLATED_DOCS).items(),
    ids=[str(page.relative_to(ROOT)) for page in TRANSLATED | TRANSLATED_DOCS],
)
def test_the_chinese_page_says_what_the_english_one_says(page, chinese):
    assert differences(page.read_text(), chinese.read_text(), page) == []


@pytest.mark.parametrize(
    ("page", "words"), [(README, ("yes", "no")), (README_CN, ("是", "否"))], ids=["en", "cn"]
)
def test_the_glossary_of_verdicts_is_that_of_the_rule(page, words):
    rows = re.findall(r"^\| ([A-Z]+) \| .+ \| (.+) \| .+ \|$", page.read_text(), flags=re.M)
    assert [verdict for verdict, _ in rows] == list(SEVERITY)
    for verdict, passes in rows:
        if verdict != "CARRIED":  # it goes with what it carries
            assert passes == words[exit_code([verdict])], verdict


# Seed R4.
KNOWN = "33 260 111 4 136 264 69 30 71 26 268 71 258 277 33 8 180 26 224 26 13 40 52 282 258 287"


def test_the_page_on_tokenizers_has_the_known_answer():
    lines = (ROOT / "step2_metric" / "README.md").read_text().splitlines()
    text, pieces, ids = (
        next(line.split(maxsplit=1)[1] for line in lines if line.startswith(f"{name} "))
        for name in ("text", "pieces", "ids")
    )
    assert text == SENTENCE and ids == KNOWN
    assert pieces.replace(" ", "").replace("▁", " ").strip() == text


def test_every_picture_is_shown_and_each_that_is_shown_is_there():
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text())
    }
    assert shown == set((ROOT / "pics").glob("*.png"))


HOUSE = ROOT / "common" / "README.md"


def test_the_page_of_the_rooms_has_the_table_that_is_enforced():
    lines = re.findall(r"^\| `(\w+)/` \| .* \| (.*) \|$", HOUSE.read_text(), flags=re.M)
    words = {"–": ""}
    words["all but sides"] = ", ".join(rooms.FOLDERS.keys() - {"sides", "check", "models"})
    words["the faces, pair"] = ", ".join([*rooms.FACES, "pair"])
    told = {room: set(words.get(may, may).split(", ")) - {""} for room, may in lines}
    assert told == rooms.FOLDERS


@pytest.mark.parametrize("number", range(3))
def test_the_diffs_of_contributing_apply(number):
    """Outside a repository git applies to the folder; a text that is gone fails."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    diff = re.findall(r"(?s)```diff\n(.*?)```", page)[number]
    for text, status in ((diff, 0), (diff.replace("\n ", "\n ~"), 1)):
        command = ["git", "apply", "--check", "-"]
        done = subprocess.run(command, cwd=ROOT, input=text, text=True, stderr=subprocess.PIPE)
        assert done.returncode == status, done.stderr
