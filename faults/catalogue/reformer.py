"""Faults in Reformer's Paddle twin: hashing, chunks, reversible layers, heads."""

from faults.fault import in_model

forward = in_model("reformer", 1)
of_loss = in_model("reformer", 3)
backward = in_model("reformer", 4)

TRUNK = "reformer"
ATTENTION = f"{TRUNK}.encoder.layers.0.attention"
LSH = f"{ATTENTION}.self_attention"
LOCAL = f"{TRUNK}.encoder.layers.1.attention.self_attention"

FAULTS = [
    # ---- hashing and sorting
    forward(
        "unstable-sort",
        "an unstable sort of the buckets",
        "paddle.argsort(buckets * tokens + paddle.arange(tokens), axis=-1)",
        "paddle.argsort(buckets, axis=-1)",
        f"lm/{LSH}.sorted_order",
        area="hashing, chunks",
    ),
    forward(
        "unsort-left-out",
        "values not brought back into the tokens' order",
        'tap(self, "context_unsorted", unsort(context, undo_order))',
        'tap(self, "context_unsorted", context)',
        f"lm/{LSH}.context_unsorted",
        area="hashing, chunks",
    ),
    forward(
        "rounds-merged-unweighted",
        "hash rounds averaged without their weights",
        "(context * weights).sum(axis=2))\n        return",
        "context.mean(axis=2))\n        return",
        f"lm/{LSH}.context_rounds_merged",
        area="hashing, chunks",
    ),
    forward(
        "bucket-of-padding",
        "masked tokens put into the last bucket, not into one of their own",
        "paddle.full_like(buckets, product))",
        "paddle.full_like(buckets, product - 1))",
        f"lm/{LSH}.buckets",
        area="hashing, chunks",
    ),
    # ---- chunks, masks
    forward(
        "look-forward",
        "the chunk after looked at instead of the one before",
        "paddle.roll(x, -i, 2) if i else x for i in range(-before, after + 1)",
        "paddle.roll(x, i, 2) if i else x for i in range(-before, after + 1)",
        f"lm/{LSH}.query_key_dots",
        area="hashing, chunks",
    ),
    forward(
        "no-look-back",
        "ends not joined: the first chunk sees itself twice",
        "shifted = [paddle.roll(x, -i, 2) if i else x for i in range(-before, after + 1)]",
        "shifted = [\n        paddle.concat([x[:, :, :1], x[:, :, :-1]], axis=2) if i < 0 else "
        "paddle.roll(x, -i, 2) if i else x\n        for i in range(-before, after + 1)\n    ]",
        f"lm/{LSH}.query_key_dots",
        area="hashing, chunks",
    ),
    forward(
        "self-mask-missing",
        "tokens not kept from attending to themselves",
        'key_each)\n        dots = tap(self, "dots_self_masked", '
        "dots.masked_fill(~self_mask, SELF_MASKED))",
        'key_each)\n        dots = tap(self, "dots_self_masked", dots)',
        f"lm/{LSH}.dots_self_masked",
        area="masks",
    ),
    forward(
        "self-mask-value",
        "self mask at -1e9: a token that sees nothing else gets noise",
        "SELF_MASKED = -1e5",
        "SELF_MASKED = -1e9",
        f"lm/{LSH}.dots_self_masked",
        area="masks",
    ),
    forward(
        "mask-too-small",
        "mask value -1e4 for -1e9",
        "MASKED = -1e9\n#",
        "MASKED = -1e4\n#",
        f"lm/{LSH}.dots_masked",
        area="masks",
    ),
    forward(
        "causal-excludes-self",
        "causal mask that hides the token itself",
        "query_positions >= key_positions  # (1, 1, N, c, M)",
        "query_positions > key_positions  # (1, 1, N, c, M)",
        f"lm/{LOCAL}.mask",
        area="masks",
    ),
    forward(
        "mask-by-batch-of-one",
        "everyone's mask read from the first sample",
        "index = positions + paddle.arange(batch).reshape([batch, 1, 1, 1]) * tokens",
        "index = positions + paddle.arange(batch).reshape([batch, 1, 1, 1]) * 0",
        f"lm_masked_rows/{LSH}.mask",
        area="masks",
    ),
    # ---- heads, scale
    forward(
        "split-heads",
        "heads split without moving them in front of the tokens",
        "return x.reshape([batch, tokens, heads, width // heads]).moveaxis(1, 2)",
        "return x.reshape([batch, heads, tokens, width // heads])",
        f"lm/{LSH}.query_key_heads",
        area="attention",
    ),
    forward(
        "key-scale",
        "keys divided by the head size, not by its root",
        'hidden_states), self.heads))\n        key = tap(self, "key_scaled", key / math.sqrt(',
        'hidden_states), self.heads))\n        key = tap(self, "key_scaled", key / (',
        f"lm/{LOCAL}.key_scaled",
        area="attention",
    ),
    forward(
        "key-norm-epsilon",
        "the keys' norm without its epsilon of 1e-6",
        "paddle.rsqrt(mean_square + 1e-6)",
        "paddle.rsqrt(mean_square)",
        f"lm/{LSH}.key_normalised",
        area="norms",
    ),
    # ---- embeddings, padding
    forward(
        "axial-order",
        "row and column of the axial positions side by side in the other order",
        "paddle.concat([by_row, by_column], axis=-1)",
        "paddle.concat([by_column, by_row], axis=-1)",
        f"lm/{TRUNK}.embeddings.position_embeddings",
        area="positions, padding",
    ),
    forward(
        "padded-on-the-left",
        "padding to a multiple of the chunk put in front",
        'paddle.concat([input_ids, filler + self.config["pad_token_id"]], axis=1)',
        'paddle.concat([filler + self.config["pad_token_id"], input_ids], axis=1)',
        f"lm/{TRUNK}.embeddings:in/0",
        area="positions, padding",
    ),
    forward(
        "padding-seen",
        "tokens added to fill a chunk are not masked",
        "attention_mask = paddle.concat([attention_mask, filler], axis=1)",
        "attention_mask = paddle.concat([attention_mask, filler + 1], axis=1)",
        f"lm/{TRUNK}.encoder:in/1",
        area="positions, padding",
    ),
    # ---- layers and heads
    forward(
        "streams-swapped",
        "the two streams joined in the other order",
        "return paddle.concat([attn_output, hidden_states], axis=-1)",
        "return paddle.concat([hidden_states, attn_output], axis=-1)",
        f"lm/{TRUNK}.encoder.layer_norm:in/0",
        area="gradients",
    ),
    forward(
        "last-token-for-first",
        "class read from the last token",
        "hidden_states[:, 0], self.dropout_prob)",
        "hidden_states[:, -1], self.dropout_prob)",
        "classification/classifier.dense:in/0",
        area="structure",
    ),
    forward(
        "start-end-swapped",
        "start and end of the answer swapped",
        "logits[:, :, 0], logits[:, :, 1]",
        "logits[:, :, 1], logits[:, :, 0]",
        "question_answering_masked_rows/start_logits",
        area="structure",
    ),
    forward(
        "dropout-before-activation",
        "dropout behind the activation instead of before it",
        'dense = dropout(self, "dropout", self.dense(hidden_states), self.dropout_prob)\n'
        "        return self.activation(dense)",
        "dense = self.activation(self.dense(hidden_states))\n"
        '        return dropout(self, "dropout", dense, self.dropout_prob)',
        f"train/{TRUNK}.encoder.layers.0.feed_forward.dense",
        area="dropout",
    ),
    # ---- losses
    of_loss(
        "labels-not-shifted",
        "language model's labels not shifted by one",
        "(logits[:, :-1], labels[:, 1:])]  # a token's",
        "(logits, labels)]  # a token's",
        "lm/loss",
        area="losses",
    ),
    of_loss(
        "answer-past-the-end",
        "positions past the end counted instead of ignored",
        'labels = paddle.clip(inputs[f"{name}_positions"], 0, tokens)',
        'labels = paddle.clip(inputs[f"{name}_positions"], 0, tokens - 1)',
        "question_answering_masked_rows/loss",
        area="losses",
    ),
    of_loss(
        "loss-not-averaged",
        "losses of start and end summed, not averaged",
        "return sum(cross_entropy(logits, labels) for logits, labels in pairs) / len(pairs)",
        "return sum(cross_entropy(logits, labels) for logits, labels in pairs)",
        "question_answering_masked_rows/loss",
        area="losses",
    ),
    # ---- gradients of sorted and reversible layers
    backward(
        "unsort-gradient",
        "the un-sorted logits' gradient replaced",
        'tap(self, "logits_unsorted", unsort(logits, undo_order))',
        'tap(self, "logits_unsorted", unsort(logits.detach(), undo_order) + 0.0 * logits)',
        f"lm_masked_rows/grad_of/{TRUNK}.encoder.layers.0.attention.self_attention.logits_sorted",
        passes=(1,),
        area="gradients",
    ),
    backward(
        "untied-bias",
        "the head's bias under its two names no longer one tensor",
        "self.decoder.bias = self.bias",
        "self.decoder.bias = self.create_parameter([vocabulary])",
        "lm_head.bias and lm_head.decoder.bias are tied in torch",
        refused=True,
        arguments=("--case", "lm_masked_rows"),
        area="weights",
    ),
    backward(
        "streams-gradient",
        "only one stream's gradient reaches the embeddings",
        "return grads[0] + grads[1]",
        "return grads[1]",
        f"lm_masked_rows/grad_of/{TRUNK}.encoder:in/0",
        area="gradients",
    ),
    backward(
        "recomputed-dropout",
        "recomputation with other dropout than the first run's",
        "change = self.feed_forward(attn_output)\n            paddle.autograd.backward",
        "current().step += 1\n"
        "            change = self.feed_forward(attn_output)\n"
        "            current().step -= 1\n"
        "            paddle.autograd.backward",
        f"train/grad_of/{TRUNK}.encoder.layers.2.feed_forward.output.dense",
        area="gradients",
    ),
]
