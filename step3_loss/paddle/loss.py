"""Step 3, paddle side: the losses of every head, for each sample and reduced.

python -m step3_loss.paddle.loss REQUEST.json
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[2])
    from twincheck.common.system.start import begin_side

    begin_side("paddle", __doc__)

from twincheck.common.sides import paddle_side as side
from twincheck.common.sides.worker import Script, main


def loss(run):
    """Log one case's outputs, its loss and, where the pair has them, its `losses` by name.

    No module is looked at but for those that --probe names.
    """
    model = run.build()
    tensors = run.tensors()
    run.session.probing, run.session.watching = bool(run.request.probes), True
    with run.no_gradients(), side.probing(model):
        outputs = run.call(model, tensors)
        outputs = run.log_nested("", outputs)
        run.log("loss", run.loss(outputs, tensors))
        losses = run.losses(outputs, tensors)
    for name, value in losses.items():
        run.log(f"losses/{name}", value)


SCRIPT = Script(side, "loss_all", loss, sums=True)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
