"""Step 3, both sides: the losses of every head, for each sample and reduced."""

from twincheck.common.sides.probes import probing


def loss(run):
    """Log one case's outputs, its loss and, where the pair has them, its `losses` by name.

    No module is looked at but for those that --probe names.
    """
    model = run.build()
    tensors = run.tensors()
    run.session.probing, run.session.watching = bool(run.request.probes), True
    with run.no_gradients(), probing(run.side, model):
        outputs = run.call(model, tensors)
        outputs = run.log_nested("", outputs)
        run.log("loss", run.loss(outputs, tensors))
        losses = run.losses(outputs, tensors)
    for name, value in losses.items():
        run.log(f"losses/{name}", value)
