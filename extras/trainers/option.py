"""What step 5's check gets from this extra: --torch-losses and --paddle-losses.

With them nothing is trained: losses of somebody else's trainer are judged.
"""

from argparse import Namespace
from pathlib import Path

from twincheck.common.check.command_line import Added
from twincheck.common.check.options import Parser
from twincheck.common.check.steps import Step
from twincheck.common.system.errors import UserError
from twincheck.extras.trainers import Kind
from twincheck.extras.trainers.beside import beside
from twincheck.extras.trainers.trainers import ALLOWED

# What logged losses go by; other options of this check mean nothing there.
OF_LOSSES = ("torch-losses", "paddle-losses", "losses-name", "losses-dtype")
WITH_LOSSES = (
    *(*OF_LOSSES, "model", "preset", "device", "seed", "weights", "out"),
    *("torch-python", "paddle-python", "json", "lang", "debug"),
)


def add(parser: Parser) -> None:
    """Give the check's parser the options."""
    add_logs(parser)


def add_logs(parser: Parser) -> None:
    """Give a parser the options that name logged losses."""
    group = parser.add_argument_group(Kind.OPTIONS())
    file = {"type": Path, "metavar": "FILE"}
    group.add_argument("--torch-losses", **file, help=Kind.HELP_TORCH_LOSSES())
    group.add_argument("--paddle-losses", **file, help=Kind.HELP_PADDLE_LOSSES())
    group.add_argument("--losses-name", metavar="NAME", help=Kind.HELP_LOSSES_NAME())
    dtypes = {"choices": tuple(ALLOWED), "default": "float32"}
    group.add_argument("--losses-dtype", **dtypes, help=Kind.HELP_LOSSES_DTYPE())


def run(step: Step, given: Namespace) -> int:
    """Judge the losses that these options name, instead of training."""
    if given.torch_losses is None and given.paddle_losses is None:
        raise UserError(Kind.LOSSES_MISSING())
    idle = [f"--{name}" for name, _ in given.typed if name not in WITH_LOSSES]
    if idle:
        raise UserError(Kind.OPTIONS_IDLE(options=idle))
    return beside(step, given)


ADDED = Added(add, OF_LOSSES, run)
