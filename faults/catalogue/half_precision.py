"""Faults of narrower types: the same function, and nothing but its precision shows them.

In a deep transformer (faults/pairs/transformer) a tensor of the float32 run is cast down.  All
others are faults in half precision alone:
Four decoders that cast, as today's do (faults/pairs/casts), an encoder and an image model
(faults/pairs/halves), and Fastformer, which casts nothing; in float32 each of these is right.
"""

from functools import partial

from faults.fault import CASTS, HALVES, TRANSFORMER, in_model

_half = in_model(CASTS)
bfloat16 = partial(_half, arguments=("--preset", "half", "--dtype", "bfloat16"))
float16 = partial(_half, arguments=("--preset", "half", "--dtype", "float16"))

_in_halves = partial(in_model(HALVES), arguments=("--dtype", "bfloat16"))
_in_halves_16 = partial(in_model(HALVES), arguments=("--dtype", "float16"))
_deep = in_model(TRANSFORMER)
_in_fastformer = partial(in_model("fastformer"), arguments=("--dtype", "bfloat16"))

FEWER_BITS = (  # in the float32 run alone
    '(lambda x: x.astype("float16").astype("float32") if x.dtype == paddle.float32 else x)'
)
RMS = (
    'wide = x.astype("float32")\n        '
    "wide = wide * paddle.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)"
)
SOFTMAX = 'return F.softmax(scores, axis=-1, dtype="float32").astype(scores.dtype)'
BY_HAND = (
    "powers = (scores - scores.max(-1, keepdim=True)).exp()\n        "
    "return powers / powers.sum(-1, keepdim=True)"
)
WIDE = 'wide = x.astype("float32")\n        centred'
DEVIATION = "paddle.sqrt(centred.square().mean(-1, keepdim=True) + 1e-5)"
ATTENDED = "x = x + self.attention(self.norm1(x), mask)"

FAULTS = [
    _deep(  # behind the near ties of blocks 1 to 6, so that the outputs hardly show it
        "half-feed-forward",
        "a block's activation rounded to float16",
        "        self.blocks = nn.LayerList(blocks)",
        f"        blocks[7].activation = lambda x: {FEWER_BITS}(F.gelu(x))\n"
        "        self.blocks = nn.LayerList(blocks)",
        "post_norm_hostile/blocks.7.down:in/0",
        area="activations",
    ),
    _deep(
        "half-context",
        "attention's result rounded to float16",
        "self.out(x.reshape([batch, tokens, width]))",
        f"self.out({FEWER_BITS}(x.reshape([batch, tokens, width])))",
        "post_norm_hostile/blocks.0.attention.out:in/0",
        area="attention",
    ),
    _deep(
        "half-attention-weights",
        "attention's weights rounded to float16",
        "paddle.matmul(weights, value)",
        f"paddle.matmul({FEWER_BITS}(weights), value)",
        "pre_norm_trained/blocks.0.attention.out:in/0",
        area="attention",
    ),
    bfloat16(
        "half-rms-norm",
        "RMSNorm computed in bfloat16 for float32",
        RMS,
        RMS.replace('x.astype("float32")', "x"),
        "decoder/blocks.0.norm1",
        area="norms",
    ),
    bfloat16(
        "half-rms-factor",
        "RMSNorm's factor rounded to bfloat16 before it is used",
        RMS,
        RMS.replace("+ self.eps)", "+ self.eps).astype(x.dtype)"),
        "decoder/blocks.0.norm1",
        area="norms",
    ),
    bfloat16(
        "half-rms-mean",
        "RMSNorm's mean of squares in bfloat16",
        RMS,
        RMS.replace("wide.pow(2)", "x.pow(2)"),
        "decoder/blocks.0.norm1",
        area="norms",
    ),
    bfloat16(
        "half-softmax",
        "a softmax written out in bfloat16 for one in float32",
        SOFTMAX,
        BY_HAND,
        "decoder/blocks.1.attention.out:in/0",
        area="attention",
    ),
    bfloat16(
        "half-rotary-angles",
        "rotary angles rounded to bfloat16 before their cosines",
        'angles = self.angles[: x.shape[2]].astype("float32")',
        "angles = self.angles[: x.shape[2]].astype(x.dtype)",
        "decoder/blocks.0.attention.rotary",
        area="positions, padding",
    ),
    bfloat16(
        "half-rotary-frequencies",
        "rotary frequencies kept in bfloat16",
        "inverse = 1.0 / (base**steps)",
        "inverse = 1.0 / (base**steps).astype(paddle.get_default_dtype())",
        "long/blocks.0.attention.rotary",
        area="positions, padding",
    ),
    bfloat16(
        "half-layer-norm",
        "LayerNorm in bfloat16 for float32",
        WIDE,
        WIDE.replace('x.astype("float32")', "x"),
        "shared/blocks.0.norm1",
        area="norms",
    ),
    bfloat16(
        "half-layer-norm-deviation",
        "LayerNorm's standard deviation rounded to bfloat16",
        DEVIATION,
        f"{DEVIATION}.astype(x.dtype)",
        "shared/blocks.0.norm1",
        area="norms",
    ),
    bfloat16(
        "half-sines",
        "a table of sines made in bfloat16",
        "return paddle.stack([angles.sin(), angles.cos()], -1).flatten(1)",
        "angles = angles.astype(paddle.get_default_dtype())\n"
        "    return paddle.stack([angles.sin(), angles.cos()], -1).flatten(1)",
        "tables/blocks.0.attention.qkv:in/0",
        area="positions, padding",
    ),
    float16(
        "half-residual",
        "a residual added in bfloat16 where the model runs in float16",
        ATTENDED,
        'x = x.astype("bfloat16") + self.attention(self.norm1(x), mask).astype("bfloat16")\n'
        "        x = x.astype(self.norm2.weight.dtype)",
        "decoder/blocks.0.norm2:in/0",
        area="structure",
    ),
    float16(
        "half-squares-overflow",
        "RMSNorm's squares in float16, where they overflow",
        RMS,
        RMS.replace("wide.pow(2).mean", "(256 * x).pow(2).mean").replace(
            "+ self.eps", ' .astype("float32") / 65536 + self.eps'
        ),
        "decoder/blocks.0.norm1",
        area="norms",
    ),
    bfloat16(
        "half-loss",
        "the loss in bfloat16 for float32",
        'logits = outputs["logits"].astype("float32")',
        'logits = outputs["logits"].astype("bfloat16")',
        "decoder/loss",
        step=3,
        area="losses",
    ),
    _in_halves(
        "half-encoder-norm",
        "LayerNorm written out in bfloat16",
        "def norm(x, layer):\n    return layer(x)",
        "def norm(x, layer):\n"
        "    centred = x - x.mean(-1, keepdim=True)\n"
        "    normed = centred * paddle.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-12)\n"
        "    return normed * layer.weight + layer.bias",
        "encoder/blocks.0:in/0",
        area="norms",
    ),
    _in_halves(
        "half-encoder-norm-factor",
        "LayerNorm's factor and mean rounded to bfloat16",
        "def norm(x, layer):\n    return layer(x)",
        "def norm(x, layer):\n"
        "    wide = x.astype(WIDE)\n"
        "    mean = wide.mean(-1, keepdim=True).astype(x.dtype)\n"
        "    factor = paddle.rsqrt(wide.var(-1, unbiased=False, "
        "keepdim=True)).astype(x.dtype)\n"
        "    return (x - mean) * factor * layer.weight + layer.bias",
        "encoder/blocks.0:in/0",
        area="norms",
    ),
    _in_halves(
        "half-encoder-softmax",
        "a softmax written out in bfloat16",
        "return F.softmax(scores, axis=-1, dtype=WIDE)",
        "powers = (scores - scores.max(-1, keepdim=True)).exp()\n"
        "    return powers / powers.sum(-1, keepdim=True)",
        "encoder/blocks.0.attention.out:in/0",
        area="attention",
    ),
    _in_halves(
        "half-encoder-gelu",
        "GELU written out in bfloat16",
        "return F.gelu(x)",
        "return 0.5 * x * (1.0 + paddle.erf(x / math.sqrt(2.0)))",
        "encoder/blocks.0.down:in/0",
        area="activations",
    ),
    _in_halves(
        "half-encoder-embedding-scale",
        "the embeddings' scale rounded to bfloat16",
        "x = self.words(tokens) * self.scale",
        "x = self.words(tokens)\n        x = x * paddle.to_tensor(self.scale, dtype=x.dtype)",
        "encoder/norm:in/0",
        area="positions, padding",
    ),
    _in_halves(
        "half-encoder-gain",
        "a product in bfloat16 for one in float32: cast before it, not behind",
        "x = (x.astype(WIDE) * (1.0 + self.gain.astype(WIDE))).astype(x.dtype)",
        "x = x * (1.0 + self.gain)",
        "encoder/norm:in/0",
        area="structure",
    ),
    _in_halves(
        "half-encoder-mean",
        "a mean over tokens in bfloat16",
        "return ((x.astype(WIDE) * kept).sum(1) / kept.sum(1)).astype(x.dtype)",
        "kept = kept.astype(x.dtype)\n    return (x * kept).sum(1) / kept.sum(1)",
        "encoder/pooler:in/0",
        area="structure",
    ),
    _in_halves(
        "half-encoder-running-sum",
        "a sum over tokens that is rounded with each of them",
        "return ((x.astype(WIDE) * kept).sum(1) / kept.sum(1)).astype(x.dtype)",
        "kept = kept.astype(x.dtype)\n"
        "    result = x[:, 0] * kept[:, 0]\n"
        "    for i in range(1, x.shape[1]):\n"
        "        result = result + x[:, i] * kept[:, i]\n"
        "    return result / kept.sum(1)",
        "encoder/pooler:in/0",
        area="structure",
    ),
    _in_halves_16(
        "half-encoder-attention-bfloat16",
        "attention in bfloat16 in a model in float16",
        'weights = way["softmax"](scores).astype(x.dtype)',
        'weights, v = way["softmax"](scores).astype("bfloat16"), v.astype("bfloat16")',
        "encoder/blocks.0.attention.out:in/0",
        area="attention",
    ),
    _in_halves_16(
        "half-encoder-residual-bfloat16",
        "a residual added in bfloat16 in a model in float16",
        "def residual(x, y):\n    return x + y",
        "def residual(x, y):\n"
        '    return (x.astype("bfloat16") + y.astype("bfloat16")).astype(x.dtype)',
        "encoder/blocks.0.norm1:in/0",
        area="structure",
    ),
    _in_halves_16(
        "half-encoder-mask",
        "a mask of -1e9, of which float16 makes -infinity, times 0",
        "return scores + paddle.where(mask, 0.0, least).astype(scores.dtype)",
        "hidden = 1.0 - mask.astype(scores.dtype)\n"
        "    return scores + hidden * paddle.full([], -1e9, scores.dtype)",
        "encoder/blocks.0.attention.out:in/0",
        area="masks",
    ),
    _in_halves_16(
        "half-autocast-residual",
        "in mixed precision of float16, a residual added in bfloat16",
        "def residual(x, y):\n    return x + y",
        "def residual(x, y):\n"
        '    return (x.astype("bfloat16") + y.astype("bfloat16")).astype(WIDE)',
        "encoder/blocks.0.norm1:in/0",
        area="structure",
        arguments=("--dtype", "float16", "--autocast"),
    ),
    _in_halves(
        "half-encoder-loss",
        "a loss of logits in float32, whose logarithms are rounded to bfloat16",
        "picked = F.log_softmax(logits.flatten(0, -2), axis=-1)",
        'picked = F.log_softmax(logits.flatten(0, -2), axis=-1).astype("bfloat16")',
        "encoder/loss",
        area="losses",
        step=3,
    ),
    _in_halves_16(
        "half-encoder-gradient",
        "a gradient rounded to bfloat16 on its way through a model in float16",
        "def gelu(x):\n    return F.gelu(x)",
        "def gelu(x):\n"
        "    y = F.gelu(x)\n"
        "    if not y.stop_gradient:\n"
        '        y.register_hook(lambda g: g.astype("bfloat16").astype(g.dtype))\n'
        "    return y",
        "encoder/grad_of/blocks.1.up",
        area="gradients",
        step=4,
    ),
    _in_halves(
        "half-vision-batch-norm",
        "BatchNorm written out in bfloat16",
        "def batch_norm(x, layer):\n    return layer(x)",
        "def batch_norm(x, layer):\n"
        "    mean, variance, weight, bias = (\n"
        "        y.astype(x.dtype).reshape([1, -1, 1, 1])\n"
        "        for y in (layer._mean, layer._variance, layer.weight, layer.bias)\n"
        "    )\n"
        "    return (x - mean) / paddle.sqrt(variance + 1e-5) * weight + bias",
        "vision/parts.0:in/0",
        area="norms",
    ),
    _in_halves(
        "half-vision-batch-norm-folded",
        "BatchNorm's factor and shift rounded to bfloat16",
        "def batch_norm(x, layer):\n    return layer(x)",
        "def batch_norm(x, layer):\n"
        "    factor = layer.weight.astype(WIDE) / paddle.sqrt(layer._variance.astype(WIDE) + "
        "1e-5)\n"
        "    shift = layer.bias.astype(WIDE) - layer._mean.astype(WIDE) * factor\n"
        "    factor, shift = (y.astype(x.dtype).reshape([1, -1, 1, 1]) for y in (factor, "
        "shift))\n"
        "    return x * factor + shift",
        "vision/parts.0:in/0",
        area="norms",
    ),
    _in_halves(
        "half-vision-group-norm",
        "GroupNorm written out in bfloat16",
        "def group_norm(x, layer):\n    return layer(x)",
        "def group_norm(x, layer):\n"
        "    groups = x.reshape([x.shape[0], 4, -1])\n"
        "    centred = groups - groups.mean(-1, keepdim=True)\n"
        "    normed = centred / paddle.sqrt(centred.square().mean(-1, keepdim=True) + 1e-5)\n"
        "    weight, bias = (y.reshape([1, -1, 1, 1]) for y in (layer.weight, layer.bias))\n"
        "    return normed.reshape(x.shape) * weight + bias",
        "vision/parts.0.excite:in/0",
        area="norms",
    ),
    _in_halves(
        "half-vision-squeeze",
        "a mean over an image whose sum is rounded after every row",
        "return x.astype(WIDE).mean([2, 3]).astype(x.dtype)",
        "result = x[:, :, 0].sum(-1)\n"
        "    for i in range(1, x.shape[2]):\n"
        "        result = result + x[:, :, i].sum(-1)\n"
        "    return result / (x.shape[2] * x.shape[3])",
        "vision/parts.0.excite.reduce:in/0",
        area="structure",
    ),
    _in_halves(
        "half-vision-total",
        "means added in bfloat16",
        'self.way["total"](means).astype(x.dtype)',
        'self.way["total"]([mean.astype(x.dtype) for mean in means])',
        "vision/mix:in/0",
        area="structure",
    ),
    _in_halves(
        "half-vision-length",
        "a vector's length in bfloat16",
        "return F.normalize(x.astype(WIDE), axis=-1).astype(x.dtype)",
        "return x / paddle.sqrt((x * x).sum(-1, keepdim=True))",
        "vision/head:in/0",
        area="norms",
    ),
    _in_halves(
        "half-vision-scale",
        "the logits' scale as a power in bfloat16",
        "self.scale.astype(WIDE).exp()",
        "self.scale.exp()",
        "vision/logits",
        area="scores",
    ),
    _in_halves(
        "half-vision-hardswish",
        "a hard swish written out in bfloat16",
        "return F.hardswish(x)",
        "return x * (F.relu6(x + 3.0) / 6.0)",
        "vision/parts.0:in/0",
        area="activations",
    ),
    _in_halves(
        "half-vision-gate",
        "a sigmoid written out in bfloat16",
        "return F.sigmoid(x)",
        "return 1.0 / (1.0 + (-x).exp())",
        "vision/parts.0.excite",
        area="activations",
    ),
    _in_halves_16(
        "half-vision-convolution",
        "a convolution in bfloat16 in a model in float16",
        "def pointwise(x, layer):\n    return layer(x)",
        "def pointwise(x, layer):\n"
        '    return F.conv2d(x.astype("bfloat16"), '
        'layer.weight.astype("bfloat16")).astype(x.dtype)',
        "vision/parts.0",
        area="structure",
    ),
    _in_fastformer(
        "half-fastformer-softmax",
        "a softmax written out in bfloat16",
        'query_weights = tap(self, "query_weights", F.softmax(query_logits, axis=-1))',
        "powers = (query_logits - query_logits.max(-1, keepdim=True)).exp()\n"
        '        query_weights = tap(self, "query_weights", powers / powers.sum(-1, '
        "keepdim=True))",
        "main/fastformer_model.encoders.0.attention.self.query_weights",
        area="attention",
    ),
    _in_fastformer(
        "half-fastformer-norm",
        "LayerNorm written out in bfloat16",
        "return self.LayerNorm(x + residual)",
        "x = x + residual\n"
        "        x = x - x.mean(-1, keepdim=True)\n"
        "        x = x / paddle.sqrt((x * x).mean(-1, keepdim=True) + 1e-12)\n"
        "        return x * self.LayerNorm.weight + self.LayerNorm.bias",
        "main/fastformer_model.encoders.0.attention.output.LayerNorm:in/0",
        area="norms",
    ),
    _in_fastformer(
        "half-fastformer-gelu",
        "GELU written out in bfloat16",
        '"gelu": F.gelu,',
        '"gelu": lambda x: 0.5 * x * (1.0 + paddle.erf(x / 2**0.5)),',
        "main/fastformer_model.encoders.0.intermediate",
        area="activations",
    ),
    _in_fastformer(
        "half-fastformer-pool",
        "a sum over tokens of products that are rounded one by one",
        'return paddle.einsum("bht,bthd->bhd", weights, heads).reshape([batch, 1, width])',
        "heads = heads.transpose([0, 2, 1, 3])\n"
        "        total = 0.0\n"
        "        for i in range(tokens):\n"
        "            total = total + weights[:, :, i : i + 1] * heads[:, :, i]\n"
        "        return total.reshape([batch, 1, width])",
        "main/fastformer_model.encoders.0.attention.self.global_query",
        area="attention",
    ),
]
