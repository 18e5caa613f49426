"""What step 5's check gets from this extra: --torch-losses and --paddle-losses.

With them nothing is trained: losses of somebody else's trainer are judged.
"""

from argparse import Namespace
from pathlib import Path

from twincheck.common.check.added import Added
from twincheck.common.check.options import Parser
from twincheck.common.check.steps import Step
from twincheck.common.system.errors import UserError
from twincheck.extras.trainers.beside import beside
from twincheck.extras.trainers.trainers import ALLOWED

# What logged losses go by; other options of this check mean nothing there.
OF_LOSSES = ("torch-losses", "paddle-losses", "losses-name", "losses-dtype", "first-batch")
WITH_LOSSES = (
    *(*OF_LOSSES, "model", "preset", "device", "seed", "weights", "out"),
    *("torch-python", "paddle-python", "json", "lang", "debug"),
)


def add(parser: Parser) -> None:
    """Give the check's parser the options."""
    add_logs(parser).add_argument(
        "--first-batch",
        type=Path,
        metavar="FILE",
        help="an .npz with the first step's batch, to tell what differs: --first-batch batch.npz",
    )


def add_logs(parser: Parser) -> object:
    """Give a parser the options that name logged losses; returns their group."""
    group = parser.add_argument_group("losses that somebody else's trainer logged")
    group.add_argument(
        "--torch-losses",
        type=Path,
        metavar="FILE",
        help="CSV, JSON lines, trainer_state.json, TensorBoard or VisualDL: "
        "--torch-losses runs/trainer_state.json",
    )
    group.add_argument(
        "--paddle-losses",
        type=Path,
        metavar="FILE",
        help="likewise; a side without a file is step 5's own: --paddle-losses vdlrecords.1.log",
    )
    group.add_argument(
        "--losses-name", metavar="NAME", help="of a column or tag: --losses-name train/lm_loss"
    )
    group.add_argument(
        "--losses-dtype",
        choices=tuple(ALLOWED),
        default="float32",
        help="what the trainings computed in, float32 by default: --losses-dtype bfloat16",
    )
    return group


def run(step: Step, given: Namespace) -> int:
    """What is done where one of these options is typed."""
    if given.torch_losses is None and given.paddle_losses is None:
        raise UserError("give the losses, too: --torch-losses FILE, --paddle-losses FILE")
    idle = [f"--{name}" for name, _ in given.typed if name not in WITH_LOSSES]
    if idle:
        raise UserError(f"{', '.join(idle)} has no use with logged losses: leave it out")
    return beside(step, given)


ADDED = Added(add, OF_LOSSES, run)
