"""Reformer (Kitaev, Kaiser, Levskaya 2020, arXiv:2001.04451), in PyTorch.

    from twincheck.common.models.reformer.case import CONFIGS
    from twincheck.common.models.reformer.torch_model import build

    model = build(CONFIGS["default"])
    outputs = model(input_ids)  # input_ids (B, T) int64
    outputs["logits"].shape  # (B, T, vocab_size)

The state dict and the results are those of transformers 4 (its version 5 ignores lm_head.bias).

Letters: B batch, T tokens, C hidden size, H heads, D channels per head, R hash rounds, K buckets,
N chunks of c tokens, M keys that a chunk sees (its own and its neighbours'), V vocabulary.
Masks say True for keep.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from twincheck.common.models.reformer.case import bucket_factors, complete, padding_length
from twincheck.torch_side import (
    choose,
    cross_entropy,
    current,
    draw_normal,
    dropout,
    named,
    tap,
    watch,
)

MASKED = -1e9
# Above MASKED: a token that may see nothing else sees itself.
SELF_MASKED = -1e5


# ---- tensors ------------------------------------------------------------------------------------


def log_sum_exp(x, axis):
    """log(sum(exp(x))) along one axis, which stays with size 1; of any number of axes."""
    largest = torch.amax(x.detach(), dim=axis, keepdim=True)
    return torch.log(torch.exp(x - largest).sum(dim=axis, keepdim=True)) + largest


def beside_softmax(x, softmax):
    """log_sum_exp of the last axis from its softmax, and what exp(x - log_sum_exp) is beside that.

    The second is 1 but for the logarithm's rounding, which is large beside values such as -1e9.
    The first one's gradient is the softmax: Paddle takes long for that of a maximum.
    """
    each, values = softmax.detach(), x.detach()
    of_softmax = torch.amax(each, dim=-1, keepdim=True)
    largest = torch.amax(values, dim=-1, keepdim=True)
    logits = largest - torch.log(of_softmax)
    seen = (each * x).sum(dim=-1, keepdim=True)
    return logits + (seen - seen.detach()), torch.exp(largest - logits) / of_softmax


def take_rows(x, index):
    """x (B, H, S, D), index (B, H, J) int64 -> (B, H, J, D): rows of S, for each batch and head."""
    batch, heads, rows, width = x.shape
    first = torch.arange(batch * heads).reshape([batch, heads, 1]) * rows
    taken = torch.index_select(
        x.reshape([batch * heads * rows, width]), dim=0, index=(index + first).reshape([-1])
    )
    return taken.reshape([batch, heads, index.shape[2], width])


def unsort(x, undo_order):
    """x (B, H, R, T, D) in each round's sorted order -> in the tokens' own order."""
    batch, heads, rounds, tokens, width = x.shape
    first = torch.arange(rounds).reshape([1, 1, rounds, 1]) * tokens
    index = (undo_order + first).reshape([batch, heads, rounds * tokens])
    rows = take_rows(x.reshape([batch, heads, rounds * tokens, width]), index)
    return rows.reshape([batch, heads, rounds, tokens, width])


def split_heads(x, heads):
    """(B, T, H * D) -> (B, H, T, D)"""
    batch, tokens, width = x.shape
    return x.reshape([batch, tokens, heads, width // heads]).moveaxis(1, 2)


def merge_heads(x):
    """(B, H, T, D) -> (B, T, H * D)"""
    batch, heads, tokens, width = x.shape
    return x.moveaxis(1, 2).reshape([batch, tokens, heads * width])


def look_around(x, before, after):
    """x (B, H, N, c, …): each chunk with its neighbours -> (B, H, N, M, …); the ends are joined."""
    if before == 0 and after == 0:
        return x
    shifted = [torch.roll(x, -i, 2) if i else x for i in range(-before, after + 1)]
    return torch.cat(shifted, dim=3)


def lay_out(query_positions, key_positions):
    """Positions (…, c) and (…, M) int64 -> both (…, c, M) int32, to compare one by one.

    Paddle takes six times as long for a comparison that broadcasts both.
    """
    shape = list(key_positions.shape)
    shape.insert(-1, query_positions.shape[-1])
    each = query_positions.unsqueeze(-1), key_positions.unsqueeze(-2)
    return [positions.to(torch.int32).expand(shape) for positions in each]


def attend(module, query_key_dots, value, dropout_prob, with_logits=True):
    """Dots (…, c, M) after the masks, value (…, M, D) -> context (…, c, D), logits (…, c, 1).

    Written out where each step is looked at, and in eval mode.  In training the softmax is one
    operator: an exp of keys that a mask hides is slow, and in Paddle no 0 but a number so small
    that its products may be slow as well.  The logits, and what they change, may be left out where
    nothing is made of them and each query sees a key.
    """
    if current().probing or not module.training:
        logits = tap(module, "logits", log_sum_exp(query_key_dots, -1))
        probs = tap(module, "attention_probs", torch.exp(query_key_dots - logits))
        probs = dropout(module, "dropout", probs, dropout_prob)
        return tap(module, "context", torch.matmul(probs, value)), logits
    probs = F.softmax(query_key_dots, dim=-1)
    context = torch.matmul(dropout(module, "dropout", probs, dropout_prob), value)
    if not with_logits:
        return context, None
    logits, rounding = beside_softmax(query_key_dots, probs)
    return context * rounding, logits


def run_chunked(function, x, chunk_size, name):
    """function(x) for x (B, T, C), `chunk_size` tokens at a time; 0: all at once.

    Raises ValueError where T is no multiple of the size.  (Section 3 of the paper.)
    """
    if chunk_size == 0:
        return function(x)
    if x.shape[1] % chunk_size:
        raise ValueError(
            f"reformer: {name} is {chunk_size}; allowed: 0, or a divisor of {x.shape[1]} tokens."
        )
    chunks = [x[:, i : i + chunk_size] for i in range(0, x.shape[1], chunk_size)]
    return torch.cat([function(chunk) for chunk in chunks], dim=1)


# ---- embeddings ---------------------------------------------------------------------------------


class AxialPositionEmbeddings(nn.Module):
    """A position's vector: its row's and its column's, side by side, on a grid of all positions."""

    def __init__(self, config):
        super().__init__()
        self.shape = config["axial_pos_shape"]
        self.dims = config["axial_pos_embds_dim"]
        self.dropout_prob = config["hidden_dropout_prob"]
        (rows, columns), (first, second) = self.shape, self.dims
        self.weights = nn.ParameterList([])
        self.weights.append(nn.Parameter(torch.empty([rows, 1, first])))
        self.weights.append(nn.Parameter(torch.empty([1, columns, second])))

    def forward(self, position_ids):
        """position_ids (B, T) int64 -> (B, T, C)"""
        (rows, columns), (first, second) = self.shape, self.dims
        by_row = F.embedding(position_ids // columns, self.weights[0].reshape([rows, first]))
        by_column = F.embedding(position_ids % columns, self.weights[1].reshape([columns, second]))
        grid = torch.cat([by_row, by_column], dim=-1)
        if self.training:
            # A column is dropped as a whole, in all rows (the reference's dropout2d).
            batch = position_ids.shape[0]
            grid = grid.reshape([batch, rows, columns, first + second])
            mask_shape = [batch, 1, columns, 1]
            grid = dropout(self, "dropout", grid, self.dropout_prob, mask_shape=mask_shape)
            grid = grid.reshape([batch, rows * columns, first + second])
        return grid


class PositionEmbeddings(nn.Module):
    """One vector a position."""

    def __init__(self, config):
        super().__init__()
        self.dropout_prob = config["hidden_dropout_prob"]
        self.embedding = nn.Embedding(config["max_position_embeddings"], config["hidden_size"])

    def forward(self, position_ids):
        """position_ids (B, T) int64 -> (B, T, C)"""
        return dropout(self, "dropout", self.embedding(position_ids), self.dropout_prob)


class Embeddings(nn.Module):
    """Words and positions."""

    def __init__(self, config):
        super().__init__()
        self.dropout_prob = config["hidden_dropout_prob"]
        self.word_embeddings = nn.Embedding(config["vocab_size"], config["hidden_size"])
        axial = config["axial_pos_embds"]
        self.position_embeddings = (AxialPositionEmbeddings if axial else PositionEmbeddings)(
            config
        )

    def forward(self, input_ids, position_ids):
        """Both (B, T) int64 -> (B, T, C)"""
        # Dropout on the words alone: positions have their own.
        words = dropout(self, "dropout", self.word_embeddings(input_ids), self.dropout_prob)
        return tap(self, "embeddings", words + self.position_embeddings(position_ids))


# ---- attention ----------------------------------------------------------------------------------


class LocalSelfAttention(nn.Module):
    """Each chunk attends to itself and its neighbours."""

    def __init__(self, config):
        super().__init__()
        self.heads = config["num_attention_heads"]
        self.head_size = config["attention_head_size"]
        self.chunk_length = config["local_attn_chunk_length"]
        self.before = config["local_num_chunks_before"]
        self.after = config["local_num_chunks_after"]
        self.causal = config["is_decoder"]
        self.dropout_prob = config["local_attention_probs_dropout_prob"]
        width = self.heads * self.head_size
        self.query = nn.Linear(config["hidden_size"], width, bias=False)
        self.key = nn.Linear(config["hidden_size"], width, bias=False)
        self.value = nn.Linear(config["hidden_size"], width, bias=False)

    def forward(self, hidden_states, attention_mask, rotations=None, buckets=None, cache=None):
        """hidden_states (B, T, C), attention_mask (B, T) int64 or None -> (B, T, H * D), None

        The third and fourth arguments, and the last result, are for the other kind of attention.
        A cache (LayerCache) that holds earlier tokens is attended to: see `decode`.
        """
        if cache is not None and cache.filled:
            return self.decode(hidden_states, cache), None
        batch, tokens, _ = hidden_states.shape
        query = tap(self, "query_heads", split_heads(self.query(hidden_states), self.heads))
        key = tap(self, "key_heads", split_heads(self.key(hidden_states), self.heads))
        value = tap(self, "value_heads", split_heads(self.value(hidden_states), self.heads))
        key = tap(self, "key_scaled", key / math.sqrt(self.head_size))
        positions = tap(self, "position_indices", torch.arange(tokens))
        # Up to a chunk's length all tokens are one chunk, which has no neighbours.
        length = self.chunk_length if tokens > self.chunk_length else tokens
        before, after = (self.before, self.after) if tokens > length else (0, 0)
        count = tokens // length
        chunks = [batch, self.heads, count, length, self.head_size]
        query = query.reshape(chunks)
        key = look_around(key.reshape(chunks), before, after)  # (B, H, N, M, D)
        value = look_around(value.reshape(chunks), before, after)
        query_positions = positions.reshape([1, 1, count, length])
        key_positions = look_around(query_positions, before, after)

        dots = torch.matmul(query, key.moveaxis(3, 4))
        dots = tap(self, "query_key_dots", dots)  # (B, H, N, c, M)
        mask = None
        if self.causal:
            query_positions, key_positions = lay_out(query_positions, key_positions)
            mask = query_positions >= key_positions  # (1, 1, N, c, M)
        if attention_mask is not None:
            seen = look_around(attention_mask.reshape([batch, 1, count, length]), before, after)
            seen = (seen != 0).unsqueeze(3)  # (B, 1, N, 1, M)
            mask = seen if mask is None else mask & seen
        if mask is not None:
            dots = dots.masked_fill(~tap(self, "mask", mask), MASKED)
        dots = tap(self, "dots_masked", dots)
        masked = attention_mask is not None
        context, _ = attend(self, dots, value, self.dropout_prob, masked)
        context = context.reshape([batch, self.heads, tokens, self.head_size])
        return tap(self, "context_merged", merge_heads(context)), None

    def decode(self, hidden_states, cache):
        """The newest token (B, 1, C), which is the cache's last state too -> (B, 1, H * D).

        It sees its own chunk so far and `before` chunks more, as it does without a cache.  With two
        chunks before or more and fewer in the cache, the first chunk to see has a negative number;
        the reference then counts from the end and sees fewer tokens, and so does this.
        """
        earlier = cache.states.shape[1] - 1
        first = (earlier // self.chunk_length - self.before) * self.chunk_length
        first = first if first >= 0 else max(0, earlier + first)
        seen = cache.states[:, first:]  # (B, M, C)
        query = tap(self, "query_heads", split_heads(self.query(hidden_states), self.heads))
        key = tap(self, "key_heads", split_heads(self.key(seen), self.heads))  # (B, H, M, D)
        value = tap(self, "value_heads", split_heads(self.value(seen), self.heads))
        key = tap(self, "key_scaled", key / math.sqrt(self.head_size))
        dots = tap(self, "query_key_dots", torch.matmul(query, key.moveaxis(2, 3)))  # (B, H, 1, M)
        context, _ = attend(self, dots, value, self.dropout_prob)
        return tap(self, "context_merged", merge_heads(context))


class LSHSelfAttention(nn.Module):
    """Tokens attend to tokens in the same bucket of a locality-sensitive hash (section 2)."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.heads = config["num_attention_heads"]
        self.head_size = config["attention_head_size"]
        self.chunk_length = config["lsh_attn_chunk_length"]
        self.before = config["lsh_num_chunks_before"]
        self.after = config["lsh_num_chunks_after"]
        self.rounds = config["num_hashes"]
        self.causal = config["is_decoder"]
        self.dropout_prob = config["lsh_attention_probs_dropout_prob"]
        self.factors = None  # of the number of buckets, once the first length is seen
        width = self.heads * self.head_size
        self.query_key = nn.Linear(config["hidden_size"], width, bias=False)
        self.value = nn.Linear(config["hidden_size"], width, bias=False)

    def hash(self, vectors, attention_mask, rotations):
        """vectors (B, H, T, D), rotations (H, D, R, half of the factors' sum) or None: the tape's.

        Returns buckets (B, H, R, T) int64, 0 to K - 1; K where the mask hides a token.
        """
        batch, _, tokens, _ = vectors.shape
        self.factors = self.factors or bucket_factors(self.config, tokens)
        shape = [self.heads, self.head_size, self.rounds, sum(self.factors) // 2]
        if rotations is None:
            rotations = draw_normal(self, "rotations", shape, vectors)
        if list(rotations.shape) != shape:
            raise ValueError(
                f"reformer: rotations of a layer have shape {list(rotations.shape)}; allowed: "
                f"{shape} (heads, head size, hashes, half of the sum of the buckets' factors)."
            )
        rotations = tap(self, "hash_rotations", rotations.to(vectors.dtype))
        flat = rotations.reshape(shape[:2] + [shape[2] * shape[3]])
        rotated = torch.matmul(vectors.detach(), flat)
        rotated = rotated.reshape([batch, self.heads, tokens] + shape[2:]).moveaxis(2, 3)
        rotated = tap(self, "rotated_vectors", rotated)  # (B, H, R, T, width)
        buckets, column, product = 0, 0, 1
        for factor in self.factors:
            part = rotated[..., column : column + factor // 2]
            choice = choose(self, "bucket_choice", torch.cat([part, -part], dim=-1))
            buckets = buckets + product * choice
            column, product = column + factor // 2, product * factor
        if attention_mask is not None:
            seen = (attention_mask != 0).reshape([batch, 1, 1, tokens])
            buckets = torch.where(seen, buckets, torch.full_like(buckets, product))
        return tap(self, "buckets", buckets)

    def norm_key(self, vectors):
        """Vectors (…, D) divided by their root mean square, then by the square root of D."""
        mean_square = (vectors * vectors).mean(dim=-1, keepdim=True)
        return vectors * torch.rsqrt(mean_square + 1e-6) / math.sqrt(self.head_size)

    def forward(self, hidden_states, attention_mask, rotations=None, buckets=None, cache=None):
        """hidden_states (B, T, C), attention_mask (B, T) int64 or None, rotations: see hash.

        Returns (B, T, H * D) and the buckets (B, H, R, T), None where nothing was hashed.  Buckets
        that are given are used: a recomputation's vectors differ by rounding, and so could they.
        A cache (LayerCache) gets this pass's buckets; one that holds earlier tokens: see `decode`.
        """
        if cache is not None and cache.filled:
            return self.decode(hidden_states, rotations, cache), None
        batch, tokens, _ = hidden_states.shape
        query_key = split_heads(self.query_key(hidden_states), self.heads)
        query_key = tap(self, "query_key_heads", query_key)
        value = tap(self, "value_heads", split_heads(self.value(hidden_states), self.heads))
        if tokens <= self.chunk_length:
            positions = tap(self, "position_indices", torch.arange(tokens)).reshape([1, 1, tokens])
            context, _ = self.attend_sorted(
                query_key, value, positions, attention_mask, tokens, 0, 0
            )
            return tap(self, "context_merged", merge_heads(context)), None

        if buckets is None:
            buckets = self.hash(query_key, attention_mask, rotations)
        if cache is not None:
            hidden = attention_mask is not None and bool((attention_mask == 0).any())
            cache.buckets = self.number_by_round(buckets, hidden)[:, :, :, : cache.tokens]
        # By bucket within each round, equal buckets in the tokens' order, however it sorts.
        order = torch.argsort(buckets * tokens + torch.arange(tokens), dim=-1)
        order = tap(self, "sorted_order", order)  # (B, H, R, T), the tokens' positions
        undo_order = tap(self, "undo_order", torch.argsort(order, dim=-1))
        positions = order.reshape([batch, self.heads, self.rounds * tokens])
        context, logits = self.attend_sorted(
            take_rows(query_key, positions),
            take_rows(value, positions),
            positions,
            attention_mask,
            self.chunk_length,
            self.before,
            self.after,
        )
        by_round = [batch, self.heads, self.rounds, tokens]
        context = tap(self, "context_sorted", context.reshape(by_round + [self.head_size]))
        if logits is not None:
            logits = tap(self, "logits_sorted", logits.reshape(by_round + [1]))
        context = tap(self, "context_unsorted", unsort(context, undo_order))
        if logits is not None:
            logits = tap(self, "logits_unsorted", unsort(logits, undo_order))
        if self.rounds == 1:
            context = context.squeeze(2)
        else:
            # A round counts by how much of the attention would fall on its bucket.
            weights = tap(self, "merge_weights", torch.exp(logits - log_sum_exp(logits, 2)))
            context = tap(self, "context_rounds_merged", (context * weights).sum(dim=2))
        return tap(self, "context_merged", merge_heads(context)), buckets

    def attend_sorted(self, query, value, positions, attention_mask, length, before, after):
        """query, value (B, H, S, D) in sorted order, positions (B or 1, H or 1, S) of their tokens.

        Returns context (B, H, S, D) and logits (B, H, N, c, 1), None where nobody needs them.
        Chunks may see another round's.
        """
        batch, heads, rows, width = query.shape
        count = rows // length
        query = query.reshape([batch, heads, count, length, width])
        key = tap(self, "key_normalised", self.norm_key(query))
        key = look_around(key, before, after)  # (B, H, N, M, D)
        value = look_around(value.reshape([batch, heads, count, length, width]), before, after)
        query_positions = positions.reshape(list(positions.shape[:2]) + [count, length])
        key_positions = look_around(query_positions, before, after)

        dots = torch.matmul(query, key.moveaxis(3, 4))
        dots = tap(self, "query_key_dots", dots)  # (B, H, N, c, M)
        query_each, key_each = lay_out(query_positions, key_positions)  # (B, H, N, c, M)
        mask = query_each >= key_each if self.causal else None
        if attention_mask is not None:
            seen = self.take_mask(attention_mask, key_positions).unsqueeze(3)
            mask = seen if mask is None else mask & seen
        if mask is not None:
            dots = dots.masked_fill(~tap(self, "mask", mask), MASKED)
        dots = tap(self, "dots_masked", dots)
        # After the mask, so that it also lifts a token that the mask hides.
        self_mask = tap(self, "self_mask", query_each != key_each)
        dots = tap(self, "dots_self_masked", dots.masked_fill(~self_mask, SELF_MASKED))
        # In several rounds, or where so few chunks are joined, a token may see just itself, twice.
        several = self.rounds > 1 or 1 < count <= before + after
        context, logits = attend(self, dots, value, self.dropout_prob, several)
        return context.reshape([batch, heads, rows, width]), logits

    def number_by_round(self, buckets, hidden):
        """Buckets (B, H, R, T) -> the same, so numbered that no two rounds have one in common.

        hidden: True where there is one bucket more, of tokens that the mask hides.  A cache holds
        them so, as the reference's does.
        """
        count = math.prod(self.factors) + int(hidden)
        return buckets + torch.arange(self.rounds).reshape([1, 1, self.rounds, 1]) * count

    def decode(self, hidden_states, rotations, cache):
        """The newest token (B, 1, C), which is the cache's last state too -> (B, 1, H * D).

        This is the reference's rule, and not what the whole sequence without a cache would give.
        Until as many tokens are there as a chunk has, the newest sees all others, and nothing is
        hashed.  With the token that fills the chunk (or the next, after a prompt of just a chunk)
        all are hashed at once.  From then on the newest alone is hashed; in each round all tokens
        are sorted by bucket, and it sees the chunk of that order which it falls in, with that
        chunk's neighbours.  The ends are joined: where fewer tokens are there than it looks at,
        some count twice.  It sees itself only where it is alone.  Once hashed, all samples of a
        batch look up the first one's states: decode one sample at a time for text that means
        something.
        """
        batch, tokens, _ = cache.states.shape
        query = split_heads(self.query_key(hidden_states), self.heads)
        query = tap(self, "query_key_heads", query)  # (B, H, 1, D)
        if cache.buckets is None:
            vectors = split_heads(self.query_key(cache.states), self.heads)
            value = split_heads(self.value(cache.states), self.heads)
            if tokens >= self.chunk_length:
                buckets = self.hash(vectors, None, rotations)
                cache.buckets = self.number_by_round(buckets, False)
            groups = [batch, self.heads, 1, tokens, self.head_size]
            positions = torch.arange(tokens).reshape([1, 1, 1, tokens])
        else:
            positions = self.find_neighbours(query, rotations, cache)  # (B, H, R, M)
            groups = [batch, self.heads, self.rounds, positions.shape[3], self.head_size]
            # The first sample's states for all of them: the reference's offset of the others comes
            # to 0.  Queries and buckets are each sample's own.
            rows = torch.index_select(cache.states[0], dim=0, index=positions.reshape([-1]))
            rows = rows.reshape([batch, self.heads, self.rounds * groups[3], rows.shape[1]])
            vectors = self.project(self.query_key, rows)
            value = self.project(self.value, rows)
        positions = tap(self, "position_indices", positions)
        value = tap(self, "value_heads", value).reshape(groups)
        key = tap(self, "key_normalised", self.norm_key(vectors)).reshape(groups)
        query = query.reshape([batch, self.heads, 1, 1, self.head_size])
        dots = torch.matmul(query, key.moveaxis(3, 4))
        dots = tap(self, "query_key_dots", dots)  # (B, H, R or 1, 1, M)
        self_mask = tap(self, "self_mask", positions != tokens - 1).unsqueeze(3)
        dots = tap(self, "dots_self_masked", dots.masked_fill(~self_mask, SELF_MASKED))
        context, logits = attend(self, dots, value, self.dropout_prob)
        if groups[2] > 1:
            weights = tap(self, "merge_weights", torch.exp(logits - log_sum_exp(logits, 2)))
            context = tap(self, "context_rounds_merged", (context * weights).sum(dim=2))
        context = context.reshape([batch, self.heads, 1, self.head_size])
        return tap(self, "context_merged", merge_heads(context))

    def find_neighbours(self, query, rotations, cache):
        """Enter the newest token's buckets in the cache; query (B, H, 1, D) is its own.

        Returns positions (B, H, R, M) int64 of the tokens that it sees in each round, itself among
        them: M is the length of a chunk and its neighbours.
        """
        # Rounds are numbered with the bucket of hidden tokens where the cache's largest number
        # tells that there was one.  With few buckets seen it may not, and the newest token's number
        # is then lower than theirs: the reference's rule.
        length = cache.buckets.shape[3]
        self.factors = self.factors or bucket_factors(self.config, length)
        hidden = int(cache.buckets.max()) > self.rounds * math.prod(self.factors) - 1
        buckets = self.number_by_round(self.hash(query, None, rotations), hidden)  # (B, H, R, 1)
        # It comes last among its equals.
        rank = (cache.buckets <= buckets).to(torch.int64).sum(dim=-1)  # (B, H, R)
        cache.buckets = torch.cat([cache.buckets, buckets], dim=-1)
        tokens = cache.buckets.shape[3]
        order = torch.argsort(cache.buckets * tokens + torch.arange(tokens), dim=-1)
        order = tap(self, "sorted_order", order)
        first = (rank // self.chunk_length - self.before) * self.chunk_length
        seen = torch.arange((self.before + 1 + self.after) * self.chunk_length)
        return torch.take_along_dim(order, (first.unsqueeze(3) + seen) % tokens, dim=-1)

    def project(self, linear, rows):
        """rows (B, H, J, C), of each head its own, through that head's part of a linear layer.

        Returns (B, H, J, D).
        """
        shape = [self.heads, self.head_size, rows.shape[3]]  # twin: Paddle's weight is transposed
        weight = linear.weight.reshape(shape).moveaxis(1, 2)  # twin: Paddle's weight is transposed
        return torch.matmul(rows, weight)  # by weight (H, C, D)

    def take_mask(self, attention_mask, positions):
        """attention_mask (B, T) at positions (B or 1, H or 1, N, M) -> (B, H or 1, N, M) bool"""
        batch, tokens = attention_mask.shape
        index = positions + torch.arange(batch).reshape([batch, 1, 1, 1]) * tokens
        taken = torch.index_select(
            attention_mask.reshape([batch * tokens]), dim=0, index=index.reshape([-1])
        )
        return taken.reshape(index.shape) != 0


class AttentionOutput(nn.Module):
    """Heads back to the stream's width."""

    def __init__(self, config):
        super().__init__()
        width = config["num_attention_heads"] * config["attention_head_size"]
        self.dropout_prob = config["hidden_dropout_prob"]
        self.dense = nn.Linear(width, config["hidden_size"], bias=False)

    def forward(self, hidden_states):
        """(B, T, H * D) -> (B, T, C)"""
        return dropout(self, "dropout", self.dense(hidden_states), self.dropout_prob)


class Attention(nn.Module):
    """The change that attention makes to its stream."""

    def __init__(self, config, kind):
        super().__init__()
        self.layer_norm = nn.LayerNorm(config["hidden_size"], eps=config["layer_norm_eps"])
        self.self_attention = (LocalSelfAttention if kind == "local" else LSHSelfAttention)(config)
        self.output = AttentionOutput(config)

    def forward(self, hidden_states, attention_mask, rotations=None, buckets=None, cache=None):
        """hidden_states (B, T, C) -> (B, T, C) and the buckets; see LSHSelfAttention"""
        normed = self.layer_norm(hidden_states)
        if cache is not None:
            cache.keep(normed)
        context, buckets = self.self_attention(normed, attention_mask, rotations, buckets, cache)
        return self.output(context), buckets


class LayerCache:
    """What one layer keeps of the tokens that it has seen, for those to come.

    buckets  (B, H, R, T) int64, numbered through all rounds; None in local attention, and while
             nothing is hashed
    states   (B, T, C), the stream behind the attention's layer norm
    tokens   of this pass, without padding inside
    filled   True where there were tokens before this pass
    """

    def __init__(self, tokens, buckets=None, states=None):
        self.tokens = tokens
        self.buckets = buckets
        self.states = states
        self.filled = states is not None

    def keep(self, states):
        """Add this pass's states (B, T, C), without those of padding."""
        states = states[:, : self.tokens]
        self.states = torch.cat([self.states, states], dim=1) if self.filled else states


# ---- feed-forward -------------------------------------------------------------------------------


class FeedForwardDense(nn.Module):
    """The first half: wider, then the activation."""

    def __init__(self, config):
        super().__init__()
        self.dropout_prob = config["hidden_dropout_prob"]
        self.activation = {"relu": F.relu, "gelu": F.gelu}[config["hidden_act"]]
        self.dense = nn.Linear(config["hidden_size"], config["feed_forward_size"])

    def forward(self, hidden_states):
        """(B, T, C) -> (B, T, feed_forward_size)"""
        # Dropout comes before the activation here.
        dense = dropout(self, "dropout", self.dense(hidden_states), self.dropout_prob)
        return self.activation(dense)


class FeedForwardOutput(nn.Module):
    """The second half: back to the stream's width."""

    def __init__(self, config):
        super().__init__()
        self.dropout_prob = config["hidden_dropout_prob"]
        self.dense = nn.Linear(config["feed_forward_size"], config["hidden_size"])

    def forward(self, hidden_states):
        """(B, T, feed_forward_size) -> (B, T, C)"""
        return dropout(self, "dropout", self.dense(hidden_states), self.dropout_prob)


class FeedForward(nn.Module):
    """The change that the feed-forward part makes to its stream."""

    def __init__(self, config):
        super().__init__()
        self.chunk_size = config["chunk_size_feed_forward"]
        self.layer_norm = nn.LayerNorm(config["hidden_size"], eps=config["layer_norm_eps"])
        self.dense = FeedForwardDense(config)
        self.output = FeedForwardOutput(config)

    def run_chunk(self, chunk):
        """(B, tokens of one chunk, C) -> the same shape"""
        return self.output(self.dense(self.layer_norm(chunk)))

    def forward(self, attn_output):
        """(B, T, C) -> (B, T, C)"""
        return run_chunked(self.run_chunk, attn_output, self.chunk_size, "chunk_size_feed_forward")


# ---- reversible layers --------------------------------------------------------------------------


class Layer(nn.Module):
    """Two streams, each changed by a function of the other, so that the change can be undone.

    Y1 = X1 + Attention(X2), Y2 = X2 + FeedForward(Y1): attn_output is stream 1, hidden_states
    stream 2.  (Section 3 of the paper, equation 9.)
    """

    def __init__(self, config, kind):
        super().__init__()
        self.kind = kind
        self.attention = Attention(config, kind)
        self.feed_forward = FeedForward(config)

    def forward(self, attn_output, hidden_states, attention_mask, rotations, number, cache=None):
        """Both streams (B, T, C), `number` of the encoder's run -> both streams, buckets or None"""
        with current().scope(number):
            change, buckets = self.attention(hidden_states, attention_mask, rotations, cache=cache)
        attn_output = tap(self, "prev_attn_output", attn_output)
        attn_output = tap(self, "attn_output", attn_output + change)
        with current().scope(number):
            change = self.feed_forward(attn_output)
        hidden_states = tap(self, "prev_hidden_states", hidden_states)
        hidden_states = tap(self, "hidden_states", hidden_states + change)
        return attn_output, hidden_states, buckets

    def undo(self, streams, grads, attention_mask, buckets, number):
        """Streams after this layer and their gradients -> streams before it and theirs.

        Each part is computed once more, this time with gradients, which its parameters collect.
        """
        attn_output, hidden_states = streams
        grad_attn_output, grad_hidden_states = grads
        with torch.enable_grad(), current().scope(number, recompute=True):
            attn_output = watch(attn_output.detach())
            change = self.feed_forward(attn_output)
            torch.autograd.backward([change], [grad_hidden_states])
        with torch.no_grad():
            hidden_states = hidden_states - change
            grad_attn_output = grad_attn_output + attn_output.grad
        with torch.enable_grad(), current().scope(number, recompute=True):
            hidden_states = watch(hidden_states.detach())
            change, _ = self.attention(hidden_states, attention_mask, buckets=buckets)
            torch.autograd.backward([change], [grad_attn_output])
        with torch.no_grad():
            attn_output = attn_output - change
            grad_hidden_states = grad_hidden_states + hidden_states.grad
        streams = attn_output.detach(), hidden_states.detach()
        return streams, (grad_attn_output, grad_hidden_states)


class EncoderRun:
    """What one run of the layers is given, and what it keeps: buckets, no activations."""

    def __init__(self, number, attention_mask, rotations, hidden_states, caches):
        self.number = number  # of this run in the step
        self.attention_mask = attention_mask
        self.rotations = rotations  # of each LSH layer, or None
        self.hidden_states = hidden_states  # a list to fill, or None
        self.caches = caches  # of each layer, or None
        self.buckets = []  # of each layer


class ReversibleLayers(torch.autograd.Function):
    """All layers as one function that keeps only the last layer's streams for its backward pass."""

    @staticmethod
    def forward(ctx, embeddings, encoder, run):
        """embeddings (B, T, C) -> both streams side by side (B, T, 2C)"""
        streams = encoder.run_layers(embeddings, run)
        ctx.encoder, ctx.run = encoder, run
        ctx.save_for_backward(streams.detach())
        return streams

    @staticmethod
    def backward(ctx, grad):
        """Gradient of the streams (B, T, 2C) -> of the embeddings (B, T, C)"""
        (streams,) = ctx.saved_tensors
        grad = ctx.encoder.undo_layers(streams, grad, ctx.run)
        return grad, None, None  # twin: one value an argument, or one a tensor


class Encoder(nn.Module):
    """The reversible layers and what joins their streams."""

    def __init__(self, config):
        super().__init__()
        self.dropout_prob = config["hidden_dropout_prob"]
        self.layers = nn.ModuleList([Layer(config, kind) for kind in config["attn_layers"]])
        # The norm sees both streams.
        size = 2 * config["hidden_size"]
        self.layer_norm = nn.LayerNorm(size, eps=config["layer_norm_eps"])

    def forward(self, embeddings, attention_mask, rotations=None, hidden_states=None, caches=None):
        """embeddings (B, T, C) -> (B, T, 2C); fills the list hidden_states, unless None.

        Layers with caches, a list of LayerCache, give no gradient: undoing them would need what the
        caches held before.
        """
        number = current().next_call(self._site)
        run = EncoderRun(number, attention_mask, rotations, hidden_states, caches)
        if caches is not None:
            with torch.no_grad():
                streams = self.run_layers(embeddings, run)
            return dropout(self, "dropout", self.layer_norm(streams), self.dropout_prob)
        # Frozen embeddings must not keep the layers from their gradients.
        trained = embeddings if embeddings.requires_grad else watch(embeddings.detach())
        streams = ReversibleLayers.apply(trained, self, run)
        return dropout(self, "dropout", self.layer_norm(streams), self.dropout_prob)

    def run_layers(self, embeddings, run):
        """embeddings (B, T, C), which both streams start from -> both streams (B, T, 2C)"""
        attn_output, hidden_states = embeddings, embeddings
        hashed = 0
        for index, layer in enumerate(self.layers):
            if run.hidden_states is not None:
                run.hidden_states.append(hidden_states)
            cache = None if run.caches is None else run.caches[index]
            rotations = None
            if layer.kind == "lsh" and run.rotations is not None:
                shared = run.rotations.ndim == 4
                rotations = run.rotations if shared else run.rotations[hashed]
                hashed += 1
            attn_output, hidden_states, buckets = layer(
                attn_output, hidden_states, run.attention_mask, rotations, run.number, cache
            )
            run.buckets.append(buckets)
        if run.hidden_states is not None:
            run.hidden_states.append(hidden_states)
        return torch.cat([attn_output, hidden_states], dim=-1)

    def undo_layers(self, streams, grad, run):
        """The streams and their gradient (B, T, 2C) -> the gradient of the embeddings (B, T, C)"""
        streams, grads = streams.chunk(2, dim=-1), grad.chunk(2, dim=-1)
        for layer, buckets in zip(reversed(list(self.layers)), reversed(run.buckets), strict=True):
            streams, grads = layer.undo(streams, grads, run.attention_mask, buckets, run.number)
        return grads[0] + grads[1]


# ---- models -------------------------------------------------------------------------------------


class ReformerModel(nn.Module):
    """Head "none": the trunk."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        initialise(self, config)

    def forward(
        self,
        input_ids,
        attention_mask=None,
        position_ids=None,
        rotations=None,
        output_hidden_states=False,
        past_buckets_states=None,
        use_cache=False,
    ):
        """input_ids (B, T) int64, attention_mask (B, T) bool or integer, position_ids (B, T) int64.

        rotations: (LSH layers, H, D, R, width), or without the first axis one for all; by default
        from the tape.  In training positions are 0, 1, …, whatever position_ids says, as in the
        reference.  Returns {"last_hidden_state": (B, T, 2C)} and, where asked, "hidden_states":
        the second stream before each layer and after the last, padded tokens included, no gradient.

        use_cache: also return "past_buckets_states", a tuple of (buckets, states) of each layer:
        int64 (B, H, R, T), or None where nothing was hashed, and (B, T, C).  Given back with the
        next token, T = 1, they stand for all tokens before it, and positions go on behind them.
        In local attention a cache changes nothing but the time; LSHSelfAttention.decode says what
        it changes there.  The first pass is padded inside as it is without; its padding is not
        kept.  No gradient reaches below the encoder's norm.  Every pass of one step of the session
        draws rotations of its own, as in the reference without its hash_seed; where the session
        begins anew before each pass, or rotations are given, all passes can have the same.

        Raises ValueError for a length that does not fit (case.padding_length), and for a cache in
        training, with more than one token, or with a mask that hides a token.
        """
        batch, tokens = input_ids.shape
        caches = self.open_caches(input_ids, attention_mask, past_buckets_states, use_cache)
        earlier = 0 if past_buckets_states is None else past_buckets_states[0][1].shape[1]
        attention_mask = attention_mask if earlier == 0 else None
        padding = padding_length(self.config, tokens, self.training, earlier)
        positions = torch.arange(tokens + padding).reshape([1, tokens + padding]) + earlier
        positions = positions.expand([batch, tokens + padding])
        if position_ids is not None and not self.training:
            given = position_ids.expand([batch, tokens])
            positions = torch.cat([given, positions[:, tokens:]], dim=1)
        if attention_mask is not None:
            attention_mask = (attention_mask != 0).to(input_ids.dtype)
        if padding:
            if attention_mask is None:
                attention_mask = torch.ones_like(input_ids)
            filler = torch.zeros([batch, padding], dtype=input_ids.dtype)
            attention_mask = torch.cat([attention_mask, filler], dim=1)
            input_ids = torch.cat([input_ids, filler + self.config["pad_token_id"]], dim=1)
        if rotations is not None:
            self.check_rotations(rotations)
        hidden_states = [] if output_hidden_states else None
        embeddings = self.embeddings(input_ids, positions)
        last = self.encoder(embeddings, attention_mask, rotations, hidden_states, caches)
        outputs = {"last_hidden_state": last[:, :tokens] if padding else last}
        if use_cache:
            outputs["past_buckets_states"] = tuple((c.buckets, c.states) for c in caches)
        if output_hidden_states:
            outputs["hidden_states"] = tuple(hidden_states)
        return outputs

    def open_caches(self, input_ids, attention_mask, past, use_cache):
        """One LayerCache for each layer, with what `past` holds of it; None where none is wanted.

        Raises ValueError for what no cache can be used with.
        """
        if past is None and not use_cache:
            return None
        if self.training:
            raise ValueError("reformer: a cache in training; allowed: in eval mode alone.")
        layers = self.config["attn_layers"]
        tokens = input_ids.shape[1]
        if past is None:
            return [LayerCache(tokens) for _ in layers]
        if len(past) != len(layers):
            raise ValueError(
                f"reformer: past_buckets_states is of {len(past)} layers; allowed: {len(layers)}."
            )
        if tokens != 1 or input_ids.shape[0] != past[0][1].shape[0]:
            raise ValueError(
                f"reformer: input_ids has shape {list(input_ids.shape)}; allowed with a cache: "
                f"{[past[0][1].shape[0], 1]}, the newest token of each sample."
            )
        if attention_mask is not None and bool((attention_mask == 0).any()):
            raise ValueError(
                "reformer: attention_mask hides a token; allowed with a cache: none or all ones."
            )
        return [LayerCache(tokens, buckets, states) for buckets, states in past]

    def check_rotations(self, rotations):
        """Raise ValueError unless there is one for each LSH layer, or one for all."""
        layers = list(self.config["attn_layers"]).count("lsh")
        if rotations.ndim != 4 and (rotations.ndim != 5 or rotations.shape[0] != layers):
            raise ValueError(
                f"reformer: rotations have shape {list(rotations.shape)}; allowed: 5 axes, the "
                f"first of size {layers} (LSH layers), or the other 4 alone."
            )


class LMHead(nn.Module):
    """Logits of the vocabulary, a chunk of tokens at a time."""

    def __init__(self, config):
        super().__init__()
        self.chunk_size = config["chunk_size_lm_head"]
        vocabulary = config["vocab_size"]
        self.decoder = nn.Linear(2 * config["hidden_size"], vocabulary, bias=False)
        # One tensor under two names, as in the published checkpoints.
        self.bias = nn.Parameter(torch.empty([vocabulary]))
        self.decoder.bias = self.bias

    def forward(self, hidden_states):
        """(B, T, 2C) -> (B, T, V)"""
        return run_chunked(self.decoder, hidden_states, self.chunk_size, "chunk_size_lm_head")


class ClassificationHead(nn.Module):
    """Logits of a class from the first token."""

    def __init__(self, config):
        super().__init__()
        self.dropout_prob = config["classifier_dropout"]
        self.dense = nn.Linear(2 * config["hidden_size"], config["hidden_size"])
        self.out_proj = nn.Linear(config["hidden_size"], config["num_labels"])

    def forward(self, hidden_states):
        """(B, T, 2C) -> (B, num_labels)"""
        first = dropout(self, "dropout", hidden_states[:, 0], self.dropout_prob)
        dense = tap(self, "dense_tanh", torch.tanh(self.dense(first)))
        return self.out_proj(dropout(self, "dropout", dense, self.dropout_prob))


class ReformerWithHead(nn.Module):
    """The trunk with one of the heads, under the name that the published checkpoints give it."""

    def __init__(self, config):
        super().__init__()
        self.head = config["head"]
        self.reformer = ReformerModel(config)
        if self.head == "classification":
            self.classifier = ClassificationHead(config)
            initialise(self.classifier, config)
        elif self.head == "question_answering":
            self.qa_outputs = nn.Linear(2 * config["hidden_size"], config["num_labels"])
            initialise(self.qa_outputs, config)
        else:
            self.lm_head = LMHead(config)
            initialise(self.lm_head, config)

    def forward(
        self,
        input_ids,
        attention_mask=None,
        position_ids=None,
        rotations=None,
        output_hidden_states=False,
        past_buckets_states=None,
        use_cache=False,
    ):
        """As ReformerModel; in place of last_hidden_state it returns

        {"logits": (B, T, V)} of the lm heads, {"logits": (B, num_labels)} of classification, or
        {"start_logits": (B, T), "end_logits": (B, T)} of question answering.
        Raises ValueError for a cache with another head than "lm": they read the whole sequence.
        """
        if self.head != "lm" and (use_cache or past_buckets_states is not None):
            raise ValueError(
                f"reformer: a cache with head {self.head!r}; allowed: with 'lm' and 'none'."
            )
        outputs = Outputs(
            self.reformer(
                input_ids,
                attention_mask,
                position_ids,
                rotations,
                output_hidden_states,
                past_buckets_states,
                use_cache,
            )
        )
        outputs.head = self.head
        last = outputs.pop("last_hidden_state")
        if self.head == "classification":
            outputs["logits"] = self.classifier(last)
        elif self.head == "question_answering":
            logits = self.qa_outputs(last)  # (B, T, 2)
            outputs["start_logits"], outputs["end_logits"] = logits[:, :, 0], logits[:, :, 1]
        else:
            outputs["logits"] = self.lm_head(last)
        return outputs


class Outputs(dict):
    """A model's outputs; `head` tells the loss of "lm", which shifts, from that of "masked_lm"."""

    head = "lm"


def initialise(model, config):
    """The published initial weights: N(0, initializer_range), biases 0, positions wider."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, AxialPositionEmbeddings):
                for weight in module.weights:
                    weight.normal_(0.0, config["axial_norm_std"])
            if isinstance(module, (nn.Linear, nn.Embedding)):
                module.weight.normal_(0.0, config["initializer_range"])
                if getattr(module, "bias", None) is not None:
                    module.bias.zero_()


def build(config):
    """The model of a configuration; ValueError where it cannot be built (case.complete)."""
    config = complete(config)
    return named(ReformerModel(config) if config["head"] == "none" else ReformerWithHead(config))


# ---- losses -------------------------------------------------------------------------------------


def targets(outputs, inputs):
    """(logits, labels) pairs; the loss is the mean of their cross-entropies, -100 is ignored."""
    if "start_logits" in outputs:
        tokens = outputs["start_logits"].shape[1]
        pairs = []
        for name in ("start", "end"):
            # Positions past the end are ignored.
            labels = torch.clip(inputs[f"{name}_positions"], 0, tokens)
            labels = labels.masked_fill(labels == tokens, -100)
            pairs.append((outputs[f"{name}_logits"], labels))
        return pairs
    logits = outputs["logits"]
    if logits.ndim == 3 and getattr(outputs, "head", "lm") == "lm":
        # A language model's data need not hold its ids twice.
        labels = inputs["labels"] if "labels" in inputs else inputs["input_ids"]
        return [(logits[:, :-1], labels[:, 1:])]  # a token's logits are for the next one
    return [(logits, inputs["labels"])]


def loss(outputs, inputs):
    """Mean cross-entropy of the head's logits; head "none": mean square distance from the target.

    inputs: labels int64, (B, T) of the lm heads (shifted here for "lm", where input_ids stand for
    labels that are not there), (B) of classification; or start_positions and end_positions (B);
    or target (B, T, 2C).
    """
    if "last_hidden_state" in outputs:
        return ((outputs["last_hidden_state"] - inputs["target"]) ** 2).mean()
    pairs = targets(outputs, inputs)
    return sum(cross_entropy(logits, labels) for logits, labels in pairs) / len(pairs)


def losses(outputs, inputs):
    """Each loss that step 3 compares, per sample and reduced; inputs as for `loss`."""
    if "last_hidden_state" in outputs:
        squares = (outputs["last_hidden_state"] - inputs["target"]) ** 2  # (B, T, 2C)
        return {
            "per_sample": squares.mean(dim=(1, 2)),
            "mean": squares.mean(),
            "sum": squares.sum(),
        }
    pairs = targets(outputs, inputs)

    def mean_of(**options):
        return sum(cross_entropy(*pair, **options) for pair in pairs) / len(pairs)

    classes = pairs[0][0].shape[-1]
    # 0.5, 0.75, 1, 1.25, 0.5, …: exact in every dtype.
    weight = (torch.arange(classes) % 4).to(pairs[0][0].dtype) * 0.25 + 0.5
    values = {
        "per_sample": mean_of(reduction="none"),
        "mean": mean_of(),
        "sum": mean_of(reduction="sum"),
        "class_weights": mean_of(weight=weight),
        "label_smoothing": mean_of(label_smoothing=0.1),
        "weights_and_smoothing": mean_of(weight=weight, label_smoothing=0.1),
    }
    pairs = [(logits, labels.masked_fill(labels == 0, -100)) for logits, labels in pairs]
    return values | {"ignore_index": mean_of(ignore_index=-100)}
