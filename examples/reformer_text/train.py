"""Train a small byte-level Reformer on real text, for weights that training made.

    python examples/reformer_text/train.py [--steps 200] [--out checkpoint.npz]
    python -m common.depth --preset text --weights checkpoint.npz

12 layers, local and LSH in enwik8's order, width 256, on the text of Python's own help.  Torch
alone; the checkpoint (32 MB) has torch's names and is read by every step's --weights.
"""

import argparse
import math
import sys
from pathlib import Path

# So that `common` is found from any folder.
sys.path[0] = str(Path(__file__).resolve().parents[2])

import numpy as np  # noqa: E402
import torch  # noqa: E402

from common import report, weights  # noqa: E402
from common import torch_side as side  # noqa: E402
from common.data import text  # noqa: E402
from common.pairs import load_pair  # noqa: E402

BATCH, TOKENS = 4, 256
RATE, WARM_UP, CLIP = 2e-3, 30, 1.0


def batches(seed):
    """(BATCH, TOKENS) ids of bytes from random places of the text, without end."""
    stored = text()["values"]
    rng = np.random.default_rng(seed)
    while True:
        starts = rng.integers(0, len(stored) - TOKENS, BATCH)
        yield np.stack([stored[start : start + TOKENS] for start in starts])


def main():
    """See the module's docstring; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("checkpoint.npz"))
    options = parser.parse_args()
    pair = load_pair("reformer")
    model_file = pair.side("torch")
    side.set_up("float32", "cpu", options.seed)
    model = model_file.build(pair.config("text"))
    rule = torch.optim.Adam(model.parameters(), lr=RATE)
    with report.progress() as on_progress:
        for step, ids in zip(range(options.steps), batches(options.seed), strict=False):
            for group in rule.param_groups:
                group["lr"] = RATE * min(1.0, (step + 1) / WARM_UP)
            ids = torch.tensor(ids)
            loss = model_file.loss(model(input_ids=ids), {"labels": ids})
            rule.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            rule.step()
            bits = loss.item() / math.log(2.0)
            on_progress(f"step {step + 1} of {options.steps}: {bits:.2f} bits a byte")
            if (step + 1) % 50 == 0 or step + 1 == options.steps:
                print(f"step {step + 1}: {bits:.2f} bits a byte", flush=True)
    weights.save_state(options.out, side.state(model))
    return 0


if __name__ == "__main__":
    sys.exit(main())
