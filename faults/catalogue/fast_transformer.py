"""Faults in fast_transformer's Paddle twin and in the tests' convolutional pair."""

from faults.fault import SMALL_CNN, in_model

forward = in_model("fast_transformer", 1)
backward = in_model("fast_transformer", 4)
cnn = in_model(SMALL_CNN, 1)
cnn_backward = in_model(SMALL_CNN, 4)

FAULTS = [
    # ---- rotary positions
    forward(
        "rotary-halves",
        "rotary pairs taken as halves, not as neighbours",
        "pairs = turned.reshape([batch, tokens, heads, width // 4, 2])\n"
        "        first, second = pairs[..., 0], pairs[..., 1]",
        "first, second = turned.chunk(2, axis=-1)",
        "lm_rotary/layers.0.0.fn.pos_emb",
        area="positions, padding",
    ),
    forward(
        "rotary-offset",
        "rotary positions counted from one",
        "positions = paddle.arange(tokens).astype(self.freqs.dtype)",
        "positions = paddle.arange(1, tokens + 1).astype(self.freqs.dtype)",
        "lm_rotary/layers.0.0.fn.pos_emb",
        area="positions, padding",
    ),
    # ---- attention
    forward(
        "qkv-interleaved",
        "query, key and value read as interleaved",
        "for part in self.to_qkv(x).chunk(3, axis=-1)]",
        "for parts in [self.to_qkv(x)] for part in (parts[..., i::3] for i in range(3))]",
        "lm/layers.0.0.fn.to_q_attn_logits:in/0",
        area="attention",
    ),
    forward(
        "split-wrong-axis",
        "query, key and value split along the heads' reshaped axis",
        "return x.reshape([x.shape[0], x.shape[1], self.heads, self.dim_head])",
        "return x.reshape([x.shape[0], x.shape[1], self.dim_head, self.heads]).swapaxes(2, 3)",
        "lm/layers.0.0.fn.to_q_attn_logits:in/0",
        area="attention",
    ),
    forward(
        "scale-left-out",
        "logits not scaled",
        "logits.squeeze(-1).moveaxis(1, 2) * self.dim_head**-0.5",
        "logits.squeeze(-1).moveaxis(1, 2)",
        "lm/layers.0.0.fn.query_logits",
        area="attention",
    ),
    forward(
        "scale-off-by-a-millionth",
        "scale off by one part in a million",
        "logits.squeeze(-1).moveaxis(1, 2) * self.dim_head**-0.5",
        "logits.squeeze(-1).moveaxis(1, 2) * (self.dim_head**-0.5 * 1.000001)",
        "lm/layers.0.0.fn.query_logits",
        area="attention",
    ),
    forward(
        "mean-for-sum",
        "neighbouring channels averaged, not summed",
        "[self.dim_head // 2, 2]).sum(axis=-1)",
        "[self.dim_head // 2, 2]).mean(axis=-1)",
        "lm_rotary/layers.0.0.fn.key_mixed",
        area="attention",
    ),
    forward(
        "paper-not-reference",
        "the paper's maths where the reference differs from it",
        "self.pool(key_weights, turned_key)",
        "self.pool(key_weights, key * global_query)",
        "lm/layers.0.0.fn.global_key",
        area="attention",
    ),
    forward(
        "untied-projection",
        "a projection that all layers share made anew in each",
        "dim, heads, dim_head, to_q_attn_logits, to_k_attn_logits, pos_emb\n",
        "dim, heads, dim_head, nn.Linear(dim_head, 1, bias_attr=False),\n"
        "                to_k_attn_logits, pos_emb\n",
        "are tied in torch",
        refused=True,
        area="weights",
    ),
    # ---- masks, norms, residuals
    forward(
        "keep-mask-inverted",
        "True taken for masked instead of keep",
        "attention_mask) != 0  # (B, T) bool",
        "attention_mask) == 0  # (B, T) bool",
        "lm/layers.0.0:in/1",
        area="masks",
    ),
    forward(
        "infinite-mask",
        "minus infinity for the largest negative number",
        "masked_fill(~mask.unsqueeze(1), -paddle.finfo(logits.dtype).max)",
        'masked_fill(~mask.unsqueeze(1), -float("inf"))',
        "lm/layers.0.0.fn.query_logits",
        area="masks",
    ),
    forward(
        "pooling-axis",
        "pooling weights summed over the channels' axis",
        "weights = weights / (weights.sum(axis=1, keepdim=True) + 1e-8)",
        "weights = weights / (weights.sum(axis=-1, keepdim=True) + 1e-8)",
        "train/fastformer_model.pooler.pooling_weights",
        area="attention",
    ),
    forward(
        "pooling-dropout-place",
        "dropout behind the pooling instead of before it",
        'return self.pooler(dropout(self, "dropout", x, self.dropout_prob))',
        'return dropout(self, "dropout", self.pooler(x), self.dropout_prob)',
        "train/fastformer_model.pooler:in/0",
        area="dropout",
    ),
    forward(
        "bias-left-out",
        "a Linear built without its bias",
        "self.to_r = nn.Linear(mixed_size, dim_head)",
        "self.to_r = nn.Linear(mixed_size, dim_head, bias_attr=False)",
        "only in the torch model: layers.0.0.fn.to_r.bias",
        refused=True,
        area="weights",
    ),
    # ---- a user's own pair: convolutions and BatchNorm
    cnn(
        "batchnorm-momentum",
        "torch's momentum given to Paddle, which means 1 minus it",
        "nn.BatchNorm2D(channels)",
        "nn.BatchNorm2D(channels, momentum=0.1)",
        "train/features.1:running_mean",
        area="norms",
    ),
    cnn(
        "batchnorm-epsilon",
        "BatchNorm epsilon 1e-3 for 1e-5",
        "nn.BatchNorm2D(channels)",
        "nn.BatchNorm2D(channels, epsilon=1e-3)",
        "features.1",
        area="norms",
    ),
    cnn(
        "batchnorm-global-statistics",
        "BatchNorm that uses its running statistics in training",
        "nn.BatchNorm2D(channels)",
        "nn.BatchNorm2D(channels, use_global_stats=True)",
        "train/features.1:running_mean",
        area="norms",
    ),
    cnn(
        "batchnorm-variance",
        "BatchNorm that divides by the unbiased variance in training",
        "self.pool = Pool()",
        "unbiased = lambda norm, inputs, outputs: outputs * (319 / 320) ** 0.5\n"
        "        self.body[1].register_forward_post_hook(unbiased)\n"
        "        self.pool = Pool()",
        "train/features.1",
        area="norms",
    ),
    cnn(
        "batchnorm-statistics-swapped",
        "running mean and variance loaded into each other",
        '{"_mean": "running_mean", "_variance": "running_var"}',
        '{"_mean": "running_var", "_variance": "running_mean"}',
        "features.1",
        file="common/weights/layers.py",
        area="norms",
    ),
    cnn(
        "conv-padding-mode",
        "a convolution that pads by reflection",
        "nn.Conv2D(3, channels, 3, padding=1)",
        'nn.Conv2D(3, channels, 3, padding=1, padding_mode="reflect")',
        "features.0",
        area="structure",
    ),
    cnn(
        "max-for-mean-pooling",
        "maximum instead of mean over the image",
        "return x.mean(axis=(2, 3))",
        "return x.amax(axis=(2, 3))",
        "norm:in/0",
        area="structure",
    ),
    cnn(
        "square-linear-flipped",
        "a square Linear written out with its weight the wrong way round",
        'return {"logits": self.head(paddle.tanh(self.square(self.norm(x)))),',
        "normed = self.norm(x)\n"
        "        flipped = normed @ (self.square.weight.T - self.square.weight)\n"
        '        return {"logits": self.head(paddle.tanh(self.square(normed) + flipped)),',
        "head:in/0",
        area="weights",
    ),
    cnn_backward(
        "relu-gradient",
        "a ReLU whose gradient passes everywhere",
        "x = self.pool(self.body(images))",
        "plain = self.body[1](self.body[0](images))\n"
        "        straight = plain + (self.body[2](plain) - plain).detach()\n"
        "        x = self.pool(self.body[3](straight))",
        "stirred/grad_of/features.2",
        area="gradients",
    ),
]
