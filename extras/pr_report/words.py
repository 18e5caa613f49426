"""The words of a report for a pull request, in either language: words.toml."""

from functools import cache
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

LANGUAGES = ("en", "zh")
_ORDINALS = "一二三四五六七八九十"


@cache
def table() -> dict[str, list[str]]:
    """Word -> its text in each language."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def words(language: str, word: str, /, **fields: object) -> str:
    """A sentence in a language."""
    return table()[word][LANGUAGES.index(language)].format(**fields)


def heading(language: str, number: int, text: str) -> str:
    """A section's heading, numbered as reports in that language are."""
    if language != "zh":
        return f"{number}. {text}"
    ten = "十" if number > 10 else ""
    return f"{ten}{_ORDINALS[(number - 1) % 10]}、{text}"
