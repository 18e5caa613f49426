"""T5 of PaddleNLP: whether the largest distance of its configuration changes anything."""

import numpy as np
import paddle
from paddlenlp.transformers import T5Config
from paddlenlp.transformers.t5.modeling import T5Attention

found = []
for largest in (8, 128):
    paddle.seed(0)
    sizes = dict(d_model=8, d_kv=4, num_heads=2, relative_attention_num_buckets=8)
    config = T5Config(relative_attention_max_distance=largest, **sizes)
    config.is_decoder = False
    attention = T5Attention(config, has_relative_attention_bias=True)
    found.append(attention.compute_bias(16, 16).numpy())
    print(f"largest distance {largest:3}: {found[-1][0, 0, 0].round(3).tolist()}")
raise SystemExit(int(np.array_equal(*found)))
