"""Lay out an empty pair, which runs at once: then five edits make it yours.

    python -m common.new NAME [--folder DIR]

Writes DIR/NAME (by default ./NAME) with case.py, torch_model.py and paddle_model.py.  What is there
already is never touched.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from common.system.start import begin

    begin("numpy", "rich")

import os
import shlex
import shutil
import tempfile
from collections.abc import Sequence

from common.check.flags import Parser
from common.check.guard import guarded
from common.pair.pairs import built_in_models
from common.system.checkout import ROOT
from common.system.errors import UserError

TEMPLATE = ROOT / "common" / "pair" / "template"
FILES = ("case.py", "torch_model.py", "paddle_model.py")
TEMPLATE_NAME = "my_pair"  # what the template calls itself

EDITS = """Five edits, each marked by its number in the files:
  1  torch_model.py    put the PyTorch model in; build(config) returns it
  2  paddle_model.py   put the port in; names that differ go into RENAME in case.py
  3  case.py           CONFIGS and make_inputs: step 1 must pass now
  4  both models       loss(outputs, inputs): steps 3 and 4
  5  case.py           make_data, and metric and optimizer if you like: steps 2 and 5"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns 0, or 2 where nothing was written."""
    parser = Parser(__doc__, "python -m common.new")
    parser.add_argument("name", metavar="NAME", help="of the folder, and of the model in the logs")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where to put it, by default here: --folder ~/pairs",
    )
    given = parser.take("debug").parse_args(arguments)
    return guarded(given.debug, lambda: _new(given.name, given.folder))


def _new(name: str, folder: Path) -> int:
    made = lay_out(name, folder)
    model = shlex.quote(str(made))
    print(f"made {made}: {', '.join(FILES)}")
    print(EDITS)
    print("It runs as it is:")
    for number, title in enumerate(("forward", "metric", "loss", "backward", "train"), 1):
        print(f"  python step{number}_{title}/check_step{number}.py --model {model}")
    return 0


def lay_out(name: str, folder: Path) -> Path:
    """Write the template's files into folder/name, all or nothing; returns that path.

    Raises UserError for a name that no folder or log can have, and where something is there.
    """
    if not name.replace("_", "").replace("-", "").isalnum() or not name.isascii():
        raise UserError(f"{name}: a pair's name has letters, digits, '_' and '-' only")
    if name[0] == "-" or name == "all" or name in built_in_models():
        known = ", ".join(built_in_models())
        raise UserError(f"{name}: this name is taken (all, {known}) or starts with '-'")
    target = folder / name
    if target.exists() or target.is_symlink():
        raise UserError(f"{target}: there already; take another name, or remove it yourself")
    folder.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder))
    try:
        for file in FILES:
            text = (TEMPLATE / file).read_text(encoding="utf-8")
            (work / file).write_text(text.replace(TEMPLATE_NAME, name), encoding="utf-8")
        work.chmod(0o777 & ~_umask())
        os.rename(work, target)
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _umask() -> int:
    """The permissions that new files go without; mkdtemp's own folder is closed to everybody."""
    value = os.umask(0)
    os.umask(value)
    return value


if __name__ == "__main__":
    sys.exit(main())
