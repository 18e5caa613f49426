"""Checkpoints as transformers writes them, and both twins held against transformers itself."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
from builders import python
from checkout import CHECKS, ROOT, Checkout

from twincheck.common.logs.reader import read_log
from twincheck.common.pair.pairs import load_pair
from twincheck.common.weights.checkpoint import configured

HEADS = {
    "none": "ReformerModel",
    "lm": "ReformerModelWithLMHead",
    "masked_lm": "ReformerForMaskedLM",
    "classification": "ReformerForSequenceClassification",
    "question_answering": "ReformerForQuestionAnswering",
}
TINY = {
    "attn_layers": ["lsh", "local"],
    "num_attention_heads": 2,
    "attention_head_size": 16,  # so that the projections are square: a transpose must be seen
    "hidden_size": 32,
    "feed_forward_size": 48,
    "vocab_size": 60,
    "axial_pos_shape": [6, 8],
    "axial_pos_embds_dim": [8, 24],
    "max_position_embeddings": 48,
    "lsh_attn_chunk_length": 4,
    "local_attn_chunk_length": 8,
    "num_buckets": [2, 4],
    "num_hashes": 2,
    "hidden_act": "gelu",
    "initializer_range": 0.1,
}
ALLOWED = 1e-12  # of a tensor's largest value
TIMEOUT_S = 900


def transformers(folder, *tasks):
    """Do tasks of reference_transformers.py; what it answers to each."""
    request = Path(folder) / "request.json"
    request.write_text(json.dumps(tasks))
    script = str(Path(__file__).with_name("reference_transformers.py"))
    python(script, str(request), warm=True, timeout=TIMEOUT_S)
    return json.loads(request.with_suffix(".answer.json").read_text())


def command(*arguments, root=ROOT):
    """Run a check or a module from a checkout's root."""
    return subprocess.run(
        [*Checkout.interpreter, *map(str, arguments)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


def check(step, weights, out, *more, root=ROOT):
    """Run a step of the Reformer on a checkpoint; (process, folder of its logs)."""
    options = ("--model", "reformer", "--weights", weights, "--no-report", "--out", out)
    done = command(CHECKS[step], *options, *more, root=root)
    return done, Path(out) / Path(CHECKS[step]).parent / "reformer"


CLEAN = {"missing_keys": [], "unexpected_keys": [], "error_msgs": []}


def differences(head, folder, logs, work):
    """Side -> tensor -> difference between a twin and transformers in float64 (see `relative`).

    folder   the checkpoint, as transformers reads it
    logs     step 4's, of a check of the same checkpoint
    """
    sidecar = json.loads((logs / "bp_align_all_torch_fp64.json").read_text())
    with read_log(logs / "bp_align_all_torch_fp64.npy") as log:
        drawn = [log[key] for key in log if key.endswith("self_attention.hash_rotations")]
    arrays = made_inputs(folder, sidecar["preset"], sidecar["seed"])
    answer = of_transformers(head, folder, arrays, drawn, work)
    found = {}
    for side in ("torch", "paddle"):
        with read_log(logs / f"bp_align_all_{side}_fp64.npy") as log:
            found[side] = relative({key: log[key] for key in answer}, answer)
    return found


def of_transformers(head, folder, arrays, rotations, work):
    """Outputs, loss and gradients of transformers' own model of a checkpoint, in float64."""
    np.savez(work / "rotations.npz", **{str(i): values for i, values in enumerate(rotations)})
    np.savez(work / "inputs.npz", **arrays)
    task = {"do": "run", "architecture": HEADS[head], "folder": str(folder)}
    task |= {name: str(work / f"{name}.npz") for name in ("inputs", "rotations", "answer")}
    (told,) = transformers(work, task)
    assert told["loading"] == CLEAN
    with np.load(work / "answer.npz") as answer:
        return {key: answer[key] for key in answer.files}


def relative(ours, theirs):
    """Tensor -> max |ours - theirs| / its scale: its largest value, of a gradient at least 1e-3 of
    the largest gradient (what moves all positions' logits alike has none but rounding)."""
    largest = max(np.abs(values).max() for key, values in theirs.items() if key.startswith("grad/"))
    found = {}
    for key, values in theirs.items():
        assert ours[key].shape == values.shape and np.isfinite(ours[key]).all(), key
        scale = max(np.abs(values).max(), 1e-3 * largest if key.startswith("grad/") else 0.0)
        found[key] = float(np.abs(ours[key] - values).max() / scale)
    return found


def worst(found):
    """(tensor, difference) of the largest on either side."""
    return max((item for side in found.values() for item in side.items()), key=lambda item: item[1])


def made_inputs(folder, preset, seed):
    """The arrays that a check of a checkpoint feeds to both sides."""
    pair, _ = configured(load_pair("reformer"), str(folder), preset, False)
    (case,) = pair.cases(preset)
    return pair.make_inputs(case, seed)
