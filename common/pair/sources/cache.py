"""Data files that were made once: kept by what they were made from, and found again.

    log/data/reviews-1f0c….npz       the arrays; …json beside it, written last, says it is whole
    log/data/reviews-1f0c….part      how far an interrupted run came
    log/data/sources/…json           the SHA-256 of a source, while its files stay the same

Every file is written whole or not at all.  Two runs at once make the same files, and whichever is
last puts its own in the place of the other's equal one.  The folder is log/data, or what the
environment's ALIGNMENT_DATA says.
"""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from common.pair.data import load_arrays, save_arrays
from common.pair.sources import VERSION, Made, Prepared, Request
from common.system.checkout import ROOT
from common.system.errors import UserError
from common.system.files import whole
from common.system.json_file import load_json

FOLDER_VARIABLE = "ALIGNMENT_DATA"
_CHUNK_BYTES = 1 << 24


def folder() -> Path:
    """Where data files are kept."""
    return Path(os.environ.get(FOLDER_VARIABLE) or ROOT / "log" / "data").absolute()


def kept_or_made(request: Request, build: Callable[[Request, Path], Made]) -> Prepared:
    """The request's data file: the kept one where there is one, else what `build` makes.

    `build` gets the request and a path for its own progress file.
    """
    kind = request.settings["source"]
    source = "help " + _help_sha256() if request.path is None else source_sha256(request)
    made_from = {
        "source": source,
        "settings": request.settings,
        "config": request.config,  # a builder may read any of its entries
        "seed": request.seed,
        "tokenizer": file_sha256(request.tokenizer) if request.tokenizer else None,
        "version": VERSION,
    }
    text = json.dumps(made_from, sort_keys=True, default=str)
    key = hashlib.sha256(text.encode()).hexdigest()
    file = folder() / f"{kind}-{key[:24]}.npz"
    told = file.with_suffix(".json")
    notes = []
    if told.is_file():
        try:
            request.on_progress("data: looking at what is kept")
            load_arrays(file)  # what was damaged since is made again
            kept = load_json(told)
            again = f"data: taken from {_shown(file)}, made from the same source before"
            return Prepared(file, kept["entries"], [*kept["notes"], again])
        except (UserError, KeyError):
            notes = [f"data: {_shown(file)} was damaged, and was made again"]
    file.parent.mkdir(parents=True, exist_ok=True)
    progress = file.with_suffix(".part")
    made = build(request, progress)
    request.on_progress("data: writing")
    save_arrays(file, made.arrays, packed=False)
    with whole(told) as temporary:
        temporary.write_text(json.dumps({"entries": made.entries, "notes": made.notes}))
    progress.unlink(missing_ok=True)
    return Prepared(file, made.entries, made.notes + notes)


def source_sha256(request: Request) -> str:
    """The SHA-256 of a file's or folder's content, remembered while sizes and times stay the same.

    A folder's is that of its files' names and contents.
    """
    path = request.path.resolve()
    files = [path] if path.is_file() else source_files(path)
    listed = [[str(f.relative_to(path)), f.stat().st_size, f.stat().st_mtime_ns] for f in files]
    digest = hashlib.sha256(json.dumps([str(path), listed]).encode())
    remembered = folder() / "sources" / f"{digest.hexdigest()[:24]}.json"
    if remembered.is_file():
        try:
            return load_json(remembered)["sha256"]
        except (UserError, KeyError):
            pass  # damaged: read the source again
    total, done = sum(size for _, size, _ in listed), 0
    digest = hashlib.sha256()
    for file, (name, _, _) in zip(files, listed, strict=True):
        digest.update(f"{len(name)} {name}\n".encode("utf-8", "surrogateescape"))
        own = hashlib.sha256()
        with open(file, "rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                own.update(chunk)
                done += len(chunk)
                request.on_progress(f"data: {path.name} is hashed: {100 * done // max(1, total)} %")
        digest.update(own.digest())
    remembered.parent.mkdir(parents=True, exist_ok=True)
    with whole(remembered) as temporary:
        told = {"sha256": digest.hexdigest(), "path": str(path), "bytes": total}
        temporary.write_text(json.dumps(told))
    return digest.hexdigest()


def source_files(path: Path) -> list[Path]:
    """The plain files of a folder that a source may read, in the order of their names.

    Raises UserError where there are none.
    """
    found = sorted(f for f in path.rglob("*") if f.suffix in (".txt", ".csv", ".tsv"))
    found = [f for f in found if f.is_file()]
    if not found:
        raise UserError(f"--data {path}: there is no .txt, .csv or .tsv file in this folder")
    return found


def file_sha256(path: Path) -> str:
    """SHA-256 of a small file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _help_sha256() -> str:
    from pydoc_data.topics import topics

    return hashlib.sha256(json.dumps(topics, sort_keys=True).encode()).hexdigest()


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
