"""A cache of data files, each under a hash of what it was built from.

    log/data/reviews-1f0c….npz       the arrays; …json beside it is written last: the file is whole

Every file is written whole or not at all.  Two runs at once build equal files, and the later one
replaces the other's.  The folder is log/data, or what the environment's ALIGNMENT_DATA says.
"""

import functools
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from twincheck.common.pair.data import load_arrays, save_arrays
from twincheck.common.pair.sources.request import DataFile, Dataset, SourceRequest
from twincheck.common.system.checkout import ROOT, for_logs
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import whole
from twincheck.common.system.hashes import file_sha256
from twincheck.common.system.json_file import load_json
from twincheck.common.system.reasons import Kind, read_reason, reasons_json

FOLDER_VARIABLE = "ALIGNMENT_DATA"
_CHUNK_BYTES = 1 << 24


def folder() -> Path:
    """Return the folder where data files are kept."""
    return Path(os.environ.get(FOLDER_VARIABLE) or for_logs() / "log" / "data").absolute()


def cached(request: SourceRequest, build: Callable[[SourceRequest], Dataset]) -> DataFile:
    """Return the request's data file: the cached one, or what `build` gives."""
    kind = request.settings["source"]
    if request.path is None:
        from pydoc_data.topics import topics

        help_text = json.dumps(topics, sort_keys=True).encode()
        source = f"help {hashlib.sha256(help_text).hexdigest()}"
    else:
        source = source_sha256(request)
    built_from = {
        "source": source,
        "settings": request.settings,
        "config": request.config,  # a builder may use any of its entries
        "seed": request.seed,
        "tokenizer": file_sha256(request.tokenizer, links=True) if request.tokenizer else None,
        "builders": builders_sha256(Path(build.__code__.co_filename).parent),
    }
    text = json.dumps(built_from, sort_keys=True, default=str)
    key = hashlib.sha256(text.encode()).hexdigest()
    file = folder() / f"{kind}-{key[:24]}.npz"
    entries_file = file.with_suffix(".json")
    notes = []
    if entries_file.is_file():
        try:
            request.on_progress(Kind.DATA_LOOKED_AT())
            load_arrays(file)  # raises UserError where it was damaged since
            kept = load_json(entries_file)
            notes = [*map(read_reason, kept["notes"]), Kind.DATA_KEPT(file=_shown(file))]
            return DataFile(file, kept["entries"], notes)
        except (UserError, KeyError, ValueError):
            notes = [Kind.DATA_DAMAGED(file=_shown(file))]
    file.parent.mkdir(parents=True, exist_ok=True)
    dataset = build(request)
    request.on_progress(Kind.DATA_WRITTEN())
    save_arrays(file, dataset.arrays, packed=False)
    with whole(entries_file) as temporary:
        kept = {"entries": dataset.entries, "notes": reasons_json(dataset.notes)}
        temporary.write_text(json.dumps(kept))
    return DataFile(file, dataset.entries, dataset.notes + notes)


@functools.cache
def builders_sha256(folder: Path) -> str:
    """One SHA-256 of the files that build data files with those of a source's folder.

    After a change of these they are built anew.
    """
    here = Path(__file__).parent
    paths = {path for each in (folder, here, here.parent) for path in each.glob("*.py")}
    hashes = [f"{path.name} {file_sha256(path, links=True)}" for path in sorted(paths)]
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def source_sha256(request: SourceRequest) -> str:
    """Return the SHA-256 of a file's content, or of the names and contents of a folder's files."""
    path = request.path.resolve()
    files = [path] if path.is_file() else source_files(path)
    total, done = sum(file.stat().st_size for file in files), 0
    digest = hashlib.sha256()
    for file in files:
        name, own = str(file.relative_to(path)), hashlib.sha256()
        digest.update(f"{len(name)} {name}\n".encode("utf-8", "surrogateescape"))
        with open(file, "rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                own.update(chunk)
                done += len(chunk)
                percent = 100 * done // max(1, total)
                request.on_progress(Kind.DATA_HASHED(name=path.name, percent=percent))
        digest.update(own.digest())
    return digest.hexdigest()


def source_files(path: Path) -> list[Path]:
    """The plain files of a folder that a source may read, in the order of their names.

    Raises UserError where there are none.
    """
    files = sorted(f for f in path.rglob("*") if f.suffix in (".txt", ".csv", ".tsv"))
    files = [f for f in files if f.is_file()]
    if not files:
        raise UserError(Kind.SOURCE_FOLDER_EMPTY(path=str(path)))
    return files


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
