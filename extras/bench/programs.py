"""What is timed: each function builds one model or task and returns the step that is repeated.

They run in a side's own process (extras/bench/side.py), ours and the peers', whose packages are
imported and never copied.  A setting is a dict; what it does not say is the default here.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

VOCABULARY = 320
# Of google/reformer-crime-and-punishment, but for the lengths; dropout 0, which each draws its way.
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 256,
    "num_attention_heads": 2,
    "attention_head_size": 64,
    "feed_forward_size": 512,
    "hidden_act": "relu",
    "is_decoder": True,
    "local_attn_chunk_length": 64,
    "lsh_attn_chunk_length": 64,
    "num_buckets": [16, 16],
    "axial_pos_embds": True,
    "axial_pos_embds_dim": [64, 192],
    "hidden_dropout_prob": 0.0,
    "local_attention_probs_dropout_prob": 0.0,
    "lsh_attention_probs_dropout_prob": 0.0,
}
Step = Callable[[], None]


def reformer_config(tokens: int, layers: int = 6, hashes: int = 1) -> dict:
    """The configuration for one sequence of so many tokens, a power of two, and how deep it is."""
    rows = 1 << (tokens.bit_length() - 1) // 2
    return SHAPE | {
        "attn_layers": (["local", "lsh"] * layers)[:layers],
        "num_hidden_layers": layers,
        "num_hashes": hashes,
        "axial_pos_shape": [rows, tokens // rows],
        "max_position_embeddings": tokens,
    }


def token_ids(tokens: int) -> np.ndarray:
    """(1, tokens) int64, the same for everybody."""
    return np.random.default_rng(0).integers(0, VOCABULARY, (1, tokens))


# ---- the Reformer: forward, loss of a language model, backward ----------------------------------


def reformer_torch(**setting) -> Step:
    """Our torch twin."""
    return _twin("torch", **setting)


def reformer_paddle(**setting) -> Step:
    """Our Paddle twin."""
    return _twin("paddle", **setting)


def _twin(side_name: str, tokens: int, **setting) -> Step:
    import importlib

    from twincheck.common.sides.session import current

    side = importlib.import_module(f"twincheck.common.sides.backend_{side_name}").side
    module = importlib.import_module(f"twincheck.common.models.reformer.{side_name}_model")
    side.set_up("float32", "cpu", 0)
    if side_name == "paddle":  # as a check has it
        side.compute_quickly(True)
    model = module.build(reformer_config(tokens, **setting) | {"head": "lm"})
    model.train()
    ids = side.tensor(token_ids(tokens))
    inputs = {"input_ids": ids, "labels": ids}

    def step() -> None:
        current().begin()
        side.clear_gradients(model)
        module.loss(model(ids), inputs).backward()

    return step


def transformers(tokens: int, **setting) -> Step:
    """transformers' Reformer, in torch."""
    import torch
    from transformers import ReformerConfig, ReformerModelWithLMHead
    from transformers import logging as their_logging

    their_logging.set_verbosity_error()
    torch.manual_seed(0)
    model = ReformerModelWithLMHead(ReformerConfig(**reformer_config(tokens, **setting))).train()
    ids = torch.as_tensor(token_ids(tokens))

    def step() -> None:
        model.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()

    return step


def paddlenlp(tokens: int, **setting) -> Step:
    """PaddleNLP's Reformer, which wants a mask to train."""
    import paddle
    from paddlenlp.transformers import ReformerConfig, ReformerModelWithLMHead

    paddle.seed(0)
    model = ReformerModelWithLMHead(ReformerConfig(**reformer_config(tokens, **setting)))
    model.train()
    ids = paddle.to_tensor(token_ids(tokens))
    mask = paddle.ones_like(ids)

    def step() -> None:
        model.clear_gradients()
        model(input_ids=ids, attention_mask=mask, labels=ids)[0].backward()

    return step


def reformer_pytorch(tokens: int, layers: int = 6, hashes: int = 1) -> Step:
    """lucidrains' Reformer, which has LSH attention in all layers, as wide, deep and long."""
    import torch
    from reformer_pytorch import ReformerLM
    from torch.nn import functional

    torch.manual_seed(0)
    rows = 1 << (tokens.bit_length() - 1) // 2
    model = ReformerLM(
        num_tokens=VOCABULARY,
        dim=SHAPE["hidden_size"],
        depth=layers,
        heads=SHAPE["num_attention_heads"],
        dim_head=SHAPE["attention_head_size"],
        max_seq_len=tokens,
        bucket_size=SHAPE["lsh_attn_chunk_length"],
        n_hashes=hashes,
        ff_mult=SHAPE["feed_forward_size"] // SHAPE["hidden_size"],
        causal=True,
        axial_position_emb=True,
        axial_position_shape=(rows, tokens // rows),
        ff_chunks=1,
        ff_activation=torch.nn.ReLU,
    ).train()
    ids = torch.as_tensor(token_ids(tokens))

    def step() -> None:
        model.zero_grad()
        logits = model(ids)[:, :-1].reshape(-1, VOCABULARY)
        functional.cross_entropy(logits, ids[:, 1:].reshape(-1)).backward()

    return step


# ---- two logs ------------------------------------------------------------------------------------


def judging(arrays: int, megabytes: float) -> Step:
    """Two logs by this workbench: every statistic of the verdict, a float32 pair."""
    logs = _logs(arrays, megabytes)
    from twincheck.common.verdict.judge import judge_logs

    def step() -> None:
        rows = judge_logs(*logs).rows
        assert [row.verdict for row in rows] == ["CLOSE"] * arrays

    return step


def reprod_log(arrays: int, megabytes: float) -> Step:
    """The same logs by reprod_log: mean, max and min."""
    logs = _logs(arrays, megabytes)
    from reprod_log import ReprodDiffHelper

    def step() -> None:
        helper = ReprodDiffHelper()
        helper.compare_info(*(helper.load_info(str(path)) for path in logs))
        with tempfile.TemporaryDirectory() as folder:
            helper.report(path=str(Path(folder) / "diff.txt"))

    return step


def _logs(arrays: int, megabytes: float) -> list[Path]:
    """Two logs beside the request, which differ in the last bits; made once, whoever asks first."""
    from twincheck.common.logs.sidecar import Sidecar, write_sidecar
    from twincheck.common.logs.writer import LogWriter

    folder = Path(os.environ["BENCH_FOLDER"])
    logs = [folder / f"{side}_{arrays}_{megabytes:g}.npy" for side in ("torch", "paddle")]
    values = np.random.default_rng(0).standard_normal(int(megabytes * 250_000)).astype(np.float32)
    for side, log in zip(("torch", "paddle"), logs, strict=True):
        if log.is_file():
            continue
        with LogWriter(log) as writer:
            for number in range(arrays):
                off = np.float32(1e-7 * (side == "paddle"))
                writer.add(f"tensor_{number:03}", np.roll(values, number) + off)
        write_sidecar(log, Sidecar(side=side, dtype="float32"))
    return logs


def build(program: str, setting: dict) -> Step:
    """The step of "function" here, or of "module:function"."""
    module, _, function = program.rpartition(":")
    if not module:
        return getattr(sys.modules[__name__], function)(**setting)
    import importlib

    return getattr(importlib.import_module(module), function)(**setting)
