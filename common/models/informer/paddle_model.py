"""Informer (Zhou et al. 2021, arXiv:2012.07436), in Paddle.

    from twincheck.common.models.informer.case import CONFIGS
    from twincheck.common.models.informer.paddle_model import build

    model = build(CONFIGS["default"])
    outputs = model(x_enc, x_mark_enc, x_dec, x_mark_dec)
    outputs["predictions"].shape  # (B, pred_len, c_out)

Letters: B batch, L rows of a sequence, S rows that are attended to, C width, H heads, D channels
per head, U keys that are sampled for a query, N queries that are chosen, F columns.
"""

import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from twincheck.common.models.informer.case import MAX_LENGTH, TIME_FEATURES, TIME_TABLES, complete
from twincheck.paddle_side import (
    choose_top_k,
    draw_integers,
    dropout,
    keep_unbiased_statistics,
    named,
    regression_loss,
    tap,
    tensor,
)


def sinusoids(rows, width):
    """The table of sinusoids (rows, width), float32; each step of it rounds as the reference's."""
    positions = np.arange(rows, dtype=np.float32).reshape([rows, 1])
    scale = np.float32(-(math.log(10000.0) / width))
    frequencies = np.exp(np.arange(0, width, 2, dtype=np.float32) * scale)
    table = np.zeros([rows, width], dtype=np.float32)
    table[:, 0::2] = np.sin(positions * frequencies)
    table[:, 1::2] = np.cos(positions * frequencies)
    return table


def convolution(channels, filters, width):
    """Along the rows of (B, channels, L); the sequence is a ring where width is 3."""
    if width == 1:
        return nn.Conv1D(channels, filters, 1)  # twin: names
    return nn.Conv1D(channels, filters, 3, padding=1, padding_mode="circular")  # twin: names


class PositionalEmbedding(nn.Layer):
    """Sinusoids of the position; a buffer, since the reference's checkpoints hold it."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("pe", tensor(sinusoids(MAX_LENGTH, width)).unsqueeze(0))

    def forward(self, x):
        """(B, L, F) -> (1, L, C)"""
        return self.pe[:, : x.shape[1]]


class TokenEmbedding(nn.Layer):
    """The columns of a row and of its two neighbours."""

    def __init__(self, columns, width):
        super().__init__()
        self.tokenConv = convolution(columns, width, 3)

    def forward(self, x):
        """(B, L, F) -> (B, L, C)"""
        return self.tokenConv(x.moveaxis(1, 2)).moveaxis(1, 2)


class FixedEmbedding(nn.Layer):
    """A table of sinusoids that is not trained."""

    def __init__(self, rows, width):
        super().__init__()
        self.emb = nn.Embedding(rows, width)
        self.emb.weight.stop_gradient = True  # twin: the opposite flag

    def forward(self, x):
        """(B, L) int64 -> (B, L, C)"""
        return self.emb(x).detach()


class TemporalEmbedding(nn.Layer):
    """The sum of a table's row for each part of a date; the minute where freq has one."""

    def __init__(self, width, embed, freq):
        super().__init__()
        kind = FixedEmbedding if embed == "fixed" else nn.Embedding
        self.minute_embed = kind(TIME_TABLES["minute"], width) if freq == "t" else None
        self.hour_embed = kind(TIME_TABLES["hour"], width)
        self.weekday_embed = kind(TIME_TABLES["weekday"], width)
        self.day_embed = kind(TIME_TABLES["day"], width)
        self.month_embed = kind(TIME_TABLES["month"], width)

    def forward(self, x):
        """x (B, L, 4 or 5): month, day, weekday, hour and minute -> (B, L, C)"""
        x = x.astype(paddle.int64)
        total = self.hour_embed(x[:, :, 3]) + self.weekday_embed(x[:, :, 2])
        total = total + self.day_embed(x[:, :, 1]) + self.month_embed(x[:, :, 0])
        return total if self.minute_embed is None else total + self.minute_embed(x[:, :, 4])


class TimeFeatureEmbedding(nn.Layer):
    """A Linear of features within ±0.5, such as how far the day has gone."""

    def __init__(self, width, freq):
        super().__init__()
        self.embed = nn.Linear(TIME_FEATURES[freq], width)

    def forward(self, x):
        """(B, L, features) -> (B, L, C)"""
        return self.embed(x)


class DataEmbedding(nn.Layer):
    """A row as the sum of what it holds, where it stands and when it was."""

    def __init__(self, columns, config):
        super().__init__()
        width, embed, freq = config["d_model"], config["embed"], config["freq"]
        self.dropout_prob = config["dropout"]
        self.value_embedding = TokenEmbedding(columns, width)
        self.position_embedding = PositionalEmbedding(width)
        if embed == "timeF":
            self.temporal_embedding = TimeFeatureEmbedding(width, freq)
        else:
            self.temporal_embedding = TemporalEmbedding(width, embed, freq)

    def forward(self, x, x_mark):
        """x (B, L, F), x_mark (B, L, columns of the time) -> (B, L, C)"""
        x = self.value_embedding(x) + self.position_embedding(x) + self.temporal_embedding(x_mark)
        return dropout(self, "dropout", tap(self, "embeddings", x), self.dropout_prob)


class FullAttention(nn.Layer):
    """Attention of every query over every key; under a mask over those before it and its own."""

    def __init__(self, mask_flag, config, output_attention=False):
        super().__init__()
        self.mask_flag = mask_flag
        self.dropout_prob = config["dropout"]
        self.output_attention = output_attention

    def forward(self, queries, keys, values):
        """queries (B, L, H, D), keys and values (B, S, H, D) -> (B, L, H, D), weights or None"""
        rows, columns = queries.shape[1], keys.shape[1]
        scores = paddle.einsum("blhd,bshd->bhls", queries, keys)
        scores = tap(self, "scores", scores / math.sqrt(queries.shape[3]))
        if self.mask_flag:
            later = paddle.arange(columns).unsqueeze(0) > paddle.arange(rows).unsqueeze(1)  # (L, S)
            scores = scores.masked_fill(later, -math.inf)
        weights = tap(self, "weights", F.softmax(scores, axis=-1))
        weights = dropout(self, "dropout", weights, self.dropout_prob)
        mixed = tap(self, "mixed", paddle.einsum("bhls,bshd->blhd", weights, values))
        return mixed, weights if self.output_attention else None


class ProbAttention(nn.Layer):
    """Attention of few queries: those whose scores differ most from a mean over all keys.

    How much they differ is told by U keys that are sampled for each place, the same ones for the
    whole batch and for all heads.  Every other query gets the mean of the values, or under a mask
    the sum of the values up to its own place.  Its weights are not dropped, as in the reference.
    """

    def __init__(self, mask_flag, config, output_attention=False):
        super().__init__()
        self.mask_flag = mask_flag
        self.factor = config["factor"]
        self.output_attention = output_attention
        self.given = []  # what to sample next, where the model's caller says so

    def count(self, length):
        """How many of so many rows are sampled, or chosen."""
        return max(1, min(self.factor * math.ceil(math.log(length)), length))

    def sample(self, rows, columns):
        """The sampled keys of each query's place: (L, U) int64.

        Raises ValueError for given ones of another shape.
        """
        shape = [rows, self.count(columns)]
        if not self.given:
            return tap(self, "index_sample", draw_integers(self, "index_sample", shape, columns))
        index = self.given.pop()
        if list(index.shape) != shape:
            raise ValueError(
                f"informer: index_samples has an array {list(index.shape)} where {self._site} "
                f"samples {shape}, queries and keys for each."
            )
        return tap(self, "index_sample", index.astype(paddle.int64))

    def measure(self, queries, keys):
        """How far a query's largest sampled score is from the mean: (B, H, L)

        The scores of all keys are computed, and those of the sample taken: on a CPU that is faster
        than to gather a key for each, and up to some 2000 rows it needs less memory.
        """
        batch, heads, rows = list(queries.shape)[:3]
        columns = keys.shape[2]
        index = self.sample(rows, columns)
        scores = paddle.matmul(queries.detach(), keys.detach().moveaxis(2, 3))  # (B, H, L, S)
        index = index.reshape([1, 1, rows, index.shape[1]])
        index = index.expand([batch, heads, rows, index.shape[3]])
        sampled = tap(self, "sampled_scores", paddle.take_along_axis(scores, index, axis=3))
        return tap(self, "measure", sampled.amax(axis=-1) - sampled.sum(axis=-1) / columns)

    def forward(self, queries, keys, values):
        """queries (B, L, H, D), keys and values (B, S, H, D) -> (B, L, H, D), weights or None"""
        queries, keys, values = [x.moveaxis(1, 2) for x in (queries, keys, values)]
        batch, heads, rows, width = list(queries.shape)
        columns = keys.shape[2]
        measure = self.measure(queries, keys)
        chosen = choose_top_k(self, "top_queries", measure, self.count(rows))  # (B, H, N)
        places = chosen.unsqueeze(-1)  # (B, H, N, 1)
        index = places.expand([batch, heads, chosen.shape[2], width])
        scores = paddle.matmul(paddle.take_along_axis(queries, index, axis=2), keys.moveaxis(2, 3))
        scores = tap(self, "scores", scores / math.sqrt(width))  # (B, H, N, S)
        if self.mask_flag:
            later = paddle.arange(columns).reshape([1, 1, 1, columns]) > places
            scores = scores.masked_fill(later, -math.inf)
        weights = tap(self, "weights", F.softmax(scores, axis=-1))
        mixed = tap(self, "mixed", paddle.matmul(weights, values))  # (B, H, N, D)
        if self.mask_flag:
            context = values.cumsum(axis=2)
        else:
            context = values.mean(axis=2, keepdim=True).expand([batch, heads, rows, width])
        context = tap(self, "context", context)
        context = paddle.put_along_axis(context, index, mixed, 2)  # twin: names
        attention = None
        if self.output_attention:
            attention = paddle.ones([batch, heads, rows, columns], dtype=values.dtype) / columns
            index = places.expand([batch, heads, chosen.shape[2], columns])
            attention = paddle.put_along_axis(attention, index, weights, 2)  # twin: names
        return context.moveaxis(1, 2), attention


class AttentionLayer(nn.Layer):
    """Heads around an attention.

    With `mix` the result is read as (B, H, L, D) when its heads are merged, so that a row of it is
    made of several rows of few heads.
    """

    def __init__(self, attention, config, mix=False):
        super().__init__()
        width, heads = config["d_model"], config["n_heads"]
        inner = width // heads * heads
        self.heads = heads
        self.mix = mix
        self.inner_attention = attention
        self.query_projection = nn.Linear(width, inner)
        self.key_projection = nn.Linear(width, inner)
        self.value_projection = nn.Linear(width, inner)
        self.out_projection = nn.Linear(inner, width)

    def split_heads(self, x):
        """(B, L, H * D) -> (B, L, H, D)"""
        return x.reshape([x.shape[0], x.shape[1], self.heads, x.shape[2] // self.heads])

    def forward(self, queries, keys, values):
        """queries (B, L, C), keys and values (B, S, C) -> (B, L, C), weights or None"""
        batch, rows = queries.shape[0], queries.shape[1]
        queries = self.split_heads(self.query_projection(queries))
        keys = self.split_heads(self.key_projection(keys))
        values = self.split_heads(self.value_projection(values))
        mixed, weights = self.inner_attention(queries, keys, values)
        if self.mix:
            mixed = mixed.moveaxis(1, 2)
        mixed = tap(self, "merged", mixed.reshape([batch, rows, -1]))
        return self.out_projection(mixed), weights


class FeedForward(nn.Layer):
    """What both kinds of layers end in; they are this themselves: that gives the reference's keys.

    Its convolutions are one row wide.
    """

    def __init__(self, config):
        super().__init__()
        self.dropout_prob = config["dropout"]
        self.conv1 = convolution(config["d_model"], config["d_ff"], 1)
        self.conv2 = convolution(config["d_ff"], config["d_model"], 1)
        self.activation = F.relu if config["activation"] == "relu" else F.gelu

    def feed_forward(self, x):
        """(B, L, C) -> (B, L, C)"""
        inner = tap(self, "activation", self.activation(self.conv1(x.moveaxis(1, 2))))
        inner = dropout(self, "dropout_inner", inner, self.dropout_prob)
        return dropout(self, "dropout_outer", self.conv2(inner).moveaxis(1, 2), self.dropout_prob)


class EncoderLayer(FeedForward):
    """Attention and feed-forward part, each added to its input and normalised."""

    def __init__(self, attention, config):
        super().__init__(config)
        self.attention = attention
        self.norm1 = nn.LayerNorm(config["d_model"], epsilon=1e-5)
        self.norm2 = nn.LayerNorm(config["d_model"], epsilon=1e-5)

    def forward(self, x):
        """(B, L, C) -> (B, L, C), weights or None"""
        attended, weights = self.attention(x, x, x)
        x = self.norm1(x + dropout(self, "dropout", attended, self.dropout_prob))
        return self.norm2(x + self.feed_forward(x)), weights


class ConvLayer(nn.Layer):
    """Distilling: half as many rows."""

    def __init__(self, width):
        super().__init__()
        self.downConv = convolution(width, width, 3)
        # The frameworks' running variances would differ by n / (n - 1).
        self.norm = keep_unbiased_statistics(nn.BatchNorm1D(width))  # twin: names

    def forward(self, x):
        """(B, L, C) -> (B, (L + 1) // 2, C)"""
        x = tap(self, "elu", F.elu(self.norm(self.downConv(x.moveaxis(1, 2)))))
        return F.max_pool1d(x, kernel_size=3, stride=2, padding=1).moveaxis(1, 2)


class Encoder(nn.Layer):
    """Layers with distilling between them."""

    def __init__(self, layers, config):
        super().__init__()
        attention = ProbAttention if config["attn"] == "prob" else FullAttention
        self.attn_layers = nn.LayerList([])
        for _ in range(layers):
            inner = attention(False, config, config["output_attention"])
            self.attn_layers.append(EncoderLayer(AttentionLayer(inner, config), config))
        between = layers - 1 if config["distil"] else 0
        convs = [ConvLayer(config["d_model"]) for _ in range(between)]
        self.conv_layers = nn.LayerList(convs) if config["distil"] else None
        self.norm = nn.LayerNorm(config["d_model"], epsilon=1e-5)

    def forward(self, x):
        """(B, L, C) -> (B, rows that are left, C), each layer's weights or None"""
        attentions = []
        for i, layer in enumerate(self.attn_layers):
            x, weights = layer(x)
            attentions.append(weights)
            if self.conv_layers is not None and i < len(self.conv_layers):
                x = self.conv_layers[i](x)
        return self.norm(x), attentions


class EncoderStack(nn.Layer):
    """Encoders, each of which reads the last half of what the one before it read."""

    def __init__(self, config):
        super().__init__()
        self.encoders = nn.LayerList([Encoder(layers, config) for layers in config["e_layers"]])

    def forward(self, x):
        """(B, L, C) -> (B, rows of all encoders, C), each encoder's weights or None"""
        parts, attentions = [], []
        for i, encoder in enumerate(self.encoders):
            part, weights = encoder(x[:, x.shape[1] - x.shape[1] // 2**i :])
            parts.append(part)
            attentions.append(weights)
        return tap(self, "stacked", paddle.concat(parts, axis=1)), attentions


class DecoderLayer(FeedForward):
    """Masked attention, attention over the encoder's rows and the feed-forward part."""

    def __init__(self, self_attention, cross_attention, config):
        super().__init__(config)
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.norm1 = nn.LayerNorm(config["d_model"], epsilon=1e-5)
        self.norm2 = nn.LayerNorm(config["d_model"], epsilon=1e-5)
        self.norm3 = nn.LayerNorm(config["d_model"], epsilon=1e-5)

    def forward(self, x, cross):
        """x (B, L, C), cross (B, S, C) -> (B, L, C)"""
        attended = dropout(self, "dropout_self", self.self_attention(x, x, x)[0], self.dropout_prob)
        x = self.norm1(x + attended)
        attended = self.cross_attention(x, cross, cross)[0]
        x = self.norm2(x + dropout(self, "dropout_cross", attended, self.dropout_prob))
        return self.norm3(x + self.feed_forward(x))


class Decoder(nn.Layer):
    """Layers that write the forecast at once, not row by row."""

    def __init__(self, config):
        super().__init__()
        attention = ProbAttention if config["attn"] == "prob" else FullAttention
        self.layers = nn.LayerList([])
        for _ in range(config["d_layers"]):
            own = AttentionLayer(attention(True, config), config, config["mix"])
            cross = AttentionLayer(FullAttention(False, config), config)
            self.layers.append(DecoderLayer(own, cross, config))
        self.norm = nn.LayerNorm(config["d_model"], epsilon=1e-5)

    def forward(self, x, cross):
        """x (B, L, C), cross (B, S, C) -> (B, L, C)"""
        for layer in self.layers:
            x = layer(x, cross)
        return self.norm(x)


class Informer(nn.Layer):
    """informer, or with an encoder for each of s_layers informer_stack."""

    def __init__(self, config):
        super().__init__()
        self.pred_len = config["pred_len"]
        self.output_attention = config["output_attention"]
        self.enc_embedding = DataEmbedding(config["enc_in"], config)
        self.dec_embedding = DataEmbedding(config["dec_in"], config)
        stacked = config["model"] == "informer_stack"
        self.encoder = EncoderStack(config) if stacked else Encoder(config["e_layers"], config)
        self.decoder = Decoder(config)
        self.projection = nn.Linear(config["d_model"], config["c_out"])

    def hand_out(self, index_samples):
        """Give each ProbSparse attention what it is to sample, in the order in which they run.

        Raises ValueError for another number of arrays.
        """
        modules = self.sublayers(include_self=True)
        layers = [module for module in modules if isinstance(module, ProbAttention)]
        if len(index_samples) != len(layers):
            raise ValueError(
                f"informer: index_samples has {len(index_samples)} arrays; allowed: one for each "
                f"ProbSparse attention, of which there are {len(layers)}."
            )
        for i, layer in enumerate(layers):  # not zip(strict=True), which paddle.jit refuses
            index = index_samples[i]
            layer.given = [tensor(index) if isinstance(index, np.ndarray) else index]

    def forward(
        self,
        x_enc,
        x_mark_enc,
        x_dec,
        x_mark_dec,
        index_samples=None,
        target_mean=None,
        target_std=None,
    ):
        """The forecast of the last pred_len rows of the decoder's.

        x_enc          (B, seq_len, enc_in), and x_mark_enc its times (B, seq_len, columns)
        x_dec          (B, label_len + pred_len, dec_in), and x_mark_dec its times
        index_samples  a list of (L, U), one for each ProbSparse attention; by default the tape's
        target_mean    and target_std, (B, c_out): the forecast is given in these units

        Returns {"predictions": (B, pred_len, c_out)}, with output_attention also "attentions", the
        encoder's weights.  Raises ValueError for index_samples that do not fit.
        """
        if index_samples is not None:
            self.hand_out(index_samples)
        encoded, attentions = self.encoder(self.enc_embedding(x_enc, x_mark_enc))
        decoded = self.decoder(self.dec_embedding(x_dec, x_mark_dec), encoded)
        predictions = self.projection(decoded)[:, decoded.shape[1] - self.pred_len :]
        if target_std is not None:
            predictions = predictions * target_std.unsqueeze(1) + target_mean.unsqueeze(1)
        outputs = {"predictions": predictions}
        if self.output_attention:
            outputs["attentions"] = attentions
        return outputs


def initialise(model):
    """The reference's initial weights, which are its framework's defaults; others have others.

    Embeddings are N(0, 1); weights and biases of Linears and convolutions U(-b, b) with
    b = 1 / sqrt(inputs), but for those of the values: N(0, 2 / inputs).
    """
    for module in model.sublayers(include_self=True):
        if isinstance(module, nn.Embedding):
            nn.initializer.Normal(0.0, 1.0)(module.weight)  # twin: objects
        if isinstance(module, nn.Linear | nn.Conv1D):  # twin: names
            inputs = math.prod(module.weight.shape) // module.bias.shape[0]
            bound = 1.0 / math.sqrt(inputs)
            nn.initializer.Uniform(-bound, bound)(module.weight)  # twin: objects
            nn.initializer.Uniform(-bound, bound)(module.bias)  # twin: objects
    for module in model.sublayers(include_self=True):
        if isinstance(module, TokenEmbedding):
            weight = module.tokenConv.weight
            deviation = math.sqrt(2.0 / math.prod(weight.shape[1:]))
            nn.initializer.Normal(0.0, deviation)(weight)  # twin: objects
        if isinstance(module, FixedEmbedding):
            table = tensor(sinusoids(*module.emb.weight.shape))
            module.emb.weight.set_value(table)  # twin: names
    return model


def build(config):
    """The model of a configuration; ValueError where it cannot be built (case.complete)."""
    return named(initialise(Informer(complete(config))))


def targets(outputs, inputs):
    """What is to be forecast, in the predictions' place: the last rows and columns of the labels.

    They are called labels, or y as in the reference.
    """
    rows, columns = list(outputs["predictions"].shape)[1:]
    labels = inputs["labels"] if "labels" in inputs else inputs["y"]
    return labels[:, labels.shape[1] - rows :, labels.shape[2] - columns :]


def loss(outputs, inputs):
    """Mean squared error; inputs["labels"] (B, pred_len or more, c_out or more)."""
    return regression_loss(outputs["predictions"], targets(outputs, inputs))


def losses(outputs, inputs):
    """Each loss that step 3 compares, of each value and reduced; labels as for `loss`."""
    predictions, labels = outputs["predictions"], targets(outputs, inputs)
    return {
        f"{kind}_{reduction}": regression_loss(predictions, labels, kind, reduction)
        for kind in ("mse", "mae", "huber")
        for reduction in ("none", "mean", "sum")
    }
