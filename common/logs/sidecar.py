"""What a log's sidecar may say: the type of every entry that the workbench reads.

Whoever sends a log writes its sidecar, so nothing may rely on what it holds before this has.
Entries that are not in the table are passed over; null is the same as not being there.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from common.logs.pickle_machine import printable
from common.system.errors import LogError, UserError
from common.system.json_file import load_json, write_json

SCHEMA = 1  # the newest that this version reads


def _text(value: object) -> bool:
    return isinstance(value, str)


def _whole(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _seconds(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e12


def _yes_or_no(value: object) -> bool:
    return isinstance(value, bool)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _named(good: Callable[[object], bool]) -> Callable[[object], bool]:
    def check(value: object) -> bool:
        return isinstance(value, dict) and all(good(item) for item in value.values())

    return check


def _length(value: object) -> bool:
    return value is None or (_whole(value) and value > 0)


_COUNTS = ("calls", "differed", "gradients", "gradients_differed")


def _tally(value: object) -> bool:
    """What common/transplant/patch.py counts of one operator."""
    if not isinstance(value, dict) or set(value) != {*_COUNTS, "largest", "where", "untaken"}:
        return False
    counts = all(_whole(value[name]) for name in _COUNTS) and _seconds(value["largest"])
    return counts and _text(value["where"]) and _named(_whole)(value["untaken"])


_KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "text": (_text, "text"),
    "whole": (_whole, "a whole number"),
    "seconds": (_seconds, "a number of seconds"),
    "yes": (_yes_or_no, "true or false"),
    "texts": (_texts, "a list of texts"),
    "names": (_named(_text), "texts by name"),
    "lengths": (_named(_length), "lengths from 1 by name"),
    "counts": (_named(_whole), "whole numbers by name"),
    "tallies": (_named(_tally), "an operator's counts by name"),
    "ledger": (_named(_named(_text)), "texts by name, by name"),
}

ENTRIES = {
    **dict.fromkeys(
        (
            "step",
            "model",
            "side",
            "framework",
            "framework_version",
            "framework_file",
            "device",
            "dtype",
            "preset",
            "weights",
            "inputs_sha256",
            "weights_sha256",
            "log_sha256",
            "workbench_sha256",
            "no_float64",
            "command",
            "time",
        ),
        "text",
    ),
    "schema": "whole",
    "seed": "whole",
    "elapsed_s": "seconds",
    "forced_choices": "yes",
    "train": "yes",
    "torch_is_paddle": "yes",
    "single_step": "yes",
    "frameworks_loaded": "texts",
    "transplanted": "texts",
    "operators": "tallies",
    "converted": "texts",
    "flips": "texts",
    "places": "names",
    "sources": "names",
    "modules": "counts",
    "classes": "names",
    "batches": "lengths",
    "choices": "ledger",
}


def check_entries(sidecar: Mapping[str, object], name: object) -> None:
    """Raise UserError for the first entry of another type than its own, or a newer schema."""
    for entry, value in sidecar.items():
        kind = ENTRIES.get(entry)
        if kind is None or value is None:
            continue
        good, told = _KINDS[kind]
        if not good(value):
            shown = printable(repr(value)) if not isinstance(value, dict | list) else "other values"
            raise UserError(f"{name}: refused: its {entry} is {shown}, not {told}")
    schema = sidecar.get("schema")
    if schema is not None and schema > SCHEMA:
        raise UserError(
            f"{name}: refused: its schema is {schema}, and this version reads up to {SCHEMA}"
        )


def sidecar_path(log_path: str | os.PathLike) -> Path:
    """Where a log's sidecar is: the same stem, .json."""
    return Path(log_path).with_suffix(".json")


def write_sidecar(log_path: str | os.PathLike, sidecar: Mapping[str, object]) -> Path:
    """Write who made a log beside it."""
    path = sidecar_path(log_path)
    write_json(path, sidecar)
    return path


def read_sidecar(log_path: str | os.PathLike) -> dict | None:
    """What a log's sidecar says, None where there is none.

    Raises LogError where it cannot be read, or says something of another type than it should.
    """
    path = sidecar_path(log_path)
    if not os.path.lexists(path):
        return None
    try:
        sidecar = load_json(path)
        check_entries(sidecar, path)
    except UserError as error:
        raise LogError(f"this sidecar cannot be read: {error}") from None
    return {entry: value for entry, value in sidecar.items() if value is not None}


# Before the class of a model's own modules: the other side need not have them.
OWN = "own"

CHOICE = f"{OWN} choice"  # of a choice that nobody asked for by name

# Behind the class of a module that writes into its input: that tensor's gradient is not logged.
IN_PLACE = "in place"
