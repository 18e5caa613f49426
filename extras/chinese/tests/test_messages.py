"""zh.po: a message for every template of the lists, with its fields, and none that nobody says."""

import json
import re
from string import Formatter

import pytest

from tools import sentences
from twincheck.common.system.checkout import ROOT
from twincheck.extras.chinese.spoken import messages, read_po

pytestmark = pytest.mark.lint

LISTS = [
    *sorted((ROOT / "common/report/reasons").glob("*.toml")),
    *ROOT.glob("extras/*/reasons.toml"),
]
TEMPLATES = {text: path for path in LISTS for text in sentences.read(path).values()}


def fields(template):
    """The fields of a template, each once."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def words(template):
    """Return whether a template has words of its own."""
    return bool(re.search("[A-Za-z]", re.sub(r"\{[^}]*\}", "", template)))


def test_every_template_has_a_message_with_its_fields():
    assert len(TEMPLATES) > 2000
    absent = [text for text in TEMPLATES if words(text) and text not in messages()]
    assert absent == []
    other = {t for t in TEMPLATES if t in messages() and fields(t) != fields(messages()[t])}
    assert other == set()


def test_no_message_is_said_by_nobody():
    """A message that is no template is a constant text: a docstring's, argparse's, the system's."""
    sources = [
        path.read_text("utf-8") for path in ROOT.glob("**/*.py") if ".venv" not in path.parts
    ]
    data = [path.read_text("utf-8") for path in ROOT.glob("common/*/*.json")]
    said = " ".join("\n".join([*sources, *data]).split())
    lines = (ROOT / "extras/chinese/zh.po").read_text("utf-8").split("\n\n")
    system = {m for block in lines if re.match(r"#: (errno|argparse)", block) for m in read(block)}
    alone = [m for m in messages() if m not in TEMPLATES and m not in system]
    assert [m for m in alone if " ".join(m.split()) not in said] == []


def read(block):
    """The messages of a part of the file."""
    return [json.loads(text) for text in re.findall(r'(?m)^msgid (".*")$', block)]


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "some.po").write_text('msgid "a"\nmsgstr "b"\n\nmsgid "c"\n"d"\nmsgstr ""\n"e"\n')
    assert read_po(tmp_path / "some.po") == {"a": "b", "cd": "e"}
    (tmp_path / "some.po").write_text("msgid a\n")
    with pytest.raises(ValueError):
        read_po(tmp_path / "some.po")


def test_the_page_of_the_list_is_as_it_is():
    assert (ROOT / "docs/reasons.md").read_text("utf-8") == sentences.page(ROOT)
