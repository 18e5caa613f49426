"""Step 4, paddle side: every gradient, the witnesses, then ten steps of each optimizer set-up.

python -m step4_backward.paddle.backward REQUEST.json
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[2])
    from twincheck.common.system.start import begin_side

    begin_side("paddle", __doc__)

from twincheck.common.sides import paddle_side as side
from twincheck.common.sides.worker import Script, main
from twincheck.step4_backward.backward import (
    PER_WEIGHT,
    behind,
    demand_gradient,
    log_gradients,
    parts,
    watch_inputs,
)


def backward(run):
    """Log one case's gradients; the model's first case also takes the optimizer steps."""
    behind(run, gradients(run))


def gradients(run):
    """The gradient at every probe, in the order of the backward pass, and of every parameter.

    Returns the names of the parameters that have one: the loss may not reach all.
    """
    model = run.build()
    run.learn_probed(model)
    tensors = {key: side.watch(value) for key, value in run.tensors().items()}
    own = {key: value.clone() for key, value in tensors.items()}  # it may write into them
    arrived = watch_inputs(run, run.of_forward(model, own))
    run.session.gradients, run.session.half = True, False
    with side.probing(model):
        outputs = run.call(model, own)
        outputs = run.log_nested("", outputs)
        loss = run.loss(outputs, tensors)
        run.log("loss", loss)
        demand_gradient(run, model, loss)
        run.session.in_backward = True
        loss.backward()
    run.session.gradients = run.session.in_backward = False
    log_gradients(run, model, outputs, arrived)
    return {name for name, value in run.parameters(model) if value.grad is not None}


SCRIPT = Script(side, "bp_align_all", backward, sums=True, per_weight=PER_WEIGHT, parts=parts)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
