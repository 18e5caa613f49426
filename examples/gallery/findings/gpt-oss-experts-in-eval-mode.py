"""GPT-OSS's experts in PaddleFormers: eval mode weighs a token's experts by other tokens' weights.

One layer, two tokens, two experts, no dropout: train and eval mode must give the same.
"""

import numpy as np
import paddle
from paddleformers.transformers import GptOssConfig
from paddleformers.transformers.gpt_oss.modeling import GptOssExperts

config = GptOssConfig(
    hidden_size=4, intermediate_size=4, num_local_experts=2, num_experts_per_tok=1
)
experts = GptOssExperts(config)
rng = np.random.default_rng(0)
for weight in experts.parameters():
    weight.set_value(rng.standard_normal(weight.shape).astype("float32"))

tokens = paddle.to_tensor(rng.standard_normal((1, 2, 4)).astype("float32"))
routed = dict(
    router_indices=paddle.to_tensor([[0], [0]]),  # both tokens go to expert 0
    routing_weights=paddle.to_tensor([[1.0, 0.0], [1.0, 0.0]]),  # (tokens, experts)
)
found = {}
for mode in ("train", "eval"):
    getattr(experts, mode)()
    found[mode] = experts(tokens, **routed).numpy()
    print(f"{mode:5} {found[mode].reshape(2, 4).round(4).tolist()}")
raise SystemExit(int(np.abs(found["train"] - found["eval"]).max() > 1e-5))
