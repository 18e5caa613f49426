"""How wide an Embedding is: torch's says it, Paddle's has no such attribute."""

import sys

import paddle
import torch

print("torch ", torch.nn.Embedding(2, 3).embedding_dim)
print("paddle", getattr(paddle.nn.Embedding(2, 3), "embedding_dim", "no attribute"))
sys.exit(not hasattr(paddle.nn.Embedding(2, 3), "embedding_dim"))
