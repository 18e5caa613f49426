"""Step 1, torch side: run the model once and log every probe and every output.

python -m step1_forward.torch.forward --model reformer --out FOLDER
"""

import sys

import torch

from common import torch_side as side
from common.twin import main


def forward(run):
    """Log one case's inputs and outputs of every module, named intermediates and outputs."""
    model = run.build()
    with torch.no_grad(), side.probing(model):
        outputs = run.call(model, run.tensors())
    run.log_nested("", outputs)


if __name__ == "__main__":
    sys.exit(main(side, "forward", forward))
