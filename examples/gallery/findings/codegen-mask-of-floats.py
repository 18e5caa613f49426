"""GPT-J and CodeGen of PaddleNLP 2.8.1: whether they run on this Paddle."""

import paddle
from paddlenlp import transformers

sizes = dict(vocab_size=60, n_embd=32, n_layer=1, n_head=4, n_positions=8, rotary_dim=4)
tokens = paddle.to_tensor([[7, 8, 9]])
broken = False
for name in ("GPTJ", "CodeGen"):
    more = dict(n_ctx=8) if name == "CodeGen" else {}
    config = getattr(transformers, f"{name}Config")(bos_token_id=1, eos_token_id=2, **sizes, **more)
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    try:
        model(tokens, attention_mask=paddle.ones_like(tokens))
        print(f"{name}: it runs")
    except ValueError as error:
        print(f"{name}: {str(error).splitlines()[0]}")
        broken = True
raise SystemExit(int(broken))
