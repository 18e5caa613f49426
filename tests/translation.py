"""What two pages in two languages must have in common, beyond the sentences that only people judge.

Section by section: levels of headings, blocks of code, tables (rows, columns, code and numbers in
each cell), code in the prose, numbers and generated parts.  A page of docs/ has those in English
alone.
"""

import re
from itertools import zip_longest
from pathlib import Path

from pages import CHINESE, DOCS, ROOT, code_spans

TRANSLATED = {
    page: page.with_name("README_cn.md")
    for page in (ROOT / "README.md", *sorted(ROOT.glob("step*/README.md")))
}
TRANSLATED_DOCS = {ROOT / "docs" / page.name: page for page in CHINESE}

_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?:e-?\d+)?")
_GENERATED = re.compile(r"<!-- generated: \w+ -->.*?<!-- end -->", re.S)


def differences(english: str, chinese: str, page: Path) -> list[str]:
    """Every way in which the pages say something else, as far as that can be compared."""
    if page in DOCS:
        english = re.sub(_GENERATED, "", english)
    found = []
    for ours, theirs in zip_longest(_sections(english), _sections(chinese)):
        if not ours or not theirs or ours[0][0] != theirs[0][0]:
            return [*found, f"a section on one page alone: {(ours or theirs)[0]}"]
        for what, facts in FACTS.items():
            if facts(ours[1]) != facts(theirs[1]):
                found.append(f"{ours[0][1]}: {what}: {facts(ours[1])} / {facts(theirs[1])}")
    return found


def _code(text: str) -> list[str]:
    """The lines of all blocks of code, bit for bit but their comments and empty lines."""
    lines = "".join(re.findall(r"^ *```.*?^ *```\n?", text, flags=re.M | re.S)).splitlines()
    return [bare for line in lines if (bare := re.sub(r"(^|\s)#.*", "", line).rstrip())]


def _sections(text: str) -> list[tuple[tuple[int, str], str]]:
    """((level, title), what stands below it) of every heading outside code."""
    found = [((0, ""), "")]
    for part in re.split(r"(^```.*?^```)", text, flags=re.M | re.S):
        if part.startswith("```"):
            found[-1] = (found[-1][0], found[-1][1] + part)
            continue
        before, *rest = re.split(r"^(#+) (.+)\n", part, flags=re.M)
        found[-1] = (found[-1][0], found[-1][1] + before)
        for marks, title, body in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
            found.append(((len(marks), title), body))
    return found[1:] if not found[0][1].strip() else found


def _tables(text: str) -> list[list[tuple]]:
    """The rows of all tables, each table behind an empty one; of a cell its code and numbers."""
    found = []
    for table in re.findall(r"(?:^\|.*\n?)+", _prose(text), flags=re.M):
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.strip().splitlines()]
        found.append([])
        found += [[(code_spans(cell), _numbers(cell)) for cell in row] for row in rows]
    return found


def _prose(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def _numbers(text: str) -> list[str]:
    plain = re.sub(r"\]\([^)]*\)|`[^`]*`|https?://\S+", " ", _prose(text))
    return sorted(set(_NUMBER.findall(plain)))


FACTS = {
    "commands": _code,
    "tables": _tables,
    "code": lambda text: sorted(set(code_spans(text))),
    "numbers": _numbers,
    "generated parts": lambda text: re.findall(r"<!-- .* -->", text),
    "items": lambda text: re.findall(r"^(\*|\d+\.) ", _prose(text), flags=re.M),
}
