"""What the check leaves of a checkpoint for the twins, read by them; NumPy only."""

import dataclasses
from pathlib import Path

from common.pair.pairs import Pair
from common.system.errors import UserError
from common.system.json_file import load_json


def published(pair: Pair, folder: str | None) -> Pair:
    """The pair with the configuration that a checkpoint gives it, where one does."""
    found = load_json(Path(folder) / f"{pair.name}.json") if folder else {}
    if "config" not in found:
        return pair
    if not isinstance(found["config"], dict) or not isinstance(found.get("inputs"), dict):
        raise UserError(f"{folder}: refused: no configuration of {pair.name}")
    return dataclasses.replace(pair, published=found)


def stored_weights(pair: Pair, folder: str | None, given: str) -> Path:
    """The torch-named .npz: the one that the check made of a checkpoint, else --weights itself."""
    return Path(folder) / f"{pair.name}.npz" if folder else Path(given)
