"""Write a checkpoint's weights in the format that the file's ending names.

safetensors and .npz are written here.  .bin and .pdparams are pickles: torch.save or paddle.save
itself writes them, in a process of that side, and the reader that checks them afterwards
(common/weights/state_pickle.py) shares no code with it.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from twincheck.common.pair.request import RunRequest
from twincheck.common.pair.task import Save
from twincheck.common.system.json_file import write_json
from twincheck.common.weights.checkpoint import Checkpoint, run_side
from twincheck.common.weights.layers import Owner
from twincheck.common.weights.states import save_state

# Ending -> True where the layout is Paddle's.
FORMATS = {
    ".safetensors": False,
    ".bin": False,
    ".pt": False,
    ".pth": False,
    ".npz": False,
    ".pdparams": True,
}


def write(path: Path, checkpoint: Checkpoint, pythons: Mapping[str, str], work: Path) -> None:
    """Write the checkpoint's state to `path`.

    pythons  side -> the Python that runs it
    work     a folder for what the process that writes reads
    Raises UserError in that side's own words where it fails.
    """
    state, owners = checkpoint.state, checkpoint.owners["torch"]
    if path.suffix == ".npz":
        save_state(path, state)
    elif path.suffix == ".safetensors":
        _safetensors(path, state, owners)
    elif FORMATS[path.suffix]:
        paddle = checkpoint.layout.to_paddle(state)
        _by_side("paddle", path, paddle, checkpoint.owners["paddle"], pythons, work)
    else:
        _by_side("torch", path, state, owners, pythons, work)


def _safetensors(path: Path, state: Mapping[str, np.ndarray], owners: Mapping[str, Owner]) -> None:
    """Write a tensor of several names once, under its first, as transformers does."""
    from safetensors.numpy import save_file

    once = {k: np.ascontiguousarray(v) for k, v in state.items() if owners[k].same_as == k}
    save_file(once, path, metadata={"format": "pt"})


def _by_side(side, path: Path, state, owners: Mapping[str, Owner], pythons, work: Path) -> None:
    """Let a side's process write the state: it reads each array once, and the names of each."""
    stored = work / f"to_write_{side}.npz"
    names = {key: owners[key].same_as for key in state}
    save_state(stored, {key: state[key] for key in dict.fromkeys(names.values())})
    write_json(stored.with_suffix(".json"), names)
    request = RunRequest(weights=str(stored.absolute()), task=Save(str(path.absolute())))
    run_side(side, pythons[side], request, work / f"to_write_{side}" / "request.json")
    stored.unlink()
