"""PaddleNLP's own Reformer on a converted folder, held against a check's logs of the same weights.

    PYTHON tests/reference_paddlenlp.py FOLDER LOGS

FOLDER/converted is what `converter` wrote with --to paddle; LOGS are step 4's.  Loads it with
from_pretrained, compares the logits in float64, and saves it as `FOLDER/saved by PaddleNLP`.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

import numpy as np  # noqa: E402
import paddle  # noqa: E402
from paddlenlp.transformers import ReformerModelWithLMHead  # noqa: E402

from twincheck.common.logs.reader import read_log  # noqa: E402
from twincheck.common.models.reformer import case  # noqa: E402
from twincheck.common.system.json_file import load_json  # noqa: E402


def main(folder, logs):
    """See the module's docstring; an assertion fails where the logits differ."""
    config = case.published(load_json(folder / "converted" / "config.json"))
    inputs = case.make_inputs(config, 0, **case.published_inputs(config, False))
    with read_log(logs / "bp_align_all_torch_fp64.npy") as log:
        expected = log["logits"]
        drawn = iter([log[key] for key in log if key.endswith("self_attention.hash_rotations")])
    model = ReformerModelWithLMHead.from_pretrained(str(folder / "converted"))
    model.save_pretrained(str(folder / "saved by PaddleNLP"))
    model.to(dtype="float64")
    model.eval()
    paddle.set_default_dtype("float64")
    paddle.randn = lambda shape, dtype=None: paddle.to_tensor(next(drawn))
    with paddle.no_grad():
        outputs = model(input_ids=paddle.to_tensor(inputs["input_ids"]))
    logits = outputs[0] if isinstance(outputs, list | tuple) else outputs
    difference = np.abs(logits.numpy() - expected).max() / np.abs(expected).max()
    print(f"PaddleNLP: logits differ by {difference:.1e} of their largest value")
    assert difference <= 1e-12


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
