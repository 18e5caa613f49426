"""What is done to the logs of a correct run before they are judged again: a fault's `after`.

Each takes the folder of these logs, and that of another run's.
"""

import json
import shutil
from pathlib import Path


def _copy(folder: Path, source: str, target: str) -> None:
    for suffix in (".npy", ".json"):
        shutil.copy(folder / f"{source}{suffix}", folder / f"{target}{suffix}")


def torch_twice(folder: Path, other: Path) -> None:
    """Both logs are torch's, sidecars too."""
    for name in ("", "_fp64"):
        _copy(folder, f"forward_all_torch{name}", f"forward_all_paddle{name}")


def torch_twice_relabelled(folder: Path, other: Path) -> None:
    """Paddle's logs are replaced by torch's, whose sidecars are made to say Paddle."""
    for name in ("", "_fp64"):
        sidecar = json.loads((folder / f"forward_all_paddle{name}.json").read_text())
        torch, paddle = (folder / f"forward_all_{side}{name}.npy" for side in ("torch", "paddle"))
        shutil.copy(torch, paddle)
        told = json.loads((folder / f"forward_all_torch{name}.json").read_text())
        sidecar["log_sha256"] = told["log_sha256"]
        (folder / f"forward_all_paddle{name}.json").write_text(json.dumps(sidecar))


def swapped(folder: Path, other: Path) -> None:
    """Each side's logs under the other side's name."""
    for name in ("", "_fp64"):
        _copy(folder, f"forward_all_torch{name}", "kept")
        _copy(folder, f"forward_all_paddle{name}", f"forward_all_torch{name}")
        _copy(folder, "kept", f"forward_all_paddle{name}")


def paddle_of_other_run(folder: Path, other: Path) -> None:
    """Paddle's logs come from another run."""
    for path in other.glob("forward_all_paddle*"):
        shutil.copy(path, folder / path.name)


def edited(folder: Path, other: Path) -> None:
    """One byte of a log is changed by hand."""
    path = folder / "forward_all_paddle.npy"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def cut_off(folder: Path, other: Path) -> None:
    """A log that was not written to its end."""
    path = folder / "forward_all_paddle.npy"
    path.write_bytes(path.read_bytes()[:-1000])


def no_sidecar(folder: Path, other: Path) -> None:
    """A log of unknown origin."""
    (folder / "forward_all_paddle.json").unlink()


def embellished(folder: Path, other: Path) -> None:
    """Hand in torch's values as Paddle's, as if the sides agreed to the last bit."""
    told = json.loads((folder / "forward_paddle.json").read_text())
    of_torch = json.loads((folder / "forward_torch.json").read_text())
    shutil.copy(folder / "forward_torch.npy", folder / "forward_paddle.npy")
    told["log_sha256"] = of_torch["log_sha256"]
    (folder / "forward_paddle.json").write_text(json.dumps(told))


def nothing(folder: Path, other: Path) -> None:
    """The logs stay; what they were made from has changed."""
