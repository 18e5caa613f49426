"""Step 5, both sides: generate tokens behind a prompt.

Each token is a discrete choice: the reference's float64 run chooses, the others go on with its
tokens and log what they would have chosen.  The check writes what is to be generated.
"""

import numpy as np

from twincheck.common.pair.pairs import PERTURBED, Case
from twincheck.common.sides.instruments import enter_choice
from twincheck.common.sides.session import current
from twincheck.common.system.errors import UserError
from twincheck.extras.generation import Kind
from twincheck.extras.generation.decoding import decode
from twincheck.extras.generation.generation import SITE, Request, draw_scores, order_of


def generate(run):
    """Log each step's logits and choice, and at the end all ids."""
    request = Request.of(run.data)
    if not run.pair.built_in:
        decode(run, request)
        return
    model = run.build()
    run.session.probing = False
    ids, cache = request.prompts[0][None], None  # (1, T)
    for number in range(request.tokens):
        # Each pass begins anew, so that all draw the same rotations.
        run.session.begin(prefix=f"{run.prefix}token_{number}/")
        logits, cache = next_logits(run, model, ids, cache, run.side.NAME in request.cache)
        run.log(f"token_{number}/logits", logits)
        token = next_token(run, logits, request, number)
        ids = np.concatenate([ids, token.reshape([1, 1])], axis=1)
        run.progress(Kind.NOW_TOKEN(token=number + 1, count=request.tokens))
        if token == request.end:
            break
    run.log("prompt", request.prompts[0])
    run.log("ids", ids[0])


def next_logits(run, model, ids, cache, use_cache):
    """Logits (V) behind the ids (1, T), and the cache for the next token; None without one."""
    inputs = {"input_ids": run.side.tensor(ids if cache is None else ids[:, -1:])}
    if use_cache:
        inputs |= {"past_buckets_states": cache, "use_cache": True}
    with run.side.no_grad():
        outputs = run.call(model, inputs)
    for name in ("logits", "past_buckets_states") if use_cache else ("logits",):
        if not isinstance(outputs, dict) or name not in outputs:
            raise UserError(Kind.OUTPUT_MISSING(model=run.pair.name, name=name))
    if outputs["logits"].ndim != 3:
        raise UserError(Kind.LOGITS_NO_ROWS(model=run.pair.name))
    return run.side.array(outputs["logits"])[0, -1], outputs.get("past_buckets_states")


def next_token(run, logits, request, number):
    """The token (1,) int64 to go on with, chosen from logits (V)."""
    if not request.sample:
        return chosen(run, "choice", logits, logits.argmax(keepdims=True))
    count = request.top_k or logits.size
    kept = order_of(logits, count)
    if count < logits.size:
        kept = chosen(run, "kept", logits, kept[None])[0]
    draw = run.session.tape.generator(SITE, number).random()
    scores = draw_scores(logits, kept, request.temperature, draw)
    return chosen(run, "choice", scores, scores.argmax(keepdims=True))


def chosen(run, name, scores, choice):
    """Enter a choice (1,) or (1, K) among scores (V) in the ledger; what to go on with."""
    label = current().label(name)
    return run.side.array(
        enter_choice(run.side, label, run.side.tensor(scores[None]), run.side.tensor(choice))
    )


def cases(pair, request):
    """The preset alone; a user's pair on perturbed weights, where --weights says nothing."""
    weights = "initial" if pair.built_in or request.weights else PERTURBED
    return [Case("", pair.config(request.preset), weights=weights)]


SCRIPT = {"stem": "generate", "function": generate, "cases": cases}
