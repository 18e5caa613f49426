"""Another trainer of the small language model, in plain torch: each gap is a habit of its own.

Nothing of the workbench's loop is in it: torch's optimizers, clipping and schedulers.

    python other_trainer.py WEIGHTS.npz ORDERS.npy FOLDER GAP …
"""

import csv
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "small_lm"))

import case
import numpy as np
import torch
import torch_model
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR

EPOCHS, SIZE, WARMUP = 4, 16, 4


def groups_of(model, decay):
    named = list(model.named_parameters())
    return [
        {"params": [p for _, p in named if p.ndim > 1], "weight_decay": decay},
        {"params": [p for _, p in named if p.ndim <= 1], "weight_decay": 0.0},
    ]


def optimizer_of(model, gap):
    lr, decay = 1e-2, 0.1
    if "everything decays" in gap:
        return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=decay)
    if "coupled decay" in gap:
        return torch.optim.Adam(groups_of(model, decay), lr=lr)
    if "betas" in gap:
        return torch.optim.AdamW(groups_of(model, decay), lr=lr, betas=(0.9, 0.95))
    if "epsilon" in gap:
        return torch.optim.AdamW(groups_of(model, decay), lr=lr, eps=1e-6)
    return torch.optim.AdamW(groups_of(model, decay), lr=lr)


def factor_of(gap, total):
    def factor(step):
        shown = step if "warm-up from zero" in gap else step + 1
        if step < WARMUP:
            return shown / WARMUP
        return max(0.0, (total - step) / (total - WARMUP))

    return factor


def clip(model, gap):
    if "not clipped" in gap:
        return
    if "each tensor clipped" in gap:
        for value in model.parameters():
            torch.nn.utils.clip_grad_norm_([value], 0.5)
    else:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)


def loss_of(logits, labels, gap):
    if "labels shifted" in gap:
        logits, labels = logits[:, :-1], labels[:, 1:]
    if "bfloat16 loss" in gap:
        logits = logits.bfloat16()
    flat = logits.flatten(0, 1), labels.flatten()
    if "ignored tokens counted" in gap:
        return F.cross_entropy(*flat, reduction="sum") / labels.numel()
    if "summed by rows" in gap:
        return F.cross_entropy(*flat, reduction="sum") / len(labels)
    if "labels smoothed" in gap:
        return F.cross_entropy(*flat, label_smoothing=0.1)
    return F.cross_entropy(*flat).float()


def gradients(model, ids, labels, gap):
    """Backward on a batch; returns the loss that this trainer logs."""
    if "accumulation summed" in gap:
        found = []
        for part in range(0, len(ids), 4):
            rows = slice(part, part + 4)
            loss = loss_of(model(ids[rows])["logits"], labels[rows], gap)
            loss.backward()
            found.append(loss.item())
        return sum(found) / len(found)
    if "means of ranks" in gap:
        ranks = [slice(rank, None, 4) for rank in range(4)]
        losses = [loss_of(model(ids[rows])["logits"], labels[rows], gap) for rows in ranks]
        loss = torch.stack(losses).mean()
    else:
        loss = loss_of(model(ids)["logits"], labels, gap)
    loss.backward()
    return loss.item()


def round_weights(model):
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(value.bfloat16().float())


def train(state, orders, gap):
    """The losses of all steps."""
    data = case.make_data(case.CONFIGS["default"], 0)["train"]
    ids, labels = (torch.tensor(data[name]) for name in ("input_ids", "labels"))
    model = torch_model.build(case.CONFIGS["default"])
    model.load_state_dict({name: torch.tensor(values) for name, values in state.items()})
    if "no master weights" in gap:
        round_weights(model)
    if "embedding frozen" in gap:
        model.embed.weight.requires_grad_(False)
    optimizer = optimizer_of(model, gap)
    per_epoch = -(-len(ids) // SIZE)
    schedule = LambdaLR(optimizer, factor_of(gap, EPOCHS * per_epoch))
    losses = []
    for epoch in range(EPOCHS):
        order = np.arange(len(ids)) if "not shuffled" in gap else orders[epoch]
        if "one order" in gap:
            order = orders[0]
        for begin in range(0, len(ids), SIZE):
            rows = torch.tensor(order[begin : begin + SIZE])
            losses.append(gradients(model, ids[rows], labels[rows], gap))
            clip(model, gap)
            optimizer.step()
            if "never cleared" not in gap:
                optimizer.zero_grad()
            if "no master weights" in gap:
                round_weights(model)
            if "schedule by epoch" not in gap:
                schedule.step()
        if "schedule by epoch" in gap:
            schedule.step()
    return losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    weights, orders, folder, *gaps = sys.argv[1:]
    state = dict(np.load(weights))
    for gap in gaps:
        with open(Path(folder) / f"{gap}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["step", "loss"])
            losses = train(state, np.load(orders), gap.split(" + "))
            losses = losses["first step not logged" in gap :]
            losses = [loss * (1.005 if "half a per cent" in gap else 1.0) for loss in losses]
            writer.writerows([step, f"{loss:.7f}"] for step, loss in enumerate(losses, 1))
