"""JSON that somebody else may have written: bounded, strict, and refused in one sentence."""

import hashlib
import json
import os

from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain, whole
from twincheck.common.system.reasons import Kind

# The largest sidecar seen has 1.3 MB (8,800 tensors); parsed, JSON takes up to 30 times its size.
MAX_BYTES = 1 << 24


def load_json(path: str | os.PathLike) -> dict:
    """The object in a JSON file, a plain file or a link to one.

    Raises UserError where it is missing, too large, no UTF-8, no JSON (NaN and infinity are none),
    nested beyond reason, has a name twice or is no object.
    """
    with open_plain(path, links=True) as file:
        return parse_json(file.read(MAX_BYTES + 1), path)


def parse_json(content: bytes, path: str | os.PathLike) -> dict:
    """The object that JSON's bytes hold; `path` names them in what UserError says, as above."""
    if len(content) > MAX_BYTES:
        raise _refused(path, Kind.JSON_TOO_LONG(most=MAX_BYTES))
    try:
        value = json.loads(
            content.decode("utf-8"), object_pairs_hook=_named_once, parse_constant=_no_number
        )
    except (ValueError, RecursionError) as error:
        raise _refused(path, Kind.JSON_IMPROPER(reason=str(error))) from None
    except MemoryError:
        raise _refused(path, Kind.JSON_BEYOND_MEMORY()) from None
    if not isinstance(value, dict):
        raise _refused(path, Kind.JSON_NO_OBJECT())
    return value


def _refused(path: str | os.PathLike, reason: str) -> UserError:
    return UserError(Kind.JSON_REFUSED(path=str(path), reason=reason))


def _named_once(pairs: list[tuple[str, object]]) -> dict:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(Kind.JSON_NAME_TWICE(name=ascii(twice[:80])))
    return members


def _no_number(name: str) -> float:
    raise ValueError(Kind.JSON_NO_NUMBER(name=name))


def write_json(path: str | os.PathLike, value: object) -> None:
    """Write JSON under a name that appears only when all of it is there; NaN is an error."""
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_sealed(path: str | os.PathLike, text: str) -> None:
    """Write JSON, `{` on a line of its own, with the SHA-256 of this text as its first entry."""
    seal = hashlib.sha256(text.encode()).hexdigest()
    with whole(path) as temporary:
        temporary.write_text(f'{{\n "seal": "{seal}",{text[1:]}', encoding="utf-8")
