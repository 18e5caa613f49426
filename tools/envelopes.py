"""How far rounding drives the built-in trainings apart, measured and kept (step5_train/envelopes).

And what torch has learnt there: the weights that step 2 scores, each as float16 has it
(common/models/MODEL/PRESET.npz).

    python -m tools.envelopes                    every built-in model's default preset
    python -m tools.envelopes --model reformer

Runs step 5 with self-twins of both sides, some minutes a model, and writes what they scatter by
with all that it depends on.  Step 5 then runs no self-twins of that preset, until that changes.
"""

import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.case_hooks import data_preset, trained_file
from twincheck.common.pair.data import save_arrays
from twincheck.common.pair.pairs import load_pairs
from twincheck.common.pair.request import RunRequest
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.half import rounded
from twincheck.common.system.json_file import write_json
from twincheck.common.system.program import Parser
from twincheck.common.weights.states import load_state
from twincheck.step5_train.envelope import depends_on, stored_file
from twincheck.step5_train.trained import envelope_of

PRESET = RunRequest().preset


def measure(pair) -> Path:
    """Run step 5 of a built-in model anew and write its envelope; returns the file's path.

    Raises UserError where its trainings are not alike.
    """
    path = stored_file(pair, PRESET)
    path.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        more = ["--out", folder, "--json", str(report), "--no-report", "--allow", "undecided"]
        command = [sys.executable, "step5_train/check_step5.py", "--model", pair.name, *more]
        if subprocess.run(command, cwd=ROOT).returncode != 0:
            raise UserError(f"{pair.name}: its trainings are not alike, see above: nothing written")
        made = Path(folder) / "step5_train" / pair.name
        envelope, _, _ = envelope_of(made, pair)
        request = RunRequest.read(made / "request_torch_full.json")
        spreads = {name: asdict(each) for name, each in envelope.items()}
        told = {"depends_on": depends_on(made, request), "spreads": spreads}
        told["measured"] = f"{time.strftime('%Y-%m-%d')}, {platform.machine()}"
        keep_learnt(ResultFolder(made), trained_file(pair, data_preset(pair, PRESET)))
    path.parent.mkdir(exist_ok=True)
    write_json(path, told)
    return path


def keep_learnt(made: ResultFolder, path: Path) -> None:
    """Write of a training's best weights those that it has changed, rounded to float16."""
    start = load_state(made.weights(""))
    learnt = load_state(made.best_weights("torch", 0) / "weights.npz")
    changed = {name: v for name, v in learnt.items() if not np.array_equal(v, start[name])}
    save_arrays(path, {name: rounded(values, "float16") for name, values in changed.items()})


def main() -> int:
    """See the module's docstring; returns the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("--model", action="append", default=[], help="a built-in model's name")
    given = parser.parse_args()
    try:
        for pair in load_pairs(tuple(given.model or ["all"])):
            print(f"written: {measure(pair).relative_to(ROOT)}", flush=True)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
