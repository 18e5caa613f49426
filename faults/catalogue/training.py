"""Faults in what every pair shares: losses, optimizers, the scripts of steps 1 and 4."""

from functools import partial

from faults.fault import SMALL_CNN, Fault

LOSSES = "common/sides/losses.py"
OPTIMIZER = "common/sides/optimizer.py"
BACKEND = "common/sides/backend_paddle.py"
BACKWARD = "step4_backward/backward.py"

loss = partial(Fault, model="fastformer", step=3, file=LOSSES, area="losses")
# The tests' own pair: its ten steps of four optimizers are quick.
optimizer = partial(Fault, model=SMALL_CNN, step=4, file=OPTIMIZER, area="optimizers")
script = partial(Fault, model=SMALL_CNN, step=4, file=BACKWARD, area="training")
# The last word in the names of the first weights that the optimizer moves.
FIRST = "features.0.weight"
BIAS = "features.0.bias"

FAULTS = [
    # ---- losses
    loss(
        id="label-smoothing-others",
        what="label smoothing spread over the other classes alone",
        old="losses + spread * (label_smoothing / classes)",
        new="losses + (spread - -picked * mass) * (label_smoothing / (classes - 1))",
        origin="main/losses/label_smoothing",
    ),
    loss(
        id="class-weights-mean",
        what="class weights: mean over the samples, not over their weights",
        old="return losses.sum() / mass.sum()",
        new="return losses.sum() / kept.to(logits.dtype).sum()",
        origin="main/losses/class_weights",
    ),
    loss(
        id="smoothing-unweighted",
        what="label smoothing without the class weights",
        old="spread = -(log_probs * weight).sum(axis=-1)",
        new="spread = -log_probs.sum(axis=-1)",
        origin="main/losses/weights_and_smoothing",
    ),
    loss(
        id="ignored-labels-counted",
        what="ignored labels counted in the mean",
        old="return losses.sum() / mass.sum()",
        new="return losses.sum() / weight[index].sum()",
        origin="holes/losses/ignore_index",
    ),
    loss(
        id="ignore-index-zero",
        what="ignore_index 0 for -100",
        old="kept = labels != ignore_index",
        new="kept = (labels != ignore_index) & (labels != 0)",
        origin="holes/loss",
    ),
    loss(
        id="reduction",
        what='reduction "sum" that takes the mean',
        old="        return losses.sum()\n",
        new="        return losses.mean()\n",
        origin="main/losses/sum",
    ),
    loss(
        id="log-softmax-axis",
        what="log-softmax over the samples",
        old="log_softmax(logits.reshape([-1, classes]), -1)",
        new="log_softmax(logits.reshape([-1, classes]), 0)",
        origin="main/loss",
    ),
    loss(
        id="softmax-twice",
        what="softmax applied before a loss that applies it itself",
        old="log_softmax(logits.reshape([-1, classes]), -1)",
        new="log_softmax(logits.reshape([-1, classes]).softmax(-1), -1)",
        origin="lm/loss",
        model="fast_transformer",
    ),
    # ---- optimizers
    optimizer(
        id="adam-epsilon",
        what="Adam epsilon 1e-6 for 1e-8",
        file=BACKEND,
        old="paddle.optimizer.Adam(lr, *betas, parameters=values)",
        new="paddle.optimizer.Adam(lr, *betas, parameters=values, epsilon=1e-6)",
        origin=f"adam/000/weight/{FIRST}",
    ),
    optimizer(
        id="adam-beta2",
        what="Adam beta2 0.98 for 0.999",
        file=BACKEND,
        old="paddle.optimizer.Adam(lr, *betas, parameters=values)",
        new="paddle.optimizer.Adam(lr, betas[0], 0.98, parameters=values)",
        origin=f"adam/000/moment2/{FIRST}",
    ),
    optimizer(
        id="l2-for-decay",
        what="L2 in the gradient for decoupled decay",
        file=BACKEND,
        old="return paddle.optimizer.AdamW(lr, *betas, **rule)",
        new="return paddle.optimizer.Adam(\n"
        "        lr, *betas, parameters=values, weight_decay=weight_decay\n    )",
        origin=f"adamw/000/weight/{FIRST}",
    ),
    optimizer(
        id="decay-of-everything",
        what="norms and biases decayed too",
        file=BACKEND,
        old='rule["apply_decay_param_fun"] = names.__contains__',
        new='rule["apply_decay_param_fun"] = None',
        origin=f"adamw/000/weight/{BIAS}",
    ),
    optimizer(
        id="momentum-dampened",
        what="momentum's gradient multiplied by 1 - momentum",
        old="velocity.add_(value.grad)",
        new="velocity.add_((1 - self.momentum) * value.grad)",
        origin=f"sgd/000/weight/{FIRST}",
    ),
    optimizer(
        id="clip-each-tensor",
        what="each gradient clipped by its own norm, not by that of all",
        old="            value.grad = value.grad * scale",
        new="            own = self.side.lib.sqrt((value.grad * value.grad).sum())\n"
        "            own = self.side.lib.clip(self.clip_norm / (own + 1e-6), max=1.0)\n"
        "            value.grad = value.grad * own",
        origin=f"adam_clip_warmup/000/weight/{FIRST}",
    ),
    optimizer(
        id="clip-by-value",
        what="gradients clipped by value instead of norm",
        old="            value.grad = value.grad * scale",
        new="            most = self.clip_norm\n"
        "            value.grad = self.side.lib.clip(value.grad, -most, most)",
        origin=f"adam_clip_warmup/000/weight/{FIRST}",
    ),
    optimizer(
        id="schedule-off-by-one",
        what="learning rate of the step after",
        old="return self.base_lr * self.factor(self.step_count)",
        new="return self.base_lr * self.factor(self.step_count + 1)",
        origin="adam_clip_warmup/000/lr",
    ),
    optimizer(
        id="rate-set-late",
        what="learning rate set behind the step instead of before it",
        old="            self.side.set_rate(self.rule, self.lr())\n            self.rule.step()",
        new="            self.rule.step()\n            self.side.set_rate(self.rule, self.lr())",
        origin=f"adam_clip_warmup/000/weight/{FIRST}",
    ),
    # ---- the scripts
    script(
        id="gradients-not-cleared",
        what="gradients of the former steps not cleared",
        old="        run.side.clear_gradients(model)\n    run.log_buffers",
        new="    run.log_buffers",
        origin=f"adam/001/grad/{FIRST}",
    ),
    script(
        id="backward-in-train-mode",
        what="gradients taken in train mode",
        file="step4_backward/paddle/backward.py",
        old='may not reach all.\n    """\n    model = run.build()',
        new='may not reach all.\n    """\n    model = run.build(training=True)',
        origin="features.1:running_mean",
    ),
    script(
        id="stepped-twice",
        what="two optimizer steps for one gradient",
        old="    optimizer.step()\n    weights",
        new="    optimizer.step()\n    optimizer.step()\n    weights",
        origin=f"adam/000/weight/{FIRST}",
    ),
    Fault(
        id="forward-in-train-mode",
        what="a model never put into eval mode",
        model="fastformer",
        step=1,
        file="step1_forward/paddle/forward.py",
        old="model = run.build()",
        new="model = run.build(training=True)",
        origin="main/fastformer_model.dropout:p",
        area="training",
    ),
]
