"""What two pages in two languages must have in common, beyond the sentences that only people judge.

Section by section: headings (of the READMEs by the table below) and their levels, blocks of code,
tables (rows, columns, code and numbers in each cell), links, code in the prose, numbers, pictures
and generated parts.  A page of docs/ has those in English alone: docs/zh/ links to each.
"""

import re
from itertools import zip_longest
from pathlib import Path

from pages import CHINESE, DOCS, ROOT, anchors, code_spans

# English heading -> Chinese heading, on whichever page it stands.
HEADINGS = {
    "Alignment workbench": "对齐工作台",
    "Environment": "环境",
    "Quick start": "快速开始",
    "Acceptance": "验收",
    "Results": "对齐结果",
    "How a step works": "每一步怎样对齐",
    "Verdicts": "判定术语",
    "The two sides": "两侧代码",
    "Align your own model": "对齐自己的模型",
    "Two live models": "比对内存中的两个模型",
    "What was checked": "检查结果一览",
    "Write a pair by hand": "手工编写一对模型",
    "What a pull request is asked for": "提交 PR 时要回答的问题",
    "Data and weights": "数据与权重下载",
    "Logs to submit": "复现日志",
    "FAQ": "常见问题",
    "What agreement does not show": "对齐不能说明什么",
    # the steps' pages
    "Step 1: forward": "第 1 步：前向对齐",
    "Step 2: metric": "第 2 步：评估指标对齐",
    "Step 3: loss": "第 3 步：损失对齐",
    "Step 4: backward": "第 4 步：反向对齐",
    "Step 5: train": "第 5 步：训练对齐",
    "Question": "问题",
    "Run": "运行",
    "You should see": "应当看到",
    "Large models": "大模型",
    "If it differs": "如果不一致",
}

TRANSLATED = {
    page: page.with_name("README_cn.md")
    for page in (ROOT / "README.md", *sorted(ROOT.glob("step*/README.md")))
}
TRANSLATED_DOCS = {ROOT / "docs" / page.name: page for page in CHINESE}
_ENGLISH = {page: english for english, page in (TRANSLATED | TRANSLATED_DOCS).items()}

_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?:e-?\d+)?")
_GENERATED = re.compile(r"<!-- generated: \w+ -->.*?<!-- end -->", re.S)
_TARGET = re.compile(r"\]\(([^)\s]+)\)")
_LINK = re.compile(r"\]\(([^)\s]+)\)|\]\[(\w+)\]|^\[\w+\]: (\S+)$", re.M)


def differences(english: str, chinese: str, page: Path = ROOT / "README.md") -> list[str]:
    """Every way in which the pages say something else, as far as that can be compared.

    page    where the English text stands, which its links are relative to
    """
    other = (TRANSLATED | TRANSLATED_DOCS)[page]
    found = english_links(other, chinese)
    if page in DOCS:
        english = re.sub(_GENERATED, f"[generated]({page.name})", english)
    english, chinese = _same_links(page, english), _same_links(other, chinese)
    for pair in zip_longest(_sections(english), _sections(chinese)):
        if None in pair:
            found.append(f"a section on one page alone: {pair[0] or pair[1]}")
            continue
        ours, theirs = pair
        level, title = ours[0]
        wanted = theirs[0][1] if page in DOCS else HEADINGS.get(title)
        if (level, wanted) != theirs[0]:
            found.append(f"heading: {'#' * level} {title}, {theirs[0]}")
        for what, facts in FACTS.items():
            unlike = [
                f"{title}: {what}: {one} / {other}"
                for one, other in zip_longest(facts(ours[1]), facts(theirs[1]))
                if one != other
            ]
            found += unlike[:1]  # those after it are often only shifted
    return found


def english_links(page: Path, text: str) -> list[str]:
    """The links of a Chinese page to English ones that are there in Chinese, but its own."""
    found = []
    for link in _TARGET.findall(text):
        target = (page.parent / link.partition("#")[0]).resolve()
        if target in _ENGLISH.values() and target != _ENGLISH[page]:
            found.append(f"a link to an English page: {link}")
    return found


def _same_links(page: Path, text: str) -> str:
    """The text with its links as from the root, to English pages and their headings."""

    def same(found: re.Match) -> str:
        name, _, anchor = found[1].partition("#")
        target = (page.parent / name).resolve() if name else page
        if "://" in found[1] or not target.is_file():
            return found[0]
        english = _ENGLISH.get(target, target)
        if target == _ENGLISH.get(page):  # for what is generated there: whichever heading
            anchor = ""
        elif anchor and english != target and anchor in anchors(target.read_text()):
            anchor = anchors(english.read_text())[anchors(target.read_text()).index(anchor)]
        return f"]({english.relative_to(ROOT)}{'#' if anchor else ''}{anchor})"

    return _TARGET.sub(same, text)


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


def _links(text: str) -> list[str]:
    targets = ["".join(groups) for groups in _LINK.findall(_prose(text))]
    return sorted(targets)


FACTS = {
    "commands": _code,
    "tables": _tables,
    "links": _links,
    "code": lambda text: sorted(set(code_spans(text))),
    "numbers": _numbers,
    "generated parts": lambda text: re.findall(r"<!-- .* -->", text),
    "items": lambda text: re.findall(r"^(\*|\d+\.) ", _prose(text), flags=re.M),
}
