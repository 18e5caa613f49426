"""Faults in what every pair shares: losses, optimizers, the scripts of steps 3, 4 and 5."""

from functools import partial

from faults.fault import Fault

SIDE = "common/paddle_side.py"
BACKWARD = "step4_backward/paddle/backward.py"
TRAIN = "step5_train/paddle/train.py"

loss = partial(Fault, model="fastformer", step=3, file=SIDE, area="losses")
optimizer = partial(Fault, model="fastformer", step=4, file=SIDE, area="optimizers")
script = partial(Fault, model="fastformer", step=4, file=BACKWARD, area="training")
# The last word in the names of the first weights that the optimizer moves.
FIRST = "dense_linear.weight"
NORM = "fastformer_model.encoders.0.attention.output.LayerNorm.weight"
train = partial(
    Fault, model="fastformer", step=5, file=TRAIN, area="training", arguments=("--epochs", "2")
)
initial = partial(train, file="common/models/fastformer/paddle_model.py", area="weights")

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
        old="F.log_softmax(logits.reshape([-1, classes]), axis=-1)",
        new="F.log_softmax(logits.reshape([-1, classes]), axis=0)",
        origin="main/loss",
    ),
    loss(
        id="softmax-twice",
        what="softmax applied before a loss that applies it itself",
        old="F.log_softmax(logits.reshape([-1, classes]), axis=-1)",
        new="F.log_softmax(F.softmax(logits.reshape([-1, classes]), axis=-1), axis=-1)",
        origin="main/loss",
        model="fast_transformer",
    ),
    # ---- optimizers
    optimizer(
        id="adam-epsilon",
        what="Adam epsilon 1e-6 for 1e-8",
        old="paddle.optimizer.Adam(lr, parameters=values)",
        new="paddle.optimizer.Adam(lr, parameters=values, epsilon=1e-6)",
        origin=f"main/adam/000/weight/{FIRST}",
        passes=(1, 3),
    ),
    optimizer(
        id="adam-beta2",
        what="Adam beta2 0.98 for 0.999",
        old="paddle.optimizer.Adam(lr, parameters=values)",
        new="paddle.optimizer.Adam(lr, parameters=values, beta2=0.98)",
        origin=f"main/adam/000/moment2/{FIRST}",
    ),
    optimizer(
        id="l2-for-decay",
        what="L2 in the gradient for decoupled decay",
        old="self.rule = paddle.optimizer.AdamW(lr, **rule)",
        new="self.rule = paddle.optimizer.Adam(lr, parameters=values, weight_decay=weight_decay)",
        origin=f"main/adamw/000/weight/{FIRST}",
    ),
    optimizer(
        id="decay-of-everything",
        what="norms and biases decayed too",
        old='rule["apply_decay_param_fun"] = decayed.__contains__',
        new='rule["apply_decay_param_fun"] = None',
        origin=f"main/adamw/000/weight/{NORM}",
    ),
    optimizer(
        id="decay-of-nothing",
        what="decay chosen by names that no parameter has",
        old="decayed = {value.name for n, value in parameters if n in decayed}",
        new="decayed = set(decayed)",
        origin=f"main/adamw/000/weight/{FIRST}",
    ),
    optimizer(
        id="momentum-dampened",
        what="momentum's gradient multiplied by 1 - momentum",
        old="velocity = velocity * self.momentum + value.grad",
        new="velocity = velocity * self.momentum + (1 - self.momentum) * value.grad",
        origin=f"main/sgd/000/weight/{FIRST}",
    ),
    optimizer(
        id="nesterov",
        what="Nesterov's momentum for the plain one",
        old="value.copy_(value - velocity * self.lr(), False)",
        new="value.copy_(value - (value.grad + velocity * self.momentum) * self.lr(), False)",
        origin=f"main/sgd/000/weight/{FIRST}",
    ),
    optimizer(
        id="clip-each-tensor",
        what="each gradient clipped by its own norm, not by that of all",
        old="            value.grad = value.grad * scale",
        new="            own = paddle.sqrt((value.grad * value.grad).sum())\n"
        "            value.grad = value.grad * paddle.clip(self.clip_norm / (own + 1e-6), max=1.0)",
        origin=f"main/adam_clip_warmup/000/weight/{FIRST}",
    ),
    optimizer(
        id="clip-by-value",
        what="gradients clipped by value instead of norm",
        old="            value.grad = value.grad * scale",
        new="            value.grad = paddle.clip(value.grad, -self.clip_norm, self.clip_norm)",
        origin=f"main/adam_clip_warmup/000/weight/{FIRST}",
    ),
    optimizer(
        id="schedule-off-by-one",
        what="learning rate of the step after",
        old="return self.base_lr * self.factor(self.step_count)",
        new="return self.base_lr * self.factor(self.step_count + 1)",
        origin="main/adam_clip_warmup/000/lr",
    ),
    optimizer(
        id="rate-set-late",
        what="learning rate set behind the step instead of before it",
        old="            self.rule.set_lr(rate)  # twin: where the learning rate is kept\n"
        "            self.rule.step()",
        new="            self.rule.step()\n"
        "            self.rule.set_lr(rate)  # twin: where the learning rate is kept",
        origin=f"main/adam_clip_warmup/000/weight/{FIRST}",
    ),
    # ---- the scripts
    script(
        id="gradients-not-cleared",
        what="gradients of the former steps not cleared",
        old="        side.clear_gradients(model)\n",
        new="",
        origin=f"main/adam/001/grad/{FIRST}",
    ),
    script(
        id="backward-in-train-mode",
        what="gradients taken with dropout on",
        old='every parameter."""\n    model = run.build()',
        new='every parameter."""\n    model = run.build(training=True)',
        origin="main/fastformer_model.dropout:p",
    ),
    script(
        id="stepped-twice",
        what="two optimizer steps for one gradient",
        old="        optimizer.step()\n",
        new="        optimizer.step()\n        optimizer.step()\n",
        origin=f"main/adam/000/weight/{FIRST}",
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
    # ---- training
    train(
        id="training-in-eval-mode",
        what="training without dropout",
        old="model = run.build(training=True)",
        new="model = run.build()",
        origin="train/000/fastformer_model.dropout:p",
    ),
    train(
        id="eval-mode-kept",
        what="a model left in eval mode behind the first epoch's test",
        old="        model.train()\n",
        new="",
        origin="train/drift/epoch_002",
    ),
    train(
        id="same-order-every-epoch",
        what="every epoch in the first one's order",
        old='permutation("shuffle", epoch, count(samples))',
        new='permutation("shuffle", 0, count(samples))',
        origin="train/order",
    ),
    train(
        id="training-drops-last",
        what="an epoch's last, smaller batch dropped",
        old='return batches(Samples(samples), order, settings["batch_size"])',
        new='return batches(Samples(samples), order, settings["batch_size"], drop_last=True)',
        origin="train/order",
    ),
    train(
        id="schedule-length",
        what="a schedule that ends with the last whole batch",
        old='-(-count(samples) // settings["batch_size"])',
        new='(count(samples) // settings["batch_size"])',
        origin="train/lr",
    ),
    train(
        id="accumulated-in-training",
        what="gradients not cleared in training",
        old="    side.clear_gradients(model)\n",
        new="",
        origin="train/002/loss",
    ),
    # ---- initial weights
    initial(
        id="initial-spread",
        what="initial weights with twice the standard deviation",
        old="nn.initializer.Normal(0.0, std)(module.weight)",
        new="nn.initializer.Normal(0.0, 2.0 * std)(module.weight)",
        origin="init/dense_linear.weight",
    ),
    initial(
        id="initial-biases",
        what="biases drawn instead of zero",
        old="nn.initializer.Constant(0.0)(module.bias)",
        new="nn.initializer.Uniform(-0.01, 0.01)(module.bias)",
        origin="init/dense_linear.bias",
    ),
    initial(
        id="initial-padding-row",
        what="the padding word's row not set to zero",
        old="        with paddle.no_grad():\n            self.word_embedding.weight[0] = 0.0\n",
        new="",
        origin="init/word_embedding.weight",
    ),
    initial(
        id="initial-default",
        what="the framework's own initial weights in place of the paper's",
        old='        self.initialize(config["initializer_range"])\n',
        new="",
        origin="init/dense_linear.weight",
    ),
    train(
        id="start-not-shared",
        what="training from the side's own initial weights",
        old="    model = run.build(training=True)\n",
        new="    model = run.module.build(dict(run.case.config)).train()\n    run.build()\n",
        origin="train/000/loss",
    ),
]
