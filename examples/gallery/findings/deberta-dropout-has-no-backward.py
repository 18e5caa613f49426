"""The dropout of PaddleNLP's DeBERTa and DeBERTa-v2 in train mode: its gradient."""

import paddle
from paddlenlp.transformers.deberta import modeling as deberta
from paddlenlp.transformers.deberta_v2 import modeling as deberta_v2

broken = False
for package in (deberta, deberta_v2):
    dropout = package.StableDropout(0.5)
    dropout.train()
    value = paddle.ones([2, 4])
    value.stop_gradient = False
    dropped = dropout(value)
    try:
        dropped.sum().backward()
        print(f"{package.__name__}: {value.grad.tolist()}")
    except ValueError as error:
        broken = True
        print(f"{package.__name__}: {error}")
raise SystemExit(int(broken))
