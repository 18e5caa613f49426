"""OPT of PaddleNLP: the position of a masked token behind the others; transformers gives it -1."""

import paddle
from paddlenlp.transformers.opt.modeling import OPTLearnedPositionEmbedding

table = OPTLearnedPositionEmbedding(4, 1, 0.02)
table.weight.set_value(paddle.arange(-2, 4, dtype="float32").reshape([6, 1]))  # a row's position
found = table(paddle.to_tensor([[1, 1, 1, 0]])).reshape([4]).astype("int64").tolist()
print("transformers", [0, 1, 2, -1])
print("PaddleNLP   ", found)
raise SystemExit(int(found != [0, 1, 2, -1]))
