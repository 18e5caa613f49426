"""Partial rotary positions; query, key, value and gate, up fused on one side; float32 casts."""

import numpy as np

CONFIGS = {"default": {"words": 30, "width": 16, "heads": 2, "inner": 20, "layers": 2, "turned": 4}}


def convert(state):
    """The port keeps apart what the reference has fused."""
    made, width, inner = {}, 16, 20
    for i in range(2):
        qkv = state[f"layers.{i}.attn.qkv_proj.weight"]
        for j, name in enumerate("qkv"):
            rows = qkv[j * width : (j + 1) * width]
            made[f"layers.{i}.attn.{name}_proj.weight"] = rows.T
        gate_up = state[f"layers.{i}.gate_up.weight"]
        made[f"layers.{i}.gate.weight"] = gate_up[:inner].T
        made[f"layers.{i}.up.weight"] = gate_up[inner:].T
    return made


def make_inputs(config, seed):
    """input_ids (B, T)"""
    return {"input_ids": np.random.default_rng(seed).integers(0, config["words"], (2, 8))}
