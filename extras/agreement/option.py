"""What step 2's check gets from this extra: --agree DATA.

On which of the examples in DATA (an .npz, a folder of images, a text) do the sides choose
otherwise, and does rounding decide there?
"""

from argparse import Namespace
from pathlib import Path

from twincheck.common.check.command_line import Added
from twincheck.common.check.options import CheckOptions, Parser, positive
from twincheck.common.check.steps import Step
from twincheck.common.system.errors import UserError
from twincheck.extras.agreement import Kind
from twincheck.extras.agreement.agree import BATCH_SIZE, agree

# What --agree goes by; other options of this check mean nothing there.
OF_AGREEMENT = (
    *("agree", "batch-size", "resume", "model", "preset", "device", "seed", "weights", "out"),
    *("tokenizer", "transplant", "torch-python", "paddle-python", "json", "lang", "debug"),
)


def add(parser: Parser) -> None:
    """Give the check's parser the options."""
    parser.take("resume")
    group = parser.add_argument_group(Kind.OPTIONS())
    group.add_argument("--agree", type=Path, metavar="DATA", help=Kind.HELP_AGREE())
    size = Kind.HELP_BATCH_SIZE(size=BATCH_SIZE)
    group.add_argument("--batch-size", type=positive, metavar="N", help=size)


def run(step: Step, given: Namespace) -> int:
    """What is done where one of these options is typed."""
    if given.agree is None:
        raise UserError(Kind.AGREE_MISSING())
    idle = [f"--{name}" for name, _ in given.typed if name not in OF_AGREEMENT]
    if idle:
        raise UserError(Kind.OPTIONS_IDLE(options=idle))
    size = given.batch_size or BATCH_SIZE
    return agree(step, CheckOptions.of(given), given.agree, size, given.json)


ADDED = Added(add, ("agree", "batch-size", "resume"), run, Kind.RESUME_GOES_ON())
