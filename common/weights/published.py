"""The twins' reading of what the check has written of a checkpoint (checkpoint.py); NumPy only."""

import dataclasses
from pathlib import Path

from common.pair.pairs import Pair
from common.system.errors import UserError
from common.system.json_file import load_json


def published(pair: Pair, folder: str | None) -> Pair:
    """The pair with the checkpoint's configuration, where it has one."""
    written = load_json(Path(folder) / f"{pair.name}.json") if folder else {}
    if "config" not in written:
        return pair
    if not isinstance(written["config"], dict) or not isinstance(written.get("inputs"), dict):
        raise UserError(f"{folder}: refused: no configuration of {pair.name}")
    return dataclasses.replace(pair, published=written)


def stored_weights(pair: Pair, folder: str | None, weights: str) -> Path:
    """The torch-named .npz: the one that the check wrote of a checkpoint, else --weights itself."""
    return Path(folder) / f"{pair.name}.npz" if folder else Path(weights)
