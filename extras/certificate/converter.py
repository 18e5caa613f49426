"""Convert a checkpoint from one side's format to the other's, and certify what was written.

    twincheck converter --model reformer --weights IN --out OUT [--to torch|paddle]

OUT's ending is its format: .safetensors, .bin or .pt, .npz (torch's names and layout), .pdparams
(Paddle's: what a Linear owns is transposed).  Without an ending OUT is a folder, with the
config.json that from_pretrained wants: of transformers with --to torch (model.safetensors), of
PaddleNLP with --to paddle (model_state.pdparams).  IN is what --weights of every check takes.

The table is the certificate's (command.py): where each entry went, and whether the
written file, read again, gives the same bits back in the model's own layout.  Nothing appears under
OUT unless all of them do.  `twincheck certificate --model … --weights OUT` then tries every
layer.

Exit status: 0 written and certified, 2 not written.
"""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from twincheck.common.check.options import Parser
from twincheck.common.pair.pairs import Pair, load_pair, python_for
from twincheck.common.report import terminal as report
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.files import write_text
from twincheck.common.system.folders import put_in_place, working_folder
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.program import guarded, say_error
from twincheck.common.weights.checkpoint import Checkpoint, fill_in, prepare
from twincheck.common.weights.read import CONFIG, find, parts, read
from twincheck.common.weights.round_trip import one_way_keys
from twincheck.extras.certificate import Kind
from twincheck.extras.certificate.command import Certificate, read_checkpoint, read_layout, show
from twincheck.extras.shared.write import FORMATS, write

FOLDERS = {"torch": "model.safetensors", "paddle": "model_state.pdparams"}


@of_pairs()
def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's docstring.  Returns the exit status."""
    parser = Parser(__doc__, "converter")
    parser.take_other("model", action="store", required=True, help=Kind.OPTION_MODEL())
    parser.take("preset")
    parser.take_other("weights", required=True, metavar="IN", help=Kind.OPTION_IN())
    parser.take_other("out", required=True, metavar="OUT", help=Kind.OPTION_OUT())
    parser.add_argument("--to", choices=SIDES, help=Kind.OPTION_TO())
    parser.take("torch-python", "paddle-python", "json", "debug")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _convert(options))


def _convert(options) -> int:
    pair, out = load_pair(options.model), options.out
    name = _file_name(out, options.to)
    _refuse_input(options.weights, out)
    if not name and out.exists():
        _refuse_foreign(out)
    pythons = {side: python_for(side, getattr(options, f"{side}_python"), [pair]) for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="converter-") as work, report.progress() as on_progress:
        on_progress(Kind.READING())
        source = (options.weights, options.preset, False, pythons, Path(work))
        pair, checkpoint = prepare(pair, *source, both=True)
        on_progress(Kind.WRITING())
        certificate = _write(pair, checkpoint, options, pythons, Path(work), out, name)
    show(certificate)
    if options.json:
        write_text(options.json, json.dumps(certificate.as_json(), indent=1))
    if certificate.exit_code:
        say_error(Kind.OUT_NOT_WRITTEN(path=str(out)))
        return 2
    report.say(Kind.WRITTEN(path=str(out)))
    return 0


def _file_name(out: Path, to: str | None) -> str:
    """OUT's own name where it is a file, empty where it is a folder; UserError for neither."""
    if out.suffix in FORMATS and not out.is_dir():
        side = "paddle" if FORMATS[out.suffix] else "torch"
        if to not in (None, side):
            told = {"path": str(out), "ending": out.suffix, "side": side, "to": to}
            raise UserError(Kind.OUT_OF_SIDE(**told))
        return out.name
    if to is None:
        raise UserError(Kind.OUT_WITHOUT_ENDING(path=str(out), endings=[*FORMATS]))
    return ""


def _refuse_input(weights: str, out: Path) -> None:
    """Raise UserError where OUT is one of the files that are read, or a folder around one."""
    sources = {path.resolve() for path in [Path(weights), *parts(weights)]}
    target = out.resolve()
    if target in sources or any(target in path.parents for path in sources):
        raise UserError(Kind.OUT_IS_READ(path=str(out)))


def _refuse_foreign(out: Path) -> None:
    """Raise UserError for a folder that holds what no conversion writes: it would be lost."""
    if not out.is_dir():
        raise UserError(Kind.OUT_IS_A_FILE(path=str(out)))
    own = {CONFIG, *FOLDERS.values()}
    others = sorted(path.name for path in out.iterdir() if path.name not in own)
    if others:
        raise UserError(Kind.OUT_HOLDS_MORE(path=str(out), files=others[:5]))


def _write(pair, checkpoint, options, pythons, work, out: Path, name: str) -> Certificate:
    """Write to a temporary folder, read it again, and rename it to OUT if it is certified."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with working_folder(out.parent) as beside:
        folder = beside / "written"
        folder.mkdir()
        path = folder / (name or FOLDERS[options.to])
        write(path, checkpoint, pythons, work)
        path.chmod(0o644)  # safetensors makes a file that its user alone can read
        certificate = certified(pair, checkpoint, path)
        if certificate.exit_code:
            return certificate
        if name:
            os.replace(path, os.path.realpath(out))  # a link stays, its file is replaced
        else:
            config = json.dumps(_config(pair, checkpoint, options.preset), indent=2)
            (folder / CONFIG).write_text(config + "\n")
            folder.chmod(0o755)
            put_in_place(folder, out)
    return certificate


def _config(pair: Pair, checkpoint: Checkpoint, preset: str) -> dict:
    """The published entries, updated with those that the model was built from."""
    config = pair.config(preset)
    hook = getattr(pair.case, "publish", None)
    own = "head" in checkpoint.published  # a configuration of ours says nothing more
    return ({} if own else checkpoint.published) | (config if hook is None else hook(config))


def certified(pair: Pair, checkpoint: Checkpoint, path: Path) -> Certificate:
    """The certificate of a written file: where each entry went, and whether its bits come back."""
    certificate = Certificate(pair.name)
    read_checkpoint(certificate, checkpoint)
    layout = checkpoint.layout
    read_layout(certificate, {"": layout.certificate()})
    different = set(read_back(checkpoint, path))
    one_way = set(one_way_keys(layout, layout.to_paddle(checkpoint.state)))
    for row in certificate.rows:
        row["read_back"] = different.isdisjoint([*row["torch_keys"], *row["also_in_torch"]])
        row["paddle_to_torch"] = row["paddle_key"] not in one_way
    certificate.problems += [Kind.READ_AGAIN_OTHER(key=key) for key in sorted(different)]
    certificate.problems += [Kind.ONE_WAY(key=key) for key in sorted(one_way)]
    return certificate


def read_back(checkpoint: Checkpoint, path: Path) -> list[str]:
    """Torch's names of what a written file gives back with other bits, and names that it adds."""
    stored = read(find(str(path)))
    state = dict(stored.state)
    fill_in(state, checkpoint.owners["paddle" if stored.paddle else "torch"])
    if stored.paddle:
        unknown = set(state) - set(checkpoint.owners["paddle"])
        state = checkpoint.layout.to_torch({k: v for k, v in state.items() if k not in unknown})
    else:
        unknown = set(state) - set(checkpoint.state)
    different = [key for key, values in checkpoint.state.items() if not _same(state, key, values)]
    return [*different, *unknown]


def _same(state: Mapping[str, np.ndarray], key: str, values: np.ndarray) -> bool:
    other = state.get(key)
    alike = other is not None and (other.shape, other.dtype) == (values.shape, values.dtype)
    return alike and other.tobytes() == values.tobytes()
