"""Faults in Fastformer's Paddle twin: what people get wrong when they port an encoder."""

from faults.fault import in_model

forward = in_model("fastformer", 1)
backward = in_model("fastformer", 4)

ENCODER = "fastformer_model"
ATTENTION = f"{ENCODER}.encoders.0.attention"
SELF = f"{ATTENTION}.self"
POOLER = f"{ENCODER}.poolers.0"

FAULTS = [
    # ---- norms and activations
    forward(
        "layernorm-default-epsilon",
        "LayerNorm's default epsilon, 1e-5 for 1e-12",
        "self.LayerNorm = nn.LayerNorm(out_size, epsilon=layer_norm_eps)",
        "self.LayerNorm = nn.LayerNorm(out_size)",
        f"main/{ATTENTION}.output.LayerNorm",
        area="norms",
    ),
    forward(
        "layernorm-epsilon-small",
        "LayerNorm epsilon 1e-9 for 1e-12, far below what float32 shows",
        'self.LayerNorm = nn.LayerNorm(width, epsilon=config["layer_norm_eps"])',
        "self.LayerNorm = nn.LayerNorm(width, epsilon=1e-9)",
        f"main/{ENCODER}.LayerNorm",
        area="norms",
    ),
    forward(
        "gelu-tanh",
        "GELU's tanh form for the exact one",
        '"gelu": F.gelu',
        '"gelu": lambda x: F.gelu(x, approximate=True)',
        f"main/{ENCODER}.encoders.0.intermediate",
        area="activations",
    ),
    forward(
        "norm-before-residual",
        "LayerNorm before the residual is added",
        "return self.LayerNorm(x + residual)",
        "return self.LayerNorm(x) + residual",
        f"main/{ATTENTION}.output.LayerNorm:in/0",
        area="structure",
    ),
    forward(
        "residual-wrong",
        "residual from the layer's input instead of the query",
        "return self.transform(value_mixed) + query",
        "return self.transform(value_mixed) + x",
        f"main/{SELF}",
        area="structure",
    ),
    forward(
        "tanh-left-out",
        "tanh left out of the pooling",
        "logits = self.att_fc2(paddle.tanh(self.att_fc1(x)))",
        "logits = self.att_fc2(self.att_fc1(x))",
        f"main/{POOLER}.att_fc2:in/0",
        area="activations",
    ),
    # ---- Linear
    forward(
        "bias-twice",
        "a bias added twice",
        "return self.transform(value_mixed) + query",
        "return self.transform(value_mixed) + self.transform.bias + query",
        f"padding/{SELF}",
        area="weights",
    ),
    forward(
        "linear-written-out",
        "a Linear written out as a product, its bias forgotten",
        'return {"logits": self.dense_linear(pooled)}',
        'return {"logits": paddle.matmul(pooled, self.dense_linear.weight)}',
        "main/dense_linear:in/0",
        area="weights",
    ),
    forward(
        "square-linear-not-transposed",
        "square weights carried over without transposing them",
        "and len(owner.shape) == 2,",
        "and len(set(owner.shape)) == 2,",
        f"main/{SELF}.query",
        file="common/weights/layout.py",
        area="weights",
    ),
    # ---- attention
    forward(
        "softmax-axis",
        "softmax over the heads instead of the tokens",
        "F.softmax(query_logits, axis=-1)",
        "F.softmax(query_logits, axis=1)",
        f"main/{SELF}.query_weights",
        area="attention",
    ),
    forward(
        "head-order",
        "heads and channels in the other order",
        "heads = x.reshape([batch, tokens, self.num_heads, self.head_size])",
        "heads = x.reshape([batch, tokens, self.head_size, self.num_heads]).swapaxes(2, 3)",
        f"main/{SELF}.global_query",
        area="attention",
    ),
    forward(
        "scale-of-width",
        "logits scaled by the hidden size, not the head's",
        "scale = self.head_size**0.5",
        "scale = (self.num_heads * self.head_size) ** 0.5",
        f"main/{SELF}.query_logits",
        area="attention",
    ),
    forward(
        "keys-not-mixed",
        "global key summed over the plain keys",
        "self.pool(key_weights, key_mixed)",
        "self.pool(key_weights, key)",
        f"main/{SELF}.global_key",
        area="attention",
    ),
    # ---- masks, padding, positions
    forward(
        "mask-value",
        "mask value -1e4 replaced by -1e9",
        "* -10000.0)",
        "* -1e9)",
        f"main/{ENCODER}.mask_bias",
        area="masks",
    ),
    forward(
        "mask-polarity",
        "mask the wrong way round",
        "(1.0 - mask.unsqueeze(1)) * -10000.0",
        "mask.unsqueeze(1) * -10000.0",
        f"main/{ENCODER}.mask_bias",
        area="masks",
    ),
    forward(
        "nan-under-mask",
        "0 times minus infinity in the mask: NaN",
        "* -10000.0)",
        '* float("-inf"))',
        f"main/{ENCODER}.mask_bias",
        area="masks",
    ),
    forward(
        "mask-ignored",
        "the caller's mask ignored, padding masked by id",
        "mask = input_ids != 0 if attention_mask is None else attention_mask",
        "mask = input_ids != 0",
        f"holes/{ENCODER}:in/1",
        area="masks",
    ),
    forward(
        "pooling-unmasked",
        "padding pooled like words",
        "weights = paddle.exp(logits) * mask.unsqueeze(-1)",
        "weights = paddle.exp(logits)",
        f"main/{POOLER}.pooling_weights",
        area="masks",
    ),
    forward(
        "positions-offset",
        "positions counted from one",
        "positions = self.position_embeddings.weight[: x.shape[1]]",
        "positions = paddle.roll(self.position_embeddings.weight, -1, 0)[: x.shape[1]]",
        f"main/{ENCODER}.embeddings",
        area="positions, padding",
    ),
    forward(
        "padding-idx",
        "Embedding with padding_idx, which returns zeros in Paddle",
        'nn.Embedding(config["vocab_size"], config["hidden_size"])',
        'nn.Embedding(config["vocab_size"], config["hidden_size"], padding_idx=0)',
        "padding/word_embedding",
        area="positions, padding",
    ),
    forward(
        "output-in-half",
        "a product computed in half precision",
        "return self.transform(value_mixed) + query",
        'return self.transform(value_mixed).astype("float16").astype(x.dtype) + query',
        f"padding/{SELF}",
        area="structure",
    ),
    # ---- dropout
    forward(
        "dropout-moved",
        "dropout after the residual instead of before it",
        'x = dropout(self, "dropout", self.dense(x), self.dropout_prob)\n'
        "        return self.LayerNorm(x + residual)",
        'x = dropout(self, "dropout", self.dense(x) + residual, self.dropout_prob)\n'
        "        return self.LayerNorm(x)",
        f"train/{ATTENTION}.output.LayerNorm:in/0",
        area="dropout",
    ),
    forward(
        "dropout-rate",
        "another dropout rate",
        'self.output = AddNorm(inner, width, config["hidden_dropout_prob"],',
        'self.output = AddNorm(inner, width, 0.5 * config["hidden_dropout_prob"],',
        f"train/{ENCODER}.encoders.0.output.dropout:p",
        area="dropout",
    ),
    forward(
        "dropout-left-out",
        "dropout left out",
        'x = dropout(self, "dropout", self.dense(x), self.dropout_prob)',
        "x = self.dense(x)",
        f"train/{ATTENTION}.output.dropout:p",
        area="dropout",
    ),
    forward(
        "dropout-in-eval",
        "F.dropout without training=self.training: on in eval mode",
        'x = dropout(self, "dropout", self.dense(x), self.dropout_prob)',
        "x = F.dropout(self.dense(x), self.dropout_prob)",
        f"main/{ATTENTION}.output.dropout:p",
        area="dropout",
    ),
    forward(
        "dropout-not-scaled",
        "dropout without dividing by 1 - p",
        'x = dropout(self, "dropout", x, self.dropout_prob)\n        for encoder',
        'x = dropout(self, "dropout", x, self.dropout_prob)\n'
        "        x = x * (1.0 - self.dropout_prob) if self.training else x\n        for encoder",
        f"train/{ENCODER}.encoders.0:in/0",
        area="dropout",
    ),
    # ---- gradients
    backward(
        "padding-row-gradient",
        "the padding word gets a gradient",
        "paddle.where((input_ids == 0).unsqueeze(-1), words.detach(), words)",
        "words",
        "holes/grad_of/word_embedding",
        area="gradients",
    ),
    backward(
        "detached-branch",
        "a branch cut off from the gradient",
        'tap(self, "key_mixed", key * global_query)',
        'tap(self, "key_mixed", key * global_query.detach())',
        f"holes/grad_of/{ENCODER}.encoders.0.attention.self.global_query",
        passes=(1,),
        area="gradients",
    ),
    backward(
        "constant-gradient",
        "a loss of the right value whose gradient is constant",
        'return cross_entropy(outputs["logits"], inputs["labels"])\n\n\ndef losses',
        'mean = outputs["logits"].mean()\n'
        '    fixed = cross_entropy(outputs["logits"], inputs["labels"]).detach()\n'
        "    return fixed + mean - mean.detach()\n\n\ndef losses",
        "holes/grad_of/dense_linear",
        area="gradients",
    ),
]
