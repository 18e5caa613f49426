"""Faults that only half precision shows: the same function, computed on narrower types.

Four small models that cast, as today's do (faults/pairs/casts); in float32 each of these is right.
"""

from functools import partial

from faults.fault import CASTS, in_model

_half = in_model(CASTS)
bfloat16 = partial(_half, arguments=("--preset", "half", "--dtype", "bfloat16"))
float16 = partial(_half, arguments=("--preset", "half", "--dtype", "float16"))

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
        "decoder/blocks.0.norm2",
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
]
