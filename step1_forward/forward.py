"""Step 1, both sides: run the model once and log every probe and every output."""

from twincheck.common.sides.initial import log_initial
from twincheck.common.sides.probes import probing
from twincheck.step1_forward.decoding import decode


def forward(run):
    """Log one case's inputs and outputs of every module, named intermediates and outputs."""
    model = run.build()
    run.log_constants()
    before = run.buffers(model)
    with run.no_gradients(), probing(run.side, model):
        if run.case.decode:
            decode(run, model, run.tensors()["input_ids"])
            return
        outputs = run.call(model, run.tensors())
    run.log_nested("", outputs, whole=True)
    run.log_buffers(model, before)
    log_initial(run, "forward_init")
