"""Step 1, paddle side: run the model once and log every probe and every output.

python -m step1_forward.paddle.forward REQUEST.json
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from common.system.start import begin_side

    begin_side("paddle", __doc__)

from common.sides import paddle_side as side
from common.sides.worker import cases_with_decoding, main


def forward(run):
    """Log one case's inputs and outputs of every module, named intermediates and outputs."""
    model = run.build()
    run.log_constants()
    before = run.buffers(model)
    with run.no_gradients(), side.probing(model):
        if run.case.decode:
            decode(run, model, run.tensors()["input_ids"])
            return
        outputs = run.call(model, run.tensors())
    run.log_nested("", outputs, whole=True)
    run.log_buffers(model, before)


def decode(run, model, ids):
    """Log the same of a prompt, then of each token behind it, with a cache of those before it.

    ids (B, T) int64, of which the last `run.case.decode` come one by one.
    """
    cache = None
    for end in range(ids.shape[1] - run.case.decode, ids.shape[1] + 1):
        run.session.begin(prefix=f"{run.prefix}token_{end}/")
        tokens = ids[:, :end] if cache is None else ids[:, end - 1 : end]
        inputs = {"input_ids": tokens, "past_buckets_states": cache, "use_cache": True}
        outputs = run.log_nested(f"token_{end}", run.call(model, inputs))
        cache = outputs["past_buckets_states"]


if __name__ == "__main__":
    sys.exit(main(side, "forward_all", forward, cases=cases_with_decoding, sums=True))
