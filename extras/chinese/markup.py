"""A finished page in Chinese, for one that has no script: its texts are looked up where they stand.

As page.js does it in a browser: names and code stay, a sentence with elements in it is one text.
The pages are our own, so that "<" begins a tag and each element is closed but for the void ones.
"""

import html
import re
from dataclasses import dataclass, field

from twincheck.extras.chinese.catalogue import catalogue

_TAG = re.compile(r"(<[^>]*>)")
_NAME = re.compile(r"</?([\w!-]+)")
_VOID = {"meta", "link", "br", "img", "input", "!doctype"}
_KEPT = {"bdi", "code", "pre", "style", "script", "svg"}
_INLINE = {"a", "bdi", "code", "em", "span", "strong", "svg"}
_LABEL = re.compile(r'\b(aria-label|title|placeholder|data-label)="([^"]*)"')
_HELD = 0xE000  # stands for an element in a sentence: the first of Unicode's private letters


@dataclass
class _Element:
    """A start tag, what is in it, and its end."""

    name: str
    start: str
    inside: "list[_Element | str]" = field(default_factory=list)
    end: str = ""


def written(page: str) -> str:
    """A page's text in Chinese."""
    said = _said(_parsed(page))
    return said.replace('<html lang="en">', '<html lang="zh-CN">', 1)


def _parsed(page: str) -> _Element:
    top = _Element("", "")
    around = [top]
    for token in _TAG.split(page):
        name = found[1].lower() if token[:1] == "<" and (found := _NAME.match(token)) else ""
        if token.startswith("</"):
            while len(around) > 1 and around[-1].name != name:
                around.pop()
            around.pop().end = token
        elif name and name not in _VOID and not token.endswith("/>"):
            around[-1].inside.append(_Element(name, token))
            around.append(around[-1].inside[-1])
        elif token:
            around[-1].inside.append(token)
    return top


def _said(one: _Element, around: str = "") -> str:
    """An element in Chinese; around: the name of the one that it is in."""
    start = _LABEL.sub(lambda label: f'{label[1]}="{_text(label[2])}"', one.start)
    if one.name in _KEPT:
        inside = _name(one, around)
    else:
        inside = _whole(one) or "".join(_part(part, one.name) for part in one.inside)
    return f"{start}{inside}{one.end}"


def _part(part: "_Element | str", around: str) -> str:
    if isinstance(part, _Element):
        return _said(part, around)
    return part if part.startswith("<") else _text(part)


def _text(text: str) -> str:
    plain = re.sub(r"\s+", " ", html.unescape(text))
    return html.escape(catalogue().translated(plain)) if plain.strip() else text


def _name(one: _Element, around: str) -> str:
    """What is kept; but for words that a heading of a row, or several words, are known as."""
    if one.name == "bdi" and len(one.inside) == 1 and isinstance(one.inside[0], str):
        words = html.unescape(one.inside[0])
        if around == "th" or " " in words:
            return html.escape(catalogue().entry(words) or words)
    return "".join(part if isinstance(part, str) else _raw(part) for part in one.inside)


def _raw(one: _Element) -> str:
    inside = (part if isinstance(part, str) else _raw(part) for part in one.inside)
    return f"{one.start}{''.join(inside)}{one.end}"


def _whole(one: _Element) -> str:
    """A sentence with elements in it, which may stand in another order; empty for what is none."""
    inner = [part for part in one.inside if isinstance(part, _Element)]
    texts = [part for part in one.inside if isinstance(part, str) and part.strip()]
    if not inner or not texts or not all(part.name in _INLINE for part in inner):
        return ""
    held = {id(part): chr(_HELD + number) for number, part in enumerate(inner)}
    text = "".join(held.get(id(part)) or html.unescape(part) for part in one.inside)
    said = catalogue().entry(re.sub(r"\s+", " ", text).strip())
    parts = re.split(r"([\ue000-\uf8ff])", said or "")
    return "".join(
        _said(inner[ord(part) - _HELD], one.name)
        if re.fullmatch(r"[\ue000-\uf8ff]", part)
        else html.escape(part)
        for part in parts
    )
