"""Zip archives: written so that the same content is the same bytes, and read with suspicion.

An archive of ours has plain files alone, under names that any system can hold, each stored once in
a fixed form; behind them the manifest, not packed, and its SHA-256 as the archive's comment.  The
manifest lists the SHA-256 of each file as it is and as it is packed.  So every byte of the archive
is covered by one hash: a header's by the fixed form, a packed file's by the manifest, that of the
manifest by its hash, which is called the root.  NumPy is not needed.
"""

import hashlib
import json
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain, whole
from twincheck.common.system.json_file import MAX_BYTES as MAX_BYTES_OF_JSON
from twincheck.common.system.json_file import parse_json
from twincheck.extras.shared import Kind

MANIFEST = "manifest.json"
SCHEMA = 3  # 1: rows were judged by another rule; 2: they had sentences, no reasons

MAX_FILES = 20_000
MAX_RATIO = 200  # of one file: JSON lines of zeros and equal names pack to a hundredth
MAX_FILE_BYTES = 1 << 30
MAX_BYTES = 1 << 31  # of all files, unpacked
_FREE_BYTES = 1 << 20  # a file that unpacks to no more is small, however well it is packed

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=@,-]{0,199}")
# Names that Windows keeps for devices.
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_DATE = (1980, 1, 1, 0, 0, 0)
_MODE = (stat.S_IFREG | 0o644) << 16
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_BLOCK = 1 << 16
_NO_ARCHIVE = (zipfile.BadZipFile, struct.error, ValueError, OSError, NotImplementedError)


class ArchiveError(UserError):
    """A file that is no archive of ours, in one sentence; nothing of it was unpacked."""


def is_safe(name: str) -> bool:
    """True for a name below the archive's root that every system can hold, and none reads oddly."""
    parts = name.split("/")
    fits = all(_PART.fullmatch(p) and not _DEVICE.fullmatch(p) and p[-1] != "." for p in parts)
    return fits and len(parts) <= 8 and len(name) <= 240


def safe_part(text: str) -> str:
    """A name's part that `is_safe` allows, as like a text as may be."""
    safe = re.sub(r"[^A-Za-z0-9_.+=@,-]", "_", text)[:100].rstrip(".") or "_"
    return safe if is_safe(safe) else f"_{safe}"


class ArchiveWriter:
    """Writes an archive file by file; it gets its name at a clean close, and `root` its hash."""

    def __init__(self, path: Path):
        self.path = path
        self.root = ""
        self.files: dict[str, dict[str, object]] = {}

    def __enter__(self) -> "ArchiveWriter":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._whole = whole(self.path)
        self._temporary = self._whole.__enter__()
        self._zip = zipfile.ZipFile(self._temporary, "w", allowZip64=False)
        return self

    @property
    def size(self) -> int:
        """Return how many bytes were written so far."""
        return self._zip.fp.tell()

    def add(self, name: str, content: bytes) -> None:
        """Add a file.  Raises ValueError for a name that is no safe one, or there already."""
        if not is_safe(name) or name.lower() in (known.lower() for known in self.files):
            raise ValueError(name)
        self._zip.writestr(_entry(name, zipfile.ZIP_DEFLATED), content, compresslevel=6)
        self.files[name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    def finish(self, manifest: Mapping[str, object]) -> None:
        """Add the manifest and the root as the comment; `files` is added where it is not there."""
        self._zip.fp.flush()
        with open(self._temporary, "rb") as file:
            for info in self._zip.infolist():
                file.seek(info.header_offset + _LOCAL.size + len(info.filename))
                packed = hashlib.sha256(file.read(info.compress_size)).hexdigest()
                self.files[info.filename]["packed_sha256"] = packed
        content = json.dumps({"files": self.files, **manifest}, indent=1, allow_nan=False) + "\n"
        self._zip.writestr(_entry(MANIFEST, zipfile.ZIP_STORED), content.encode())
        self.root = hashlib.sha256(content.encode()).hexdigest()
        self._zip.comment = self.root.encode()

    def __exit__(self, *error) -> None:
        try:
            self._zip.close()
        except (zipfile.LargeZipFile, struct.error):
            raise UserError(Kind.ARCHIVE_BEYOND_ZIP(path=str(self.path))) from None
        finally:
            self._whole.__exit__(*error)


def _entry(name: str, compression: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _DATE)
    info.create_system = 3
    info.external_attr = _MODE
    info.compress_type = compression
    return info


def _headers(info: zipfile.ZipInfo, place: int) -> tuple[bytes, bytes]:
    """Of a file that begins at this place: its header there, and in the archive's directory."""
    name = info.filename.encode()
    packing = zipfile.ZIP_STORED if info.filename == MANIFEST else zipfile.ZIP_DEFLATED
    sizes = info.CRC, info.compress_size, info.file_size
    fixed = (20, 0, packing, 0, 33, *sizes, len(name), 0)
    central = _CENTRAL.pack(b"PK\1\2", 20 | 3 << 8, *fixed, 0, 0, 0, _MODE, place)
    return _LOCAL.pack(b"PK\3\4", *fixed) + name, central + name


class Archive:
    """An archive of somebody else.  Only names and sizes are read when it is opened.

    Raises ArchiveError for what is no archive as ArchiveWriter writes them, such as one with links,
    names that climb, files that are there twice, or that would unpack to more than is sensible.
    """

    def __init__(self, path: Path):
        self.path = path
        with ExitStack() as stack:
            try:
                self._file = stack.enter_context(open_plain(path))
                self._zip = stack.enter_context(zipfile.ZipFile(self._file))
                self.entries = {info.filename: info for info in self._refuse(self._zip.infolist())}
                self._refuse_other_bytes()
            except UserError as error:
                raise ArchiveError(str(error)) from None
            except _NO_ARCHIVE as error:
                reason = " ".join(str(error).split())[:200] or type(error).__name__
                raise ArchiveError(Kind.ARCHIVE_UNREADABLE(path=str(path), reason=reason)) from None
            self._opened = stack.pop_all()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *error) -> None:
        self._opened.close()

    @property
    def comment(self) -> str:
        """The archive's comment, which should be the root."""
        return self._zip.comment.decode("ascii", "replace")

    def _error(self, reason: str) -> ArchiveError:
        return ArchiveError(Kind.ARCHIVE_REFUSED(path=str(self.path), reason=reason))

    def _refuse(self, entries: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
        if len(entries) > MAX_FILES:
            raise self._error(Kind.ARCHIVE_FILES_TOO_MANY(count=len(entries), most=MAX_FILES))
        seen: dict[str, str] = {}
        for info in entries:
            shown = ascii(info.orig_filename[:200])
            mode, most = info.external_attr >> 16, MAX_FILE_BYTES
            most = MAX_BYTES_OF_JSON if info.filename == MANIFEST else most
            odd = info.is_dir() or (stat.S_IFMT(mode) and not stat.S_ISREG(mode))
            outside = not is_safe(info.orig_filename) or info.orig_filename != info.filename
            twice = seen.get(info.filename.lower())
            size, packed = info.file_size, info.compress_size
            far = size > max(_FREE_BYTES, MAX_RATIO * packed)
            for refused, kind, more in (
                (info.flag_bits & 1, Kind.FILE_ENCRYPTED, {}),
                (stat.S_ISLNK(mode), Kind.FILE_A_LINK, {}),
                (odd, Kind.FILE_NOT_PLAIN, {}),
                (outside, Kind.FILE_NAME_UNSAFE, {}),
                (twice, Kind.FILE_NAME_TWICE, {"other": ascii(twice)}),
                (size > most, Kind.FILE_TOO_LARGE, {"size": size}),
                (far, Kind.FILE_UNPACKS_FAR, {"size": size, "packed": packed}),
            ):
                if refused:
                    raise self._error(kind(name=shown, **more))
            seen[info.filename.lower()] = info.filename
        for name in seen:
            above = [name[:i] for i, letter in enumerate(name) if letter == "/"]
            if not seen.keys().isdisjoint(above):
                raise self._error(Kind.FILE_IN_A_FILE(name=ascii(seen[name])))
        total = sum(info.file_size for info in entries)
        if total > MAX_BYTES:
            raise self._error(Kind.ARCHIVE_TOO_LARGE(size=total))
        if MANIFEST not in seen:
            raise self._error(Kind.ARCHIVE_WITHOUT_MANIFEST())
        return entries

    def _refuse_other_bytes(self) -> None:
        """Every byte must belong to a file or to a header of the form that we write."""
        place, directory = 0, b""
        for info in self.entries.values():
            local, central = _headers(info, place)
            self._file.seek(place)
            if info.header_offset != place or self._file.read(len(local)) != local:
                raise self._error(Kind.FILE_HEADER(name=info.filename))
            place += len(local) + info.compress_size
            directory += central
        if info.filename != MANIFEST:
            raise self._error(Kind.ARCHIVE_ORDER())
        count, comment = len(self.entries), self._zip.comment
        end = _END.pack(b"PK\5\6", 0, 0, count, count, len(directory), place, len(comment))
        rest = directory + end + comment
        self._file.seek(place)
        if self._file.read(len(rest) + 1) != rest:
            raise self._error(Kind.ARCHIVE_OTHER_BYTES())

    def read(self, name: str) -> bytes:
        """A file's bytes; raises ArchiveError where it does not unpack to what was announced."""
        return b"".join(self._blocks(self.entries[name]))

    def _blocks(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        try:
            with self._zip.open(info) as stream:
                left = info.file_size
                while block := stream.read(_BLOCK):
                    left -= len(block)
                    if left < 0:
                        raise ValueError(Kind.FILE_LONGER())
                    yield block
                if left:
                    raise ValueError(Kind.FILE_SHORTER())
        except (zipfile.BadZipFile, zlib.error, ValueError, EOFError) as error:
            reason = Kind.FILE_UNREADABLE(name=info.filename, reason=str(error))
            raise self._error(reason) from None

    def unpack(self, name: str, target: Path) -> tuple[str, str]:
        """Write a file into a folder; returns the SHA-256 of it as it is and as it is packed."""
        info = self.entries[name]
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with open(path, "xb") as file:
            for block in self._blocks(info):
                digest.update(block)
                file.write(block)
        self._file.seek(info.header_offset + _LOCAL.size + len(name))
        packed, left = hashlib.sha256(), info.compress_size
        while left and (block := self._file.read(min(left, _BLOCK))):
            packed.update(block)
            left -= len(block)
        return digest.hexdigest(), packed.hexdigest()

    def manifest(self) -> tuple[dict, str]:
        """The manifest and its SHA-256, the root; raises ArchiveError for what is none."""
        content = self.read(MANIFEST)
        try:
            manifest = parse_json(content, f"{self.path}: {MANIFEST}")
        except UserError as error:
            raise ArchiveError(str(error)) from None
        if manifest.get("schema") != SCHEMA:
            shown = ascii(str(manifest.get("schema"))[:40])
            raise self._error(Kind.ARCHIVE_SCHEMA(found=shown, known=SCHEMA))
        return manifest, hashlib.sha256(content).hexdigest()


def file_problems(manifest: Mapping, archive: Archive, target: Path) -> list[str]:
    """Unpack all that is safe to, and say which files are not what the manifest says."""
    problems = []
    listed = manifest.get("files")
    listed = listed if isinstance(listed, dict) else {}
    for name in archive.entries:
        if name == MANIFEST:
            continue
        about = listed.get(name)
        if not isinstance(about, dict):
            problems.append(Kind.FILE_NOT_LISTED(name=name))
            continue
        try:
            sha256, packed = archive.unpack(name, target)
        except ArchiveError as error:
            problems.append(str(error))
            with suppress(OSError):
                (target / name).unlink()
            continue
        size = archive.entries[name].file_size
        told = (about.get("size"), about.get("sha256"), about.get("packed_sha256"))
        if told != (size, sha256, packed):
            problems.append(Kind.FILE_CHANGED(name=name))
    problems += [
        Kind.FILE_MISSING(name=ascii(str(name)[:120])[1:-1])
        for name in listed
        if name not in archive.entries
    ]
    return problems
