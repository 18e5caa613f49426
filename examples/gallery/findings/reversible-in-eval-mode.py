"""The gradient of a Reformer of reformer-pytorch in eval and in train mode."""

import sys

import torch
from reformer_pytorch import ReformerLM

model = ReformerLM(num_tokens=20, dim=16, depth=2, max_seq_len=16, heads=2, bucket_size=4)
tokens = torch.arange(16)[None]
failed = []
for training in (False, True):
    model.train(training)
    try:
        model(tokens).sum().backward()
        said = "has a gradient"
    except TypeError as error:
        failed.append(training)
        said = f"TypeError: {error}"
    print("train mode:" if training else "eval mode:", said)
sys.exit(failed == [False])
