"""Step 1, paddle side: run the model once and log every probe and every output.

python -m step1_forward.paddle.forward --model reformer --out FOLDER
"""

import sys

import paddle

from common import paddle_side as side
from common.twin import main


def forward(run):
    """Log one case's inputs and outputs of every module, named intermediates and outputs."""
    model = run.build()
    with paddle.no_grad(), side.probing(model):
        outputs = run.call(model, run.tensors())
    run.log_nested("", outputs)


if __name__ == "__main__":
    sys.exit(main(side, "forward", forward))
