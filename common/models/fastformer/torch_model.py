"""Fastformer (Wu et al. 2021, arXiv:2108.09084) for text classification, in PyTorch.

    from twincheck.common.models.fastformer.case import CONFIGS, make_inputs
    from twincheck.common.models.fastformer.torch_model import build

    model = build(CONFIGS["default"])
    outputs = model(input_ids)  # input_ids (B, T) int64, 0 = padding
    outputs["logits"].shape  # (B, num_labels)

Letters: B batch, T tokens, C hidden size, H heads, D = C / H channels per head, N classes.
A mask says 1 = keep.

Structure and parameter names are those of the authors' published code.  It differs from the paper's
section 3 in three things: the logits of a head see the features of all heads, layers do not share
parameters, and each attention is followed by a feed-forward part as in BERT.
"""

import torch
import torch.nn.functional as F
from torch import nn

from twincheck.common.models.fastformer.case import complete
from twincheck.torch_side import cross_entropy, dropout, named, tap

ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu, "tanh": torch.tanh}


class FastSelfAttention(nn.Module):
    """Additive attention (section 3.2): two global vectors per head in place of T x T weights."""

    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.num_heads = num_attention_heads
        self.head_size = hidden_size // num_attention_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.query_att = nn.Linear(hidden_size, num_attention_heads)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.key_att = nn.Linear(hidden_size, num_attention_heads)
        self.transform = nn.Linear(hidden_size, hidden_size)

    def pool(self, weights, x):
        """Sum of x (B, T, C) over the tokens under each head's weights (B, H, T) -> (B, 1, C)"""
        batch, tokens, width = x.shape
        heads = x.reshape([batch, tokens, self.num_heads, self.head_size])
        return torch.einsum("bht,bthd->bhd", weights, heads).reshape([batch, 1, width])

    def forward(self, x, mask_bias):
        """x (B, T, C), mask_bias (B, 1, T): 0 = keep, -10000 = padding -> (B, T, C)"""
        scale = self.head_size**0.5
        query = self.query(x)
        key = self.key(x)

        query_logits = self.query_att(query).moveaxis(1, 2) / scale + mask_bias  # (B, H, T)
        query_logits = tap(self, "query_logits", query_logits)
        query_weights = tap(self, "query_weights", F.softmax(query_logits, dim=-1))
        global_query = tap(self, "global_query", self.pool(query_weights, query))  # (B, 1, C)

        key_mixed = tap(self, "key_mixed", key * global_query)  # (B, T, C): p_i of the paper
        key_logits = self.key_att(key_mixed).moveaxis(1, 2) / scale + mask_bias
        key_logits = tap(self, "key_logits", key_logits)
        key_weights = tap(self, "key_weights", F.softmax(key_logits, dim=-1))
        global_key = tap(self, "global_key", self.pool(key_weights, key_mixed))

        # The value is the query (section 3.2: "we share the value and query transformations").
        value_mixed = tap(self, "value_mixed", query * global_key)
        return self.transform(value_mixed) + query


class AddNorm(nn.Module):
    """Linear, dropout, residual and LayerNorm, in BERT's order."""

    def __init__(self, in_size, out_size, dropout_prob, layer_norm_eps):
        super().__init__()
        self.dropout_prob = dropout_prob
        self.dense = nn.Linear(in_size, out_size)
        self.LayerNorm = nn.LayerNorm(out_size, eps=layer_norm_eps)

    def forward(self, x, residual):
        """x (B, T, in), residual (B, T, out) -> (B, T, out)"""
        x = dropout(self, "dropout", self.dense(x), self.dropout_prob)
        return self.LayerNorm(x + residual)


class FastAttention(nn.Module):
    """Self-attention and what BERT puts behind one."""

    def __init__(self, config):
        super().__init__()
        width = config["hidden_size"]
        self.self = FastSelfAttention(width, config["num_attention_heads"])
        self.output = AddNorm(width, width, config["hidden_dropout_prob"], config["layer_norm_eps"])

    def forward(self, x, mask_bias):
        """x (B, T, C), mask_bias (B, 1, T) -> (B, T, C)"""
        return self.output(self.self(x, mask_bias), x)


class Intermediate(nn.Module):
    """The feed-forward part's first half."""

    def __init__(self, hidden_size, intermediate_size, hidden_act):
        super().__init__()
        self.activation = ACTIVATIONS[hidden_act]
        self.dense = nn.Linear(hidden_size, intermediate_size)

    def forward(self, x):
        """(B, T, C) -> (B, T, intermediate_size)"""
        return self.activation(self.dense(x))


class FastformerLayer(nn.Module):
    """Attention and feed-forward, each followed by its LayerNorm."""

    def __init__(self, config):
        super().__init__()
        width, inner = config["hidden_size"], config["intermediate_size"]
        self.attention = FastAttention(config)
        self.intermediate = Intermediate(width, inner, config["hidden_act"])
        self.output = AddNorm(inner, width, config["hidden_dropout_prob"], config["layer_norm_eps"])

    def forward(self, x, mask_bias):
        """x (B, T, C), mask_bias (B, 1, T) -> (B, T, C)"""
        x = self.attention(x, mask_bias)
        return self.output(self.intermediate(x), x)


class AttentionPooling(nn.Module):
    """A sequence as one vector: a mean whose weights are learnt."""

    def __init__(self, hidden_size):
        super().__init__()
        self.att_fc1 = nn.Linear(hidden_size, hidden_size)
        self.att_fc2 = nn.Linear(hidden_size, 1)

    def forward(self, x, mask):
        """x (B, T, C), mask (B, T) in x's dtype, 1 = keep -> (B, C)"""
        logits = self.att_fc2(torch.tanh(self.att_fc1(x)))  # (B, T, 1)
        weights = torch.exp(logits) * mask.unsqueeze(-1)
        # Not a softmax: a row of padding alone is pooled to 0, thanks to the 1e-8.
        weights = weights / (weights.sum(dim=1, keepdim=True) + 1e-8)
        weights = tap(self, "pooling_weights", weights)
        return tap(self, "pooled", torch.matmul(weights.moveaxis(1, 2), x).squeeze(1))


class FastformerEncoder(nn.Module):
    """Positions, layers and pooling."""

    def __init__(self, config):
        super().__init__()
        width = config["hidden_size"]
        self.dropout_prob = config["hidden_dropout_prob"]
        layers = [FastformerLayer(config) for _ in range(config["num_hidden_layers"])]
        self.encoders = nn.ModuleList(layers)
        self.position_embeddings = nn.Embedding(config["max_position_embeddings"], width)
        self.LayerNorm = nn.LayerNorm(width, eps=config["layer_norm_eps"])
        self.poolers = nn.ModuleList([AttentionPooling(width)])

    def forward(self, x, mask):
        """x (B, T, C) embedded words, mask (B, T), 1 = keep -> (B, C)"""
        mask = mask.to(x.dtype)
        mask_bias = tap(self, "mask_bias", (1.0 - mask.unsqueeze(1)) * -10000.0)  # (B, 1, T)
        positions = self.position_embeddings.weight[: x.shape[1]]  # (T, C)
        x = self.LayerNorm(tap(self, "embeddings", x + positions))
        x = dropout(self, "dropout", x, self.dropout_prob)
        for encoder in self.encoders:
            x = encoder(x, mask_bias)
        return self.poolers[0](x, mask)


class Fastformer(nn.Module):
    """Words to class logits."""

    def __init__(self, config):
        super().__init__()
        self.max_tokens = config["max_position_embeddings"]
        self.dense_linear = nn.Linear(config["hidden_size"], config["num_labels"])
        self.word_embedding = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.fastformer_model = FastformerEncoder(config)
        self.initialize(config["initializer_range"])

    def initialize(self, std):
        """The authors' initial weights: N(0, std), biases 0, gains 1, the padding word 0."""
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, mean=0.0, std=std)  # twin: objects
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)  # twin: objects
        with torch.no_grad():
            self.word_embedding.weight[0] = 0.0

    def embed(self, input_ids):
        """(B, T) int64 -> (B, T, C)

        Padding is looked up like a word, but its row gets no gradient.  That is torch's
        `padding_idx`, written out because Paddle's returns zeros whatever the row holds.
        """
        words = self.word_embedding(input_ids)
        return torch.where((input_ids == 0).unsqueeze(-1), words.detach(), words)

    def forward(self, input_ids, attention_mask=None):
        """input_ids (B, T) int64, attention_mask (B, T) 1 = keep (default: input_ids != 0).

        Returns {"logits": (B, N)}.  Raises ValueError for more tokens than there are positions.
        """
        if input_ids.shape[1] > self.max_tokens:
            raise ValueError(
                f"fastformer: input_ids has {input_ids.shape[1]} tokens; allowed: up to "
                f"max_position_embeddings, which is {self.max_tokens}."
            )
        mask = input_ids != 0 if attention_mask is None else attention_mask
        pooled = self.fastformer_model(self.embed(input_ids), mask)
        return {"logits": self.dense_linear(pooled)}


def build(config):
    """The model of a configuration; ValueError where it cannot be built (case.complete)."""
    return named(Fastformer(complete(config)))


def loss(outputs, inputs):
    """Mean cross-entropy; inputs["labels"] (B) int64."""
    return cross_entropy(outputs["logits"], inputs["labels"])


def losses(outputs, inputs):
    """Each loss that step 3 compares, per sample and reduced; inputs["labels"] (B) int64."""
    logits, labels = outputs["logits"], inputs["labels"]
    # 0.5, 0.75, 1, 1.25, 0.5, …: exact in every dtype.
    weight = (torch.arange(logits.shape[-1]) % 4).to(logits.dtype) * 0.25 + 0.5  # (N)
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
