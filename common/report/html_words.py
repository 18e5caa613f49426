"""The words of the page: each sentence in English, and in a second language where there is one.

A reason is said by its template in both: finished text is never read.  The English stands in the
page, and the other text with it, which the page's script puts in its place (page/page.js):

    {{ Kind.X() | say }}                   <span data-other="其他">English</span>
    <a{{ Kind.X() | label("title") }}>     <a title="English" data-other-title="其他">
    <option{{ Kind.X() | text }}           <option data-other="其他">English, which holds no element

A field may be Markup, the elements of a sentence: it then stands there twice, and one is hidden.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from types import ModuleType

from markupsafe import Markup, escape

from twincheck.common.system.extras import languages
from twincheck.common.system.reasons import ENGLISH, Kind, Language, Reason
from twincheck.common.system.words import named

SIDE_NAMES = {"torch": Kind.HEADING_TORCH, "paddle": Kind.HEADING_PADDLE}
MOST_CHARACTERS = 2_000  # of a text that rows say
_USED = re.compile(r"\bKind\.([A-Z][A-Z0-9_]*)")  # by a script


def visible(text: str) -> str:
    """Anybody's text with what cannot be seen, or turns the direction of a line, spelled out."""
    if text.isprintable():  # nearly always
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


class Words:
    """The languages of a page, that which it is written in first."""

    def __init__(self, *spoken: Language):
        self.languages = [replace(one, template=_with_names(one)) for one in spoken]

    def texts(self, text: str) -> list[str]:
        """Return a text in each language, or once where all have the same."""
        return list(dict.fromkeys(visible(one.said(text)) for one in self.languages))

    def say(self, text: str, capital: bool = False) -> Markup:
        """Return a text for the page; capital: it begins with one."""
        return self.either([_escaped(one, text) for one in self.languages], capital)

    def either(self, texts: Sequence[str], capital: bool = False) -> Markup:
        """Return a text that is there in each language, English first."""
        texts = [escape(text) for text, _ in zip(texts, self.languages, strict=False)]
        if capital:
            texts = [one[:1].upper() + one[1:] for one in texts]
        first, *others = dict.fromkeys(texts)
        if not others:
            return first
        if "<" in first:
            either = '<span class="either">{}</span><span class="either" hidden>{}</span>'
            return Markup(either).format(first, *others)
        return Markup('<span data-other="{1}">{0}</span>').format(first, *others)

    def text(self, text: str) -> Markup:
        """Return the end of a start tag, and a text without elements behind it."""
        first, *others = self.texts(text)
        return Markup(' data-other="{1}">{0}' if others else ">{0}").format(first, *others)

    def label(self, text: str, name: str) -> Markup:
        """Return an attribute of an element, the other language's behind it."""
        names = (name, f"data-other-{name}")
        said = zip(names, self.texts(text), strict=False)
        return Markup("").join(Markup(' {}="{}"').format(*one) for one in said)


def _with_names(language: Language):
    """The language's templates, in which the sides have their names."""
    return cache(lambda english: named(language.template(english), language.said))


def _escaped(language: Language, text: str) -> Markup:
    """A text in a language; the fields of a reason that are Markup stay so."""
    if isinstance(text, Markup):
        return text
    given = text.fields if isinstance(text, Reason) else {}
    if not any(hasattr(value, "__html__") for value in given.values()):
        return escape(visible(language.said(text)))
    fields = {name: _field(language, value) for name, value in given.items()}
    template = escape(language.template(text.kind.template))
    return Markup(replace(language, template=str).filled(template, fields))


def _field(language: Language, value: object) -> object:
    if isinstance(value, list):
        return [_escaped(language, one) for one in value]
    return _escaped(language, value) if isinstance(value, str) else value


class Texts:
    """Each text that the rows of a page say, once, in its languages: a row has its number."""

    def __init__(self, words: Words):
        self.words, self.table, self._numbers = words, [], {}
        self.number("")

    def number(self, text: str) -> int:
        """Return a text's number."""
        key = isinstance(text, Reason), text
        if key not in self._numbers:
            self._numbers[key] = len(self.table)
            self.table.append([one[:MOST_CHARACTERS] for one in self.words.texts(text)])
        return self._numbers[key]


def beside() -> ModuleType | None:
    """The language that a page has beside English: an extra's module; None where there is none."""
    return next(iter(languages()), None)


def read() -> ModuleType | None:
    """That language where it is the one that people read."""
    return next((one for one in languages() if one.language() == one.CODE), None)


def both() -> Words:
    """Return the words of a page that has a script."""
    return Words(ENGLISH, *(one.LANGUAGE for one in [beside()] if one))


def readers() -> Words:
    """Return the words of a page without a script: those of who writes it."""
    return Words(getattr(read(), "LANGUAGE", ENGLISH))


def of_script(script: str, words: Words) -> dict[str, Sequence[str]]:
    """Kind -> its template in each language, of those that a script says."""
    used = sorted(set(_USED.findall(script)))
    return {name: [one.template(Kind[name].template) for one in words.languages] for name in used}
