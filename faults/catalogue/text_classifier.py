"""Faults in a user's own pair, examples/text_classifier: plain layers without probes of ours.

Step 5's faults are planted here too: the example trains in seconds.
"""

from functools import partial

from faults.fault import TEXT_CLASSIFIER, Fault, in_model

MODEL = f"{TEXT_CLASSIFIER}/paddle_model.py"
TRAIN = "step5_train/train.py"

forward = in_model(TEXT_CLASSIFIER, 1)
backward = in_model(TEXT_CLASSIFIER, 4)
train = partial(Fault, model=TEXT_CLASSIFIER, step=5, file=TRAIN, area="training")
initial = partial(train, file=MODEL, area="weights")

FAULTS = [
    # ---- forward
    forward(
        "own-scale",
        "scores divided by the root of the width, not of the head's",
        "math.sqrt(C // self.heads)",
        "math.sqrt(C)",
        "blocks.0.attention.dropout:in/0",
        area="attention",
    ),
    forward(
        "own-softmax-axis",
        "softmax over the queries",
        "F.softmax(scores, axis=-1)",
        "F.softmax(scores, axis=-2)",
        "blocks.0.attention.dropout:in/0",
        area="attention",
    ),
    forward(
        "own-values-transposed",
        "heads joined without moving them back",
        "(weights @ v).transpose([0, 2, 1, 3])",
        "(weights @ v)",
        "blocks.0.attention.out:in/0",
        area="attention",
    ),
    forward(
        "own-mask-polarity",
        "words masked instead of padding",
        "paddle.where(mask[:, None, None, :], scores,",
        "paddle.where(~mask[:, None, None, :], scores,",
        "blocks.0.attention.dropout:in/0",
        area="masks",
    ),
    forward(
        "own-positions-forgotten",
        "positions, all zero at first, never added",
        "self.words(input_ids) + self.positions[: input_ids.shape[1]]",
        "self.words(input_ids)",
        "stirred/dropout:in/0",
        area="positions, padding",
    ),
    forward(
        "own-norm-epsilon",
        "LayerNorm epsilon 1e-6 for 1e-5",
        "self.norm1 = nn.LayerNorm(width)",
        "self.norm1 = nn.LayerNorm(width, epsilon=1e-6)",
        "blocks.0.norm1",
        area="norms",
    ),
    forward(
        "own-mean-over-padding",
        "mean over all places, padding too",
        "pooled = (x * kept).sum(1) / kept.sum(1).clip(min=1.0)",
        "pooled = (x * kept).mean(1)",
        "pooled_norm:in/0",
        area="masks",
    ),
    forward(
        "own-empty-row",
        "0 / 0 for a row without a word",
        "kept.sum(1).clip(min=1.0)",
        "kept.sum(1)",
        "pooled_norm:in/0",
        area="masks",
    ),
    forward(
        "own-dropout-rate",
        "another dropout rate in the feed-forward part",
        "nn.GELU(), nn.Dropout(dropout)",
        "nn.GELU(), nn.Dropout(0.5 * dropout)",
        "train/blocks.0.dropout:p",
        area="dropout",
    ),
    forward(
        "own-dropout-place",
        "dropout on the scores instead of the weights",
        "weights = self.dropout(F.softmax(scores, axis=-1))",
        "weights = F.softmax(self.dropout(scores), axis=-1)",
        "train/blocks.0.attention.dropout:in/0",
        area="dropout",
    ),
    forward(
        "own-norm-momentum",
        "torch's momentum given to Paddle's BatchNorm1D",
        "nn.BatchNorm1D(width)",
        "nn.BatchNorm1D(width, momentum=0.1)",
        "train/pooled_norm:running_mean",
        area="norms",
    ),
    # ---- loss, gradients
    forward(
        "own-label-smoothing",
        "a loss with label smoothing",
        'F.cross_entropy(outputs["logits"], inputs["labels"])',
        'F.cross_entropy(outputs["logits"], inputs["labels"], label_smoothing=0.1)',
        "loss",
        step=3,
        passes=(1,),
        area="losses",
    ),
    backward(
        "own-weights-detached",
        "the mask's scores cut off from the gradient",
        "weights = self.dropout(F.softmax(scores, axis=-1))",
        "weights = self.dropout(F.softmax(scores.detach(), axis=-1))",
        "stirred/grad_of/blocks.1.attention.dropout",
        passes=(1,),
        area="gradients",
    ),
    # ---- training
    train(
        id="eval-mode-kept",
        what="a model left in eval mode behind the first epoch's test",
        old="    model.train()\n",
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
        old="order[skip * size :], size, drop_last=drop_last)",
        new="order[skip * size :], size, drop_last=True)",
        origin="train/order",
    ),
    train(
        id="rate-of-training",
        what="a learning rate one per cent too high",
        old='        settings["lr"],\n',
        new='        settings["lr"] * 1.01,\n',
        origin="train/000/lr",
    ),
    train(
        id="rate-of-training-tenth",
        what="a learning rate ten per cent too high",
        old='        settings["lr"],\n',
        new='        settings["lr"] * 1.1,\n',
        origin="train/000/lr",
    ),
    train(
        id="warm-up-one-longer",
        what="a warm-up of one step more",
        old='settings["schedule"], settings["warmup_steps"]',
        new='settings["schedule"], settings["warmup_steps"] + 1',
        origin="train/000/lr",
    ),
    train(
        id="not-shuffled-in-training",
        what="samples in their own order",
        old='run.session.tape.permutation("shuffle", epoch, count(samples))',
        new="np.arange(count(samples))",
        origin="train/000/loss",
    ),
    train(
        id="dropout-in-training",
        what="dropout 0.2 for 0.1",
        file=MODEL,
        old="self.dropout = nn.Dropout(dropout)\n        self.blocks",
        new="self.dropout = nn.Dropout(2 * dropout)\n        self.blocks",
        origin="train/000/dropout:p",
    ),
    train(
        id="momentum-in-training",
        what="torch's momentum given to Paddle's BatchNorm1D, seen in a training",
        file=MODEL,
        old="nn.BatchNorm1D(width)",
        new="nn.BatchNorm1D(width, momentum=0.1)",
        origin="trained/buffer/pooled_norm:running_mean",
    ),
    train(
        id="clipped-by-value",
        what="gradients clipped by value, not by their norm",
        file="common/sides/optimizer.py",
        old="value.grad = value.grad * scale",
        new="value.grad = self.side.lib.clip(value.grad, -self.clip_norm, self.clip_norm)",
        origin="train/001/loss",
    ),
    train(
        id="accumulation-summed",
        what="gradients of two micro-batches summed, not averaged",
        old="    loss.backward()\n",
        new="    (2.0 * loss).backward()\n",
        origin="train/002/loss",
    ),
    train(
        id="no-decay-in-training",
        what="training without weight decay",
        old='        settings["weight_decay"],\n',
        new="        0.0,\n",
        origin="train/001/loss",
    ),
    train(
        id="accumulated-in-training",
        what="gradients not cleared in training",
        old="    run.side.clear_gradients(model)\n    return",
        new="    return",
        origin="train/002/loss",
    ),
    train(
        id="start-not-shared",
        what="training from the side's own initial weights",
        old="    model = run.build(training=True)\n",
        new="    run.build(training=True)\n    model = run.side.follow(run.construct()).train()\n",
        origin="train/000/loss",
    ),
    train(
        id="schedule-length",
        what="a schedule that ends with the last whole batch",
        old='return whole if settings["drop_last"] else whole + (rest > 0)',
        new="return whole",
        origin="train/005/lr",
    ),
    # ---- initial weights
    initial(
        id="initial-spread",
        what="initial weights with twice the standard deviation",
        old="nn.initializer.Normal(std=0.1)(module.weight)",
        new="nn.initializer.Normal(std=0.2)(module.weight)",
        origin="init/blocks.0.attention.qkv.weight",
    ),
    initial(
        id="initial-biases",
        what="biases drawn instead of zero",
        old="nn.initializer.Constant(0.0)(module.bias)",
        new="nn.initializer.Uniform(-0.01, 0.01)(module.bias)",
        origin="init/blocks.0.attention.qkv.bias",
    ),
    initial(
        id="initial-default",
        what="the framework's own initial embedding, not the reference's",
        old="        nn.initializer.Normal()(self.words.weight)",
        new="        # nn.initializer.Normal()(self.words.weight)",
        origin="init/words.weight",
    ),
    initial(
        id="initial-row",
        what="the padding word's row set to zero though the reference draws it",
        old="        for module in self.sublayers():\n",
        new="        with paddle.no_grad():\n            self.words.weight[0] = 0.0\n"
        "        for module in self.sublayers():\n",
        origin="init/words.weight",
    ),
    initial(
        id="initial-positions",
        what="positions drawn instead of zero",
        old="zeros = nn.initializer.Constant(0.0)",
        new="zeros = nn.initializer.Normal(0.0, 0.02)",
        origin="init/positions",
    ),
]
