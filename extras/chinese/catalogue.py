"""The catalogue of sentences, zh.po, and how an English sentence that was made becomes Chinese.

Results and logs hold English, which programs read.  What is shown is looked up as it goes out: a
sentence itself, else the template that it was made by, whose fields are its names and numbers:

    {n}, {n2}     a whole number           {x}, {x2}     a figure
    {v}           words in capitals        {w}           one word
    {name}        a name, kept             {SAID}        a text that is looked up too, or nothing
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path

FIELD = re.compile(r"\{(\w+)\}")
_KINDS = {
    "n": r"[\d,]+",
    "x": r"[-+−]?[\d.,]+(?:e[-+]?\d+)?|[-+]?(?:inf|nan|∞)|–",
    "v": r"[A-Z]+(?: [A-Z]+)*",
    "w": r"\S+",
}
_NAME = r"(?:(?!; |: | · |(?<!\.)\. |\n|\.$).)+?"  # no name goes from one sentence into the next
# What a text that has no entry is taken apart at, and what stands there in Chinese.
SEPARATORS = (
    ("\n\n", "\n\n"),
    ("\n", "\n"),
    (" · ", " · "),
    (". ", "。"),
    ("; ", "；"),
    (": ", "："),
)


@dataclass(frozen=True)
class Entry:
    """One message: what it is in English, of one and of many, and in Chinese; where it is made."""

    english: tuple[str, ...]
    chinese: str
    places: tuple[str, ...]


def read_po(path: Path) -> Iterator[Entry]:
    """The entries of a .po file, but for its header; raises ValueError for what is none."""
    for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
        parts: dict[str, str] = {}
        places: list[str] = []
        name = ""
        for line in block.splitlines():
            if line.startswith("#"):
                places += line[2:].split() if line.startswith("#:") else []
                continue
            word, _, text = line.partition(" ")
            if not line.startswith('"'):
                name = word
            parts[name] = parts.get(name, "") + ast.literal_eval(text if name == word else line)
        if parts.get("msgid"):
            english = tuple(parts[n] for n in ("msgid", "msgid_plural") if n in parts)
            chinese = parts.get("msgstr", parts.get("msgstr[0]", ""))
            yield Entry(english, chinese, tuple(places))


def pattern(template: str) -> str:
    """The regular expression of a template, as Python and JavaScript read it but for (?P<name>."""
    parts = FIELD.split(template)
    found = []
    for literal, name in zip(parts[::2], [*parts[1::2], ""], strict=True):
        found.append(re.escape(literal).replace("\\ ", " "))
        if name:
            text = _KINDS.get(name.rstrip("0123456789"), ".*?" if name.isupper() else _NAME)
            found.append(f"(?P<{name}>{text})")
    return "".join(found)


# Few of them are looked for in a process, and to compile all takes longer than to read them.
_compiled = cache(partial(re.compile, flags=re.DOTALL))


class Catalogue:
    """Both languages' sentences, by the English ones."""

    def __init__(self, entries: tuple[Entry, ...]):
        self.entries, self.exact = entries, {}
        templates = []
        for entry in entries:
            for english in entry.english:
                self.exact.setdefault(english, entry.chinese)
                if FIELD.search(english):
                    templates.append((english, entry.chinese))
                else:
                    self.exact[english] = entry.chinese
        self._folded = {text.casefold(): said for text, said in self.exact.items() if " " in text}
        # Of several that a text may be made by, the one that says most of it.
        templates.sort(key=lambda one: (-len(FIELD.sub("", one[0])), one[0]))
        self.templates = [
            (max(FIELD.split(english)[::2], key=len), pattern(english), chinese)
            for english, chinese in templates
        ]
        self.translated = lru_cache(maxsize=4096)(self._translated)

    def _translated(self, text: str) -> str:
        """A text in Chinese, or as it is where it has no entry."""
        body = text.strip()
        if body != text:
            start = text[: len(text) - len(text.lstrip())]
            return start + self.translated(body) + text[len(text.rstrip()) :] if body else text
        return self.entry(text) or self._in_parts(text)

    def entry(self, text: str) -> str | None:
        """A sentence itself, or the template that it was made by; None where there is neither."""
        known = self.exact.get(text) or self._folded.get(text.casefold())
        if known:
            return known
        for part, template, chinese in self.templates:
            match = _compiled(template).fullmatch(text) if part in text else None
            if match:
                return self._filled(chinese, match.groupdict())
        return None

    def _filled(self, chinese: str, fields: dict[str, str]) -> str:
        """A sentence with its fields, those in capitals in Chinese too."""

        def field(match: re.Match) -> str:
            name = match[1]
            return self.translated(fields[name]) if name.isupper() else fields[name]

        return FIELD.sub(field, chinese)

    def _in_parts(self, text: str) -> str:
        """What several sentences are, each by itself; a sentence without its stop."""
        for separator, between in SEPARATORS:
            if separator in text:
                parts = text.split(separator, 1)
                said = [self.translated(part) for part in parts]
                if said != parts:
                    return between.join(said)
        said = self.translated(text[:-1]) if text.endswith(".") else text[:-1]
        return text if said == text[:-1] else f"{said}。"


@cache
def catalogue() -> Catalogue:
    """That of zh.po, which lies beside this file in a checkout and in an installed package."""
    return Catalogue(tuple(read_po(Path(__file__).with_name("zh.po"))))
