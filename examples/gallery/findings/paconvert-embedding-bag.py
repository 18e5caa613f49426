"""Torch has a layer EmbeddingBag, Paddle none."""

import sys

import paddle
import torch

print("torch ", hasattr(torch.nn, "EmbeddingBag"))
print("paddle", hasattr(paddle.nn, "EmbeddingBag"))
sys.exit(not hasattr(paddle.nn, "EmbeddingBag"))
