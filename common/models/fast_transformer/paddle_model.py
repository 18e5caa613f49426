"""FastTransformer: seed 001's variant of lucidrains' fast-transformer-pypaddle, in Paddle.

    from twincheck.common.models.fast_transformer.case import CONFIGS
    from twincheck.common.models.fast_transformer.paddle_model import build

    model = build(CONFIGS["default"])
    outputs = model(input_ids)  # input_ids (B, T) int64, 0 = padding
    outputs["logits"].shape  # (B, T, num_tokens); with head "classification" (B, num_labels)

Letters: B batch, T tokens, C width, H heads, D channels per head, V vocabulary, N classes.
A mask says True, or any integer but 0, for keep.

Not the paper's maths in one place: the global key sums the keys themselves, where the paper sums
the keys after they were mixed with the global query (`fastformer` has that).
"""

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from twincheck.common.models.fast_transformer.case import complete
from twincheck.paddle_side import cross_entropy, dropout, named, tap


class RotaryEmbedding(nn.Layer):
    """Rotary positions (Su et al. 2021, arXiv:2104.09864) on the first half of a head's channels.

    Neighbouring channels are a point in the plane, turned by position x frequency.
    """

    def __init__(self, dim):
        super().__init__()
        # A buffer and not a constant, since the reference's checkpoints hold it.
        self.register_buffer(
            "freqs", paddle.to_tensor([10000.0 ** (-i / dim) for i in range(0, dim, 2)])
        )

    def forward(self, x):
        """(B, T, H, D) -> the same shape"""
        batch, tokens, heads, width = x.shape
        positions = paddle.arange(tokens).astype(self.freqs.dtype)  # (T)
        angles = positions.reshape([tokens, 1, 1]) * self.freqs  # (T, 1, D / 4)
        cos, sin = paddle.cos(angles), paddle.sin(angles)
        turned, rest = x.chunk(2, axis=-1)
        pairs = turned.reshape([batch, tokens, heads, width // 4, 2])
        first, second = pairs[..., 0], pairs[..., 1]
        turned = paddle.stack([first * cos - second * sin, first * sin + second * cos], axis=-1)
        return paddle.concat([turned.reshape([batch, tokens, heads, width // 2]), rest], axis=-1)


class FastAttention(nn.Layer):
    """Additive attention: two global vectors per head in place of T x T weights.

    The modules that are given are shared by all layers: the two projections to logits, and the
    rotary positions (None: learnt positions were added to the tokens).
    """

    def __init__(self, dim, heads, dim_head, to_q_attn_logits, to_k_attn_logits, pos_emb):
        super().__init__()
        self.heads = heads
        self.dim_head = dim_head
        # The key's mix is halved where positions are rotary, and with it what is made of it.
        mixed_size = dim_head if pos_emb is None else dim_head // 2
        self.to_qkv = nn.Linear(dim, 3 * heads * dim_head, bias_attr=False)
        self.to_q_attn_logits = to_q_attn_logits
        self.to_k_attn_logits = to_k_attn_logits
        self.to_r = nn.Linear(mixed_size, dim_head)
        self.to_out = nn.Linear(heads * dim_head, dim)
        self.pos_emb = pos_emb

    def split_heads(self, x):
        """(B, T, H * D) -> (B, T, H, D)"""
        return x.reshape([x.shape[0], x.shape[1], self.heads, self.dim_head])

    def halve(self, x):
        """Neighbouring channels summed, with rotary positions: (B, T, H, D) -> (B, T, H, D / 2)"""
        if self.pos_emb is None:
            return x
        return x.reshape(list(x.shape[:3]) + [self.dim_head // 2, 2]).sum(axis=-1)

    def weigh(self, logits, mask):
        """logits (B, T, H, 1), mask (B, T) bool, True = keep -> scaled and masked (B, H, T)

        A row that is padding alone gets equal logits, hence equal weights.
        """
        logits = logits.squeeze(-1).moveaxis(1, 2) * self.dim_head**-0.5
        return logits.masked_fill(~mask.unsqueeze(1), -paddle.finfo(logits.dtype).max)

    def pool(self, weights, x):
        """Sum of x (B, T, H, D) over the tokens under the weights (B, H, T) -> (B, 1, H, D)"""
        return paddle.einsum("bht,bthd->bhd", weights, x).unsqueeze(1)

    def forward(self, x, mask):
        """x (B, T, C), mask (B, T) bool, True = keep -> (B, T, C)"""
        query, key, value = [self.split_heads(part) for part in self.to_qkv(x).chunk(3, axis=-1)]
        # What is summed is turned; what the logits are made of is not.
        turned_query, turned_key, turned_value = query, key, value
        if self.pos_emb is not None:
            turned_query = tap(self, "rotary_query", self.pos_emb(query))
            turned_key = tap(self, "rotary_key", self.pos_emb(key))
            turned_value = tap(self, "rotary_value", self.pos_emb(value))

        query_logits = self.weigh(self.to_q_attn_logits(query), mask)
        query_logits = tap(self, "query_logits", query_logits)  # (B, H, T)
        query_weights = tap(self, "query_weights", F.softmax(query_logits, axis=-1))
        global_query = tap(self, "global_query", self.pool(query_weights, turned_query))

        key_mixed = tap(self, "key_mixed", self.halve(key * global_query))
        key_logits = self.weigh(self.to_k_attn_logits(key_mixed), mask)
        key_logits = tap(self, "key_logits", key_logits)
        key_weights = tap(self, "key_weights", F.softmax(key_logits, axis=-1))
        # The keys as they were, not key_mixed: see above.
        global_key = tap(self, "global_key", self.pool(key_weights, turned_key))

        value_mixed = tap(self, "value_mixed", self.halve(turned_value * global_key))
        heads = tap(self, "heads", self.to_r(value_mixed) + query)  # (B, T, H, D)
        return self.to_out(heads.reshape([x.shape[0], x.shape[1], self.heads * self.dim_head]))


class PreNorm(nn.Layer):
    """LayerNorm in front of a part."""

    def __init__(self, dim, fn):
        super().__init__()
        self.norm = nn.LayerNorm(dim, epsilon=1e-5)
        self.fn = fn

    def forward(self, x, *others):
        """x (B, T, C) -> (B, T, C)"""
        return self.fn(self.norm(x), *others)


class AttentionPooling(nn.Layer):
    """A sequence as one vector: a mean whose weights are learnt.

    Seed 001 gives it no mask, so that padding is pooled too.
    """

    def __init__(self, dim):
        super().__init__()
        self.att_fc1 = nn.Linear(dim, dim)
        self.att_fc2 = nn.Linear(dim, 1)

    def forward(self, x):
        """(B, T, C) -> (B, C)"""
        weights = paddle.exp(self.att_fc2(paddle.tanh(self.att_fc1(x))))  # (B, T, 1)
        weights = weights / (weights.sum(axis=1, keepdim=True) + 1e-8)
        weights = tap(self, "pooling_weights", weights)
        return tap(self, "pooled", paddle.matmul(weights.moveaxis(1, 2), x).squeeze(1))


class Trunk(nn.Layer):
    """Tokens and layers.  Heads are trunks themselves: that gives the reference's keys."""

    def __init__(self, config):
        super().__init__()
        dim, depth = config["dim"], config["depth"]
        heads, dim_head, absolute = config["heads"], config["dim_head"], config["absolute_pos_emb"]
        self.max_seq_len = config["max_seq_len"]
        self.token_emb = nn.Embedding(config["num_tokens"], dim)
        self.abs_pos_emb = nn.Embedding(config["max_seq_len"], dim) if absolute else None
        pos_emb = None if absolute else RotaryEmbedding(dim_head // 2)
        to_q_attn_logits = nn.Linear(dim_head, 1, bias_attr=False)
        to_k_attn_logits = nn.Linear(dim_head if absolute else dim_head // 2, 1, bias_attr=False)
        self.layers = nn.LayerList([])
        for _ in range(depth):
            attention = FastAttention(
                dim, heads, dim_head, to_q_attn_logits, to_k_attn_logits, pos_emb
            )
            inner = config["ff_mult"] * dim
            feed_forward = nn.Sequential(nn.Linear(dim, inner), nn.GELU(), nn.Linear(inner, dim))
            layer = nn.LayerList([PreNorm(dim, attention), PreNorm(dim, feed_forward)])
            self.layers.append(layer)

    def run_layers(self, input_ids, attention_mask):
        """(B, T) int64 and (B, T) or None -> (B, T, C)

        Raises ValueError for more than max_seq_len tokens.
        """
        if input_ids.shape[1] > self.max_seq_len:
            raise ValueError(
                f"fast_transformer: input_ids has {input_ids.shape[1]} tokens; allowed: up to "
                f"max_seq_len, which is {self.max_seq_len}."
            )
        mask = (input_ids if attention_mask is None else attention_mask) != 0  # (B, T) bool
        x = self.token_emb(input_ids)
        if self.abs_pos_emb is not None:
            x = tap(self, "embeddings", x + self.abs_pos_emb.weight[: x.shape[1]])
        for attention, feed_forward in self.layers:
            x = attention(x, mask) + x
            x = feed_forward(x) + x
        return x


class LanguageModel(Trunk):
    """Head "lm": the logits of a token at each place."""

    def __init__(self, config):
        super().__init__(config)
        dim = config["dim"]
        self.to_logits = nn.Sequential(
            nn.LayerNorm(dim, epsilon=1e-5), nn.Linear(dim, config["num_tokens"])
        )

    def forward(self, input_ids, attention_mask=None):
        """input_ids (B, T) int64, attention_mask (B, T) bool or integer (default: input_ids != 0).

        Returns {"logits": (B, T, V)}.  Raises ValueError for more than max_seq_len tokens.
        """
        return {"logits": self.to_logits(self.run_layers(input_ids, attention_mask))}


class PooledTrunk(Trunk):
    """A trunk that ends in one vector."""

    def __init__(self, config):
        super().__init__(config)
        self.dropout_prob = config["dropout"]
        self.pooler = AttentionPooling(config["dim"])

    def forward(self, input_ids, attention_mask):
        """(B, T) int64 and (B, T) or None -> (B, C)"""
        x = self.run_layers(input_ids, attention_mask)
        return self.pooler(dropout(self, "dropout", x, self.dropout_prob))


class Classifier(nn.Layer):
    """Head "classification": the logits of a class."""

    def __init__(self, config):
        super().__init__()
        self.fastformer_model = PooledTrunk(config)
        self.dense_linear = nn.Linear(config["dim"], config["num_labels"])

    def forward(self, input_ids, attention_mask=None):
        """input_ids (B, T) int64, attention_mask (B, T) bool or integer (default: input_ids != 0).

        Returns {"logits": (B, N)}.  Raises ValueError for more than max_seq_len tokens.
        """
        return {"logits": self.dense_linear(self.fastformer_model(input_ids, attention_mask))}


def initialise(model):
    """The reference's initial weights, which are its framework's defaults; others have others.

    Embeddings are N(0, 1), a Linear's weight and bias U(-b, b) with b = 1 / sqrt(inputs).
    """
    for module in model.sublayers(include_self=True):
        if isinstance(module, nn.Embedding):
            nn.initializer.Normal()(module.weight)  # twin: objects
        if isinstance(module, nn.Linear):
            inputs = module.weight.shape[0]  # twin: a Linear weight is transposed in Paddle
            bound = 1.0 / math.sqrt(inputs)
            nn.initializer.Uniform(-bound, bound)(module.weight)  # twin: objects
            if module.bias is not None:
                nn.initializer.Uniform(-bound, bound)(module.bias)  # twin: objects
    return model


def build(config):
    """The model of a configuration; ValueError where it cannot be built (case.complete)."""
    config = complete(config)
    model = LanguageModel(config) if config["head"] == "lm" else Classifier(config)
    return named(initialise(model))


def loss(outputs, inputs):
    """Mean cross-entropy; inputs["labels"] int64, (B, T) for head "lm", else (B)."""
    return cross_entropy(outputs["logits"], inputs["labels"])


def losses(outputs, inputs):
    """Each loss that step 3 compares, per sample and reduced; labels as for `loss`."""
    logits, labels = outputs["logits"], inputs["labels"]
    # 0.5, 0.75, 1, 1.25, 0.5, …: exact in every dtype.
    weight = (paddle.arange(logits.shape[-1]) % 4).astype(logits.dtype) * 0.25 + 0.5  # (V) or (N)
    without_first = labels.masked_fill(labels == 0, -100)
    return {
        "per_sample": cross_entropy(logits, labels, reduction="none"),
        "mean": cross_entropy(logits, labels),
        "sum": cross_entropy(logits, labels, reduction="sum"),
        "class_weights": cross_entropy(logits, labels, weight=weight),
        "label_smoothing": cross_entropy(logits, labels, label_smoothing=0.1),
        "weights_and_smoothing": cross_entropy(logits, labels, weight=weight, label_smoothing=0.1),
        "ignore_index": cross_entropy(logits, without_first, ignore_index=-100),
    }
