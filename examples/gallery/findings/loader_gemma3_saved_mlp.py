"""What a Gemma 3 of PaddleFormers with two layers calls its feed-forward weights once saved."""

import json
import sys
import tempfile
from pathlib import Path

from paddleformers.transformers import Gemma3ForCausalLM, Gemma3TextConfig

config = Gemma3TextConfig(
    vocab_size=30,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=8,
    layer_types=["full_attention", "full_attention"],
    dtype="float32",
)
with tempfile.TemporaryDirectory() as folder:
    Gemma3ForCausalLM(config).save_pretrained(folder)
    index = json.loads(Path(folder, "model.safetensors.index.json").read_text())
names = sorted(name for name in index["weight_map"] if ".mlp." in name)
for i in (0, 1):
    print(f"layer {i}:", [name for name in names if f"layers.{i}." in name])
sys.exit("model.layers.1.mlp.gate_proj.weight" not in names)
