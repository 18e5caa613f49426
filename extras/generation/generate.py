"""Step 5, both sides: generate tokens behind prompts.

Each token is a discrete choice: the reference's float64 run chooses, the others go on with its
tokens and log what they would have chosen.  check.py writes what is to be generated.
"""

from twincheck.common.pair.pairs import PERTURBED, Case
from twincheck.extras.generation.decoding import decode
from twincheck.extras.generation.generation import Request


def generate(run):
    """Log the logits and the choice of each token, and all ids."""
    decode(run, Request.of(run.data))


def cases(pair, request):
    """The preset alone; a user's pair on perturbed weights, where --weights says nothing."""
    weights = "initial" if pair.built_in or request.weights else PERTURBED
    return [Case("", pair.config(request.preset), weights=weights)]


SCRIPT = {"stem": "generate", "function": generate, "cases": cases}
