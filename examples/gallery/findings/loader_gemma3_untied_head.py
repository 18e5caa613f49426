"""Gemma 3 with an output layer of its own, read from a folder by PaddleFormers."""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from paddleformers.transformers import Gemma3ForCausalLM
from safetensors.numpy import save_file

C, H, D, F, V = 16, 2, 8, 24, 30
CONFIG = {
    "model_type": "gemma3_text",
    "vocab_size": V,
    "hidden_size": C,
    "intermediate_size": F,
    "num_hidden_layers": 1,
    "num_attention_heads": H,
    "num_key_value_heads": 1,
    "head_dim": D,
    "layer_types": ["full_attention"],
    "tie_word_embeddings": False,
    "dtype": "float32",
}
LAYER = {
    "self_attn.q_proj": (H * D, C),
    "self_attn.k_proj": (D, C),
    "self_attn.v_proj": (D, C),
    "self_attn.o_proj": (C, H * D),
    "self_attn.q_norm": (D,),
    "self_attn.k_norm": (D,),
    "mlp.gate_proj": (F, C),
    "mlp.up_proj": (F, C),
    "mlp.down_proj": (C, F),
    **dict.fromkeys(("input_layernorm", "post_attention_layernorm"), (C,)),
    **dict.fromkeys(("pre_feedforward_layernorm", "post_feedforward_layernorm"), (C,)),
}
shapes = {f"model.layers.0.{name}.weight": shape for name, shape in LAYER.items()}
shapes |= {"model.embed_tokens.weight": (V, C), "model.norm.weight": (C,)}
state = {key: np.zeros(shape, np.float32) for key, shape in shapes.items()}
state["model.embed_tokens.weight"] += 1
state["lm_head.weight"] = np.full((V, C), 2, np.float32)
with tempfile.TemporaryDirectory() as folder:
    save_file(state, Path(folder, "model.safetensors"), metadata={"format": "pt"})
    Path(folder, "config.json").write_text(json.dumps(CONFIG))
    model = Gemma3ForCausalLM.from_pretrained(folder)
found = float(model.lm_head.weight[0, 0])
print("lm_head.weight in the folder ", 2.0)
print("lm_head.weight once it is read", found)
sys.exit(found != 2.0)
