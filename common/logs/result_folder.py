"""What a result folder holds, and what of it one check takes over from another."""

from pathlib import Path

from common.system.files import link_or_copy

_PATTERNS = (
    "*_torch*.npy",
    "*_torch*.json",
    "*_choices.npz",
    "weights/*.npz",
    "weights/*.json",
    "train_torch*.log",
    "best_torch*/*",
)


def take_over(folder: Path, target: Path) -> None:
    """Put the torch side's files of a folder into `target`: links where the system can, or copies.

    Logs are never changed in place, so that two folders may share them.
    """
    for pattern in _PATTERNS:
        for path in folder.glob(pattern):
            if path.is_symlink() or not path.is_file():
                continue
            place = target / path.relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(path, place)
