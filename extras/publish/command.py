"""Write the Paddle side alone, as a repository that can be published.

    twincheck export --model fastformer --preset digits \\
        --weights step5_train/log/fastformer/best_paddle --out ../fastformer-paddle

OUT gets the model, its weights as .pdparams, programs that predict, train, score and save it for
inference, one batch of inputs with its outputs, requirements.txt and a README in two languages.  It
needs Paddle and NumPy; nothing of this workbench and nothing of the reference is in it.

Both sides run once.  Then the exported predict.py runs where neither the workbench nor torch can be
found, and must give the Paddle model's outputs bit for bit; the saved program must give them within
rounding.  Nothing appears under OUT unless that holds.

Exit status: 0 written and checked, 2 not written.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from twincheck.common.check.options import Parser
from twincheck.common.pair.pairs import load_pair, python_for
from twincheck.common.report import terminal as report
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.program import guarded
from twincheck.extras.publish import Kind
from twincheck.extras.publish.write import publish, refuse_place


@of_pairs()
def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's docstring.  Returns the exit status."""
    parser = Parser(__doc__, "export")
    parser.take_other("model", action="store", required=True, help=Kind.OPTION_MODEL())
    parser.take("preset")
    parser.take_other("case", action="store", default=None, help=Kind.OPTION_CASE())
    parser.take("seed", "weights", "data")
    parser.take_other("out", required=True, help=Kind.OPTION_OUT(), metavar="DIR")
    parser.add_argument("--overwrite", action="store_true", help=Kind.OPTION_OVERWRITE())
    parser.take("torch-python", "paddle-python", "debug")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _export(options))


def _export(options) -> int:
    pair = load_pair(options.model)
    refuse_place(options.out, options.overwrite, pair)
    pythons = {side: python_for(side, getattr(options, f"{side}_python"), [pair]) for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="export-") as work, report.progress() as on_progress:
        done = publish(pair, options, pythons, Path(work), on_progress)
    for sentence in done:
        report.say(sentence)
    return 0
