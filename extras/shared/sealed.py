"""Read what a check has sealed (write_sealed of common/system/json_file.py)."""

import hashlib
import os

from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain
from twincheck.common.system.json_file import MAX_BYTES, parse_json
from twincheck.extras.shared import Kind


def load_sealed(path: str | os.PathLike) -> dict:
    """Read what write_sealed has written; raises UserError as load_json does, and if changed."""
    with open_plain(path, links=True) as file:
        content = file.read(MAX_BYTES + 1)
    value = parse_json(content, path)
    head, seal = b'{\n "seal": "', content[12:76]
    rest = b"{" + content[78:]
    if content[:12] != head or hashlib.sha256(rest).hexdigest().encode() != seal:
        raise UserError(Kind.FILE_EDITED(path=str(path)))
    return value
