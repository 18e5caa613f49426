"""The operator by which PaddleFormers' ERNIE 4.5 counts its experts, on a CPU."""

import sys

import paddle
from paddle.incubate.nn.functional import expand_modality_expert_id

paddle.set_device("cpu")
try:
    expert = paddle.to_tensor([[0, 1]])
    print("paddle", expand_modality_expert_id(expert, 0, 4, 0, False).tolist())
except RuntimeError as error:
    print("paddle", next(line for line in str(error).splitlines() if "NotFound" in line))
    sys.exit(1)
