"""The reference's training with one thing in it done otherwise: the losses of its first steps.

The loop is step 5's own: its model, start, batches and optimizer.  With no change it gives step 5's
losses bit for bit.  The request's folder has changes.json: {"steps": N, "changes": {name: change}};
told.json has what the model or the data has no place for, left_out {name: why}, and the names of
its weights and dropouts.  A change is a mapping; what each entry does:

settings   entries of case.py's `optimizer`
order      of the samples: "in turn", "backwards", "each epoch alike", "from one" (epochs counted
           from 1), or another seed
parts      {count, rows, loss, shown}: the batch in so many parts (0: each row), of rows that are
           "together" (as micro-batches) or "apart" (as ranks take them), with the parts' losses
           "mean" or "sum"; `shown`: what is logged of them, "mean", "sum" or "first"
every      {count, loss}: an update after so many batches, of their losses' "mean" or "sum"
labels     "next", "previous": one place further along the last axis; "ids": of places that are
           ignored, the ids that the model reads
factor     of the loss that gradients are taken of; and of the logged one, too: "places" (as if
           ignored places counted), "labels" (a sum over those that count), "rows" (over these)
shown      of the logged loss: a factor, "so far" (the mean of all) or "after" (the update)
smoothing  of the labels
logits     rounded to bfloat16: "lowered" (and the loss is computed in it) or "rounded"
total      for so many steps the schedule is made
half       "activations" (autocast), "weights" (no master weights) or "copies" (of master weights)
mode       "evaluated", or "no dropout"
undropped  names of dropout layers that drop nothing
draws      "each step alike" or "a step later"
clip       {norm, of}: "value" (each element), "each" (tensor by itself), "decayed" (the norm of
           these alone), "parts" (each micro-batch before they are added)
decayed    "all", "none", or a part of a name that does not decay
rule       flags of `Rule`
rate       (name, number) of RATES
frozen     the beginning of the names that do not learn
kept       gradients are cleared after so many steps alone
ahead      so many first steps are not logged
skipped    so many first steps without an update
made_of    how many of the other training's losses the change was made of: it agrees with those
"""

import re
from contextlib import nullcontext

import numpy as np
import torch

from twincheck.common.pair.case_hooks import data_cases, training
from twincheck.common.pair.data import LABELS
from twincheck.common.pair.tape import Tape
from twincheck.common.sides.loader import Samples, batches
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.tree import tree_map
from twincheck.extras.shared.one_case import asked_precision
from twincheck.step5_train.train import batches_of, prepared, shuffled

IGNORED = -100
WHOLE = {"count": 1, "rows": "together", "loss": "mean", "shown": "mean"}
# Name -> the step whose rate is taken at a step; number: what the name is about.
RATES = {
    "early": lambda step, number, per_epoch: step + number,
    "late": lambda step, number, per_epoch: max(0, step - number),
    "often": lambda step, number, per_epoch: step * number,
    "seldom": lambda step, number, per_epoch: step // number,
    "by epoch": lambda step, number, per_epoch: step // per_epoch,
    "at epochs": lambda step, number, per_epoch: step // per_epoch * per_epoch,
}


class Rule(torch.optim.Optimizer):
    """Adam, AdamW or SGD, written out: each flag is one way in which trainers' rules differ."""

    def __init__(self, groups, lr, betas, **flags):
        usual = {"kind": "adam", "lr": lr, "betas": betas, "eps": 1e-8, "weight_decay": 0.0}
        usual |= {"coupled": False, "corrected": True, "inside": False, "by_rate": True}
        usual |= {"momentum": 0.9, "nesterov": False, "dampening": 0.0}
        super().__init__(groups, usual | flags)

    @torch.no_grad()
    def step(self):
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            for value in group["params"]:
                if value.grad is not None:
                    self._update(value, group, self.state[value])

    def _update(self, value, group, state):
        gradient, decay, lr = value.grad, group["weight_decay"], group["lr"]
        if decay and group["coupled"]:
            gradient = gradient + decay * value
        elif decay:
            value.mul_(1 - (lr if group["by_rate"] else 1.0) * decay)
        step = state["step"] = state.get("step", 0) + 1
        if group["kind"] == "sgd":
            held = state.get("velocity")
            share = 1.0 if held is None else 1.0 - group["dampening"]
            held = gradient * share if held is None else held * group["momentum"] + gradient * share
            state["velocity"] = held
            value.sub_(lr * (gradient + group["momentum"] * held if group["nesterov"] else held))
            return
        first, second = group["betas"]
        for name, kept, new in (("m", first, gradient), ("v", second, gradient * gradient)):
            state[name] = state.get(name, torch.zeros_like(value)) * kept + new * (1 - kept)
        ones = (1 - first**step, 1 - second**step) if group["corrected"] else (1.0, 1.0)
        m, v, eps = state["m"] / ones[0], state["v"] / ones[1], group["eps"]
        value.sub_(lr * m / ((v + eps).sqrt() if group["inside"] else v.sqrt() + eps))


class Retrained:
    """One training: `losses` are those of its first steps."""

    def __init__(self, run, settings, change, total, twin=0):
        """`settings` are the pair's; `total` steps are what the schedule is made for.

        twin   the number of a self-twin (step5_train/train.py); 0: none
        """
        self.run, self.change = run, change
        self.settings = settings | change.get("settings", {})
        self.samples = run.samples("train")
        per_epoch = batches_of(self.samples, self.settings)
        self.per_epoch = per_epoch
        total = change.get("total", total)
        self.model, self.optimizer = prepared(run, self.settings, total, per_epoch, twin)
        named = run.parameters(self.model)
        self.parameters = dict(named)
        self.decayed = self._decayed()
        self._change_rule(named)
        self._change_rate()
        if change.get("mode"):
            self.model.eval()
        if change.get("mode") == "no dropout":
            for module in self.model.modules():
                if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                    module.train()
        for name, module in dropouts(self.model):
            if name in change.get("undropped", ()):
                module.p = 0.0
        self.masters = {}
        if change.get("half") in ("weights", "copies"):
            self._round_weights()

    def losses(self, steps):
        """Train, and return the losses as they are logged of the first `steps` steps."""
        found, seen = [], []
        steps += self.change.get("ahead", 0)
        every = self.change.get("every", {"count": 1})["count"]
        while len(found) < steps:
            for batch in self._batches(len(found)):
                step = len(found)
                begin = 0 if self.change.get("draws") == "each step alike" else step
                later = self.change.get("draws") == "a step later"
                self.run.session.begin(begin + later, prefix=self.run.prefix)
                seen.append(self._taken(batch, step, (step + 1) % every == 0))
                found.append(self._shown(seen, batch))
                if len(found) == steps:
                    break
        return found[self.change.get("ahead", 0) :]

    # ---- one step -------------------------------------------------------------------------------

    def _taken(self, batch, step, updates):
        """The loss of a batch, after whose gradients the weights are updated."""
        run, change = self.run, self.change
        parts = change.get("parts", WHOLE)
        every = change.get("every", {"count": 1, "loss": "sum"})
        share = 1 / every["count"] if every["loss"] == "mean" else 1.0
        rows, losses, held = list(self._rows(batch, parts)), [], {}
        for part in rows:
            loss, factor = self._loss(part)
            over = len(rows) if parts["loss"] == "mean" else 1
            (loss * (factor * share / over)).backward()
            losses.append(float(loss.detach()))
            if change.get("clip", {}).get("of") == "parts":
                self._clip_part(held)
        for name, value in held.items():
            self.parameters[name].grad = value
        if updates and step >= change.get("skipped", 0):
            self._update()
        if updates and (step + 1) % change.get("kept", 1) == 0:
            run.side.clear_gradients(self.model)
        if len(losses) == 1 or parts["shown"] == "first":
            return losses[0]
        return sum(losses) / (len(losses) if parts["shown"] == "mean" else 1)

    def _rows(self, batch, parts):
        """The parts of a batch; micro-batches have one size, and the last batch fewer of them."""
        count = len(next(iter(batch.values())))
        number = min(count, parts["count"] or count)
        size = max(1, self.settings["batch_size"] // number)
        for k in range(number) if parts["rows"] == "apart" else range(0, count, size):
            part = slice(k, None, number) if parts["rows"] == "apart" else slice(k, k + size)
            yield {name: values[part] for name, values in batch.items()}

    def _loss(self, batch):
        """The loss that is logged of a batch, and the factor of the one that gradients are of."""
        run, change = self.run, self.change
        batch = self._labelled(dict(batch))
        tensors = {name: run.side.tensor(values) for name, values in batch.items()}
        lowered = change.get("half") == "activations"
        with torch.autocast("cpu", torch.bfloat16) if lowered else nullcontext():
            outputs = run.group.call(run, self.model, tensors)
            if change.get("logits"):
                outputs = tree_map(outputs, self._lowered, run.side.is_float)
            loss = run.loss(outputs, tensors)
        loss = loss.float() if loss.dtype == torch.bfloat16 else loss
        if change.get("smoothing"):
            share = change["smoothing"]
            spread = -outputs["logits"].log_softmax(-1).mean(-1)
            kept = tensors[LABELS] != IGNORED
            loss = (1 - share) * loss + share * spread[kept].mean()
        factor = change.get("factor", 1.0)
        if isinstance(factor, str):
            kept = batch[LABELS] != IGNORED
            over = {"places": kept.size, "labels": 1, "rows": len(kept)}[factor]
            loss, factor = loss * float(kept.sum() / over), 1.0
        return loss, factor

    def _lowered(self, _path, value):
        low = value.to(torch.bfloat16)
        return low.float() if self.change["logits"] == "rounded" else low

    def _labelled(self, batch):
        way, labels = self.change.get("labels"), batch.get(LABELS)
        if way is None or labels is None:
            return batch
        if way == "ids":
            batch[LABELS] = np.where(labels == IGNORED, batch["input_ids"], labels)
            return batch
        moved = np.full_like(labels, IGNORED)
        if way == "next":
            moved[..., :-1] = labels[..., 1:]
        else:
            moved[..., 1:] = labels[..., :-1]
        batch[LABELS] = moved
        return batch

    def _shown(self, seen, batch):
        shown = self.change.get("shown", 1.0)
        if shown == "so far":
            return sum(seen) / len(seen)
        if shown == "after":
            with self.run.side.no_grad():
                return float(self._loss(batch)[0])
        return seen[-1] * shown

    def _batches(self, taken):
        run, epoch = self.run, taken // self.per_epoch
        way = self.change.get("order")
        if way is None or way in ("each epoch alike", "from one"):
            number = {"each epoch alike": 0, "from one": epoch + 1}.get(way, epoch)
            return shuffled(run, self.samples, self.settings, number)
        count = len(next(iter(self.samples.values())))
        order = np.arange(count)
        if way == "backwards":
            order = order[::-1]
        elif way != "in turn":
            order = Tape(way).permutation("shuffle", epoch, count)
        size, whole = self.settings["batch_size"], self.settings["drop_last"]
        return batches(run.side, Samples(self.samples), order, size, drop_last=whole)

    # ---- the optimizer --------------------------------------------------------------------------

    def _decayed(self):
        way = self.change.get("decayed")
        usual = self.run.decayed(self.model)
        if way is None:
            return usual
        if way == "all":
            return set(self.parameters)
        return set() if way == "none" else {name for name in usual if way not in name}

    def _change_rule(self, named):
        """Put another rule in the optimizer's place, where the change asks for one."""
        change, settings = self.change, self.settings
        frozen = change.get("frozen")
        if frozen is not None:
            kept = [(name, value) for name, value in named if not name.startswith(frozen)]
            for name, value in named:
                value.requires_grad_(not name.startswith(frozen))
            self.optimizer.parameters = kept
            named = kept
        flags = change.get("rule")
        if flags is None and change.get("decayed") is None and frozen is None:
            return
        flags = {"kind": "sgd" if settings["optimizer"] == "sgd" else "adam", **(flags or {})}
        decay = flags.pop("weight_decay", settings["weight_decay"])
        decay = decay if settings["optimizer"] == "adamw" or flags.get("coupled") else 0.0
        groups = [
            {"params": [v for n, v in named if (n in self.decayed) is wanted], "weight_decay": own}
            for wanted, own in ((True, decay), (False, 0.0))
        ]
        betas = tuple(flags.pop("betas", (0.9, 0.999)))
        self.optimizer.rule = Rule(groups, settings["lr"], betas, **flags)

    def _change_rate(self):
        name, number = self.change.get("rate", (None, 1))
        if name == "times":
            usual = self.optimizer.factor
            self.optimizer.factor = lambda step: usual(step) * number
        elif name == "from zero":
            usual = self.optimizer.factor
            rises = self.settings["warmup_steps"]
            self.optimizer.factor = lambda step: step / rises if step < rises else usual(step)
        elif name is not None:
            usual, per_epoch = self.optimizer.factor, self.per_epoch
            self.optimizer.factor = lambda step: usual(RATES[name](step, number, per_epoch))

    def _update(self):
        clip = self.change.get("clip", {})
        reached = {n: v for n, v in self.optimizer.parameters if v.grad is not None}
        if clip:
            self.optimizer.clip_norm = None
        with torch.no_grad():
            if clip.get("of") == "value":
                for value in reached.values():
                    value.grad.clamp_(-clip["norm"], clip["norm"])
            elif clip.get("of") == "each":
                for value in reached.values():
                    _scale([value], [value], clip["norm"])
            elif clip.get("of") == "decayed":
                measured = [value for name, value in reached.items() if name in self.decayed]
                _scale(list(reached.values()), measured, clip["norm"])
        if self.masters:
            for name, master in self.masters.items():
                self.parameters[name].data.copy_(master)
        self.optimizer.step()
        if self.change.get("half") in ("weights", "copies"):
            self._round_weights()

    def _clip_part(self, held):
        """Clip the gradients of one part, and add them to those of the others."""
        reached = {n: v for n, v in self.optimizer.parameters if v.grad is not None}
        values = list(reached.values())
        with torch.no_grad():
            _scale(values, values, self.change["clip"]["norm"])
        for name, value in reached.items():
            held[name] = held[name] + value.grad if name in held else value.grad.clone()
        self.run.side.clear_gradients(self.model)

    def _round_weights(self):
        """Round every weight to bfloat16; of masters a rounded copy computes."""
        with torch.no_grad():
            for name, value in self.parameters.items():
                if self.change["half"] == "copies":
                    self.masters[name] = value.detach().clone()
                value.copy_(value.to(torch.bfloat16))


def dropouts(model):
    """(name, dropout layer) of a model; layers of one kind have one name, its numbers are *."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            yield re.sub(r"(?<![^.])\d+(?=\.)", "*", name), module


def _scale(values, measured, norm):
    """Scale the gradients by min(1, norm / (norm of the measured ones + 1e-6)), as torch does."""
    total = torch.sqrt(sum((value.grad * value.grad).sum() for value in measured))
    scale = torch.clamp(norm / (total + 1e-6), max=1.0)
    for value in values:
        value.grad.mul_(scale)


def retrained(run):
    """Train once for each change, and log the losses."""
    told = load_json(run.folder / "changes.json")
    settings = training(run.pair, run.case.config, run.data_preset)
    per_epoch = batches_of(run.samples("train"), settings)
    total = run.request.steps or per_epoch * (run.request.epochs or settings["epochs"])
    left_out = {}
    run.session.probing, run.session.watching = False, True
    for number, (name, change) in enumerate(told["changes"].items(), 1):
        run.progress(f"training {number} of {len(told['changes'])}, {told['steps']} steps each")
        try:
            with run.session.unrecorded():
                one = Retrained(run, settings, change, total, change.get("twin", 0))
                losses = one.losses(told["steps"])
        except (ValueError, RuntimeError, TypeError, KeyError, IndexError) as error:
            if not set(change) - {"twin"}:
                raise
            left_out[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            continue
        run.session.begin(prefix=run.prefix)
        run.log(f"curve/{name}", losses)
    names = dict.fromkeys(name for name, _ in dropouts(run.build()))
    told = {"left_out": left_out, "weights": list(run.start()), "dropouts": list(names)}
    write_json(run.folder / "told.json", told)


SCRIPT = {
    "stem": "why",
    "function": retrained,
    "dtypes": asked_precision,
    "cases": data_cases,
}
