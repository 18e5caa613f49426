"""Faults in pairs of the kinds that users bring (faults/users).

Both sides differ inside, some cast to float32 inside, and the fault is found all the same, at its
line.  A pair runs in one case, `main`, its weights as initialised, unless the origin says that it
takes noisy ones (`stirred/…`) or, behind these, train mode (`train/…`).
"""

from faults.fault import STEPS_WITH_CASES, USERS, Fault

MAIN = ("--case", "main")


def in_pair(pair: str):
    """A shorter way to write faults of one pair: (id, what, old, new, origin)."""
    folder = f"{USERS}/{pair}"

    def fault(
        id: str, what: str, old: str, new: str, origin: str, step=1, area="structure"
    ) -> Fault:
        named = step in STEPS_WITH_CASES and not origin.startswith(("stirred/", "train/"))
        case = MAIN if named else ()
        return Fault(
            id=f"{pair.replace('_', '-')}-{id}",
            what=what,
            model=folder,
            file=f"{folder}/paddle_model.py",
            old=old,
            new=new,
            step=step,
            origin=origin,
            arguments=case,
            area=area,
        )

    return fault


nhwc = in_pair("nhwc_images")
convnext = in_pair("convnext_linear")
by_hand = in_pair("norms_by_hand")
causal = in_pair("causal_convs")
unet = in_pair("unet")
windows = in_pair("shifted_windows")
vision = in_pair("vision_transformer")
deep_conv = in_pair("deep_residual")
deep = in_pair("deep_transformer")
excite = in_pair("mobile_excite")
points = in_pair("point_cloud")
packed = in_pair("packed_lstm")
gru = in_pair("gru_by_hand")
framework = in_pair("attention_by_framework")
module = in_pair("attention_module")
fused = in_pair("fused_qkv")
encoder = in_pair("encoder_layer")
gpt = in_pair("gpt_masks")
albert = in_pair("albert_like")
llama = in_pair("llama_like")
phi = in_pair("phi_like")
gemma = in_pair("gemma_like")
t5 = in_pair("t5_like")
towers = in_pair("two_towers")
twins = in_pair("twins_batched")
capsules = in_pair("einsum_capsules")
gcn = in_pair("graph_conv")
gat = in_pair("graph_attention")
experts = in_pair("expert_mixture")
vae = in_pair("variational")
path = in_pair("drop_path")
owners = in_pair("dropout_owners")
codebook = in_pair("moving_codebook")
centre = in_pair("moving_centre")
teacher = in_pair("ema_teacher")
seq_first = in_pair("seq_first")
table = in_pair("fixed_positions")
penalty = in_pair("gradient_penalty")
field = in_pair("force_field")
frozen = in_pair("frozen_branch")
many = in_pair("many_labels")
smooth = in_pair("label_smoothing")
segment = in_pair("segmentation")
focal = in_pair("focal_detector")
decoder = in_pair("upsampling_decoder")
fourier = in_pair("fourier_filter")
odd = in_pair("odd_outputs")
conformer = in_pair("conformer")
resnet = in_pair("plain_resnet")
norms = in_pair("frozen_norms")
pointer = in_pair("pointer")
meant = in_pair("meant_otherwise")
branches = in_pair("twin_branches")

FAULTS = [
    # ---- models that cast to float32
    llama(
        "epsilon",
        "RMSNorm epsilon 1e-5 for 1e-6",
        "self.variance_epsilon = eps",
        "self.variance_epsilon = 10 * eps",
        "layers.0.input_layernorm",
        area="norms",
    ),
    llama(
        "rotary-base",
        "rotary base 10,000 for 10,500",
        "self.base = width // heads, base",
        "self.base = width // heads, 1.05 * base",
        "layers.0:in/1",
        area="positions, padding",
    ),
    llama(
        "mask-off-by-one",
        "each token sees the next one",
        "places.unsqueeze(0) <= places.unsqueeze(1)",
        "places.unsqueeze(0) <= places.unsqueeze(1) + 1",
        "layers.0.self_attn.o_proj:in/0",
        area="masks",
    ),
    llama(
        "kv-heads-in-turn",
        "key heads repeated in turn, not side by side",
        "x.unsqueeze(3).expand([batch, tokens, heads, times, size])",
        "x.unsqueeze(2).expand([batch, tokens, times, heads, size])",
        "layers.0.self_attn.o_proj:in/0",
        area="attention",
    ),
    llama(
        "scale-by-width",
        "scores divided by the root of the width",
        "q / self.size**0.5",
        "q / width**0.5",
        "layers.0.self_attn.o_proj:in/0",
        area="attention",
    ),
    llama(
        "gate-swapped",
        "up gates, gate is gated",
        "F.swiglu(self.gate_proj(x), self.up_proj(x))",
        "F.swiglu(self.up_proj(x), self.gate_proj(x))",
        "layers.0.mlp.down_proj:in/0",
        area="activations",
    ),
    llama(
        "loss-over-padding",
        "the loss divided by all tokens",
        "/ keep.sum()",
        "/ keep.numel()",
        "loss",
        step=3,
        area="losses",
    ),
    phi(
        "epsilon",
        "RMSNorm epsilon 1e-6 for 1e-5",
        "epsilon=1e-5",
        "epsilon=1e-6",
        "layers.0.norm1",
        area="norms",
    ),
    phi(
        "rotary-sign",
        "the turned half has its minus in the other place",
        "paddle.concat([-b, a], axis=-1)",
        "paddle.concat([b, -a], axis=-1)",
        "layers.0.attn.o_proj:in/0",
        area="positions, padding",
    ),
    phi(
        "rotary-rates",
        "rates by the head's size, not by its turned part",
        '(paddle.arange(0, turned, 2, dtype="float32") / turned)',
        '(paddle.arange(0, turned, 2, dtype="float32") / x.shape[-1])',
        "layers.0.attn.o_proj:in/0",
        area="positions, padding",
    ),
    phi(
        "heads-swapped",
        "the values' heads in the other order",
        "self.v_proj(x).reshape(shape))",
        "self.v_proj(x).reshape(shape).flip([2]))",
        "layers.0.attn.o_proj:in/0",
        area="attention",
    ),
    phi(
        "gate-on-up",
        "the activation on the wrong half",
        "F.silu(self.gate(y)) * self.up(y)",
        "self.gate(y) * F.silu(self.up(y))",
        "layers.0.down:in/0",
        area="activations",
    ),
    gemma(
        "gain-without-one",
        "gains taken as they are, not 1 more",
        "(self.weight.astype(paddle.float32) + 1.0)",
        "self.weight.astype(paddle.float32)",
        "layers.0.norm1",
        area="norms",
    ),
    gemma(
        "exact-gelu",
        "erf GELU for tanh",
        "approximate=True",
        "approximate=False",
        "layers.0.down:in/0",
        area="activations",
    ),
    gemma(
        "embedding-scale",
        "embeddings without their scale",
        "self.scale = math.sqrt(width)",
        "self.scale = 1.0",
        "layers.0:in/0",
        area="positions, padding",
    ),
    gemma(
        "cap-of-scores",
        "scores capped at 30 for 50",
        "k.transpose([0, 2, 3, 1])), 50.0)",
        "k.transpose([0, 2, 3, 1])), 30.0)",
        "layers.0.o:in/0",
        area="attention",
    ),
    t5(
        "scaled",
        "scores scaled where the reference has no scale",
        "scores = paddle.matmul(q, k)",
        "scores = paddle.matmul(q, k) / q.shape[-1] ** 0.5",
        "encoder.0.attention.o:in/0",
        area="attention",
    ),
    t5(
        "buckets-mirrored",
        "earlier and later positions exchanged",
        "apart > 0",
        "apart < 0",
        "encoder.0.attention.relative:in/0",
        area="positions, padding",
    ),
    t5(
        "output-scale",
        "the scale before the tied head left out",
        "self.factor = width**-0.5",
        "self.factor = 1.0",
        "logits",
    ),
    t5(
        "soft-mask",
        "a mask of -10",
        "[x.shape[1]] * 2, -1e9)",
        "[x.shape[1]] * 2, -1e1)",
        "decoder.0.attention.o:in/0",
        area="masks",
    ),
    # ---- images
    nhwc(
        "padding-aside",
        "all padding on one side",
        "stride=2, padding=1, **LAYOUT",
        "stride=2, padding=[0, 2, 0, 2], **LAYOUT",
        "conv2",
        area="positions, padding",
    ),
    nhwc(
        "momentum",
        "BatchNorm's momentum 0.1 for Paddle's 0.9",
        "self.norm2 = nn.BatchNorm2D(2 * width, momentum=0.9",
        "self.norm2 = nn.BatchNorm2D(2 * width, momentum=0.1",
        "train/norm2:running_mean",
        area="norms",
    ),
    convnext(
        "epsilon",
        "LayerNorm epsilon 1e-5 for 1e-6",
        "epsilon=1e-6",
        "epsilon=1e-5",
        "blocks.0.norm",
        area="norms",
    ),
    convnext(
        "layer-scale",
        "the branch without its scale",
        "y = self.gamma * self.down(",
        "y = self.down(",
        "blocks.0",
    ),
    by_hand(
        "epsilon-outside",
        "epsilon added to the root",
        "paddle.sqrt((centred * centred).mean(axes, keepdim=True) + eps)",
        "(paddle.sqrt((centred * centred).mean(axes, keepdim=True)) + eps)",
        "conv1",
        area="norms",
    ),
    by_hand(
        "replicated",
        "edges repeated, not reflected",
        'mode="reflect"',
        'mode="replicate"',
        "conv1",
        area="positions, padding",
    ),
    by_hand(
        "tanh-gelu",
        "GELU by tanh",
        "paddle.erf(x / math.sqrt(2.0))",
        "paddle.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))",
        "conv2",
        area="activations",
    ),
    causal(
        "padded-on-both-sides",
        "a convolution that sees the future",
        "nn.Pad1D([2 * dilation, 0])",
        "nn.Pad1D([dilation, dilation])",
        "blocks.0",
        area="positions, padding",
    ),
    unet(
        "align-corners",
        "interpolation from corner to corner",
        'mode="bilinear", align_corners=False',
        'mode="bilinear", align_corners=True',
        "up2.0:in/0",
    ),
    unet(
        "skip-order",
        "the skip joined in front",
        "paddle.concat([x, skip], axis=1)",
        "paddle.concat([skip, x], axis=1)",
        "up2.0:in/0",
    ),
    windows(
        "table-transposed",
        "the table of relative positions transposed",
        "bias.transpose([2, 0, 1])",
        "bias.transpose([2, 1, 0])",
        "a.proj:in/0",
        area="positions, padding",
    ),
    windows(
        "scale",
        "scores scaled by the width",
        "q * (C // self.num_heads) ** -0.5",
        "q * C**-0.5",
        "a.proj:in/0",
        area="attention",
    ),
    vision(
        "patch-transposed",
        "rows and columns of a patch exchanged",
        "transpose([0, 2, 4, 1, 3, 5])",
        "transpose([0, 2, 4, 1, 5, 3])",
        "blocks.0:in/0",
    ),
    deep_conv(
        "relu-before-adding",
        "ReLU before the shortcut is added",
        "return self.relu(out + identity)",
        "return self.relu(out) + identity",
        "layers.0.relu:in/0#2",
        area="activations",
    ),
    deep(
        "epsilon-far-down",
        "LayerNorm epsilon 1e-6 for 1e-5 in block 18 of 24",
        "        self.head = nn.Linear(width, classes)",
        "        self.blocks[17].norm2 = nn.LayerNorm(width, epsilon=1e-6)\n"
        "        self.head = nn.Linear(width, classes)",
        "layers.17.1.norm",
        area="norms",
    ),
    excite(
        "hard-sigmoid",
        "a hard sigmoid that is half way at another place",
        "F.relu6(gate + 3.0)",
        "F.relu6(gate + 2.5)",
        "blocks.0.se",
        area="activations",
    ),
    points(
        "mean-of-points",
        "the points' mean for their largest",
        ".max(axis=1)",
        ".mean(axis=1)",
        "head:in/0",
    ),
    decoder(
        "tiled",
        "the image tiled where each pixel is to be repeated",
        "x.repeat_interleave(2, axis=2).repeat_interleave(2, axis=3)",
        "x.tile([1, 1, 2, 2])",
        "last:in/0",
    ),
    fourier(
        "conjugate",
        "the filter's conjugate",
        "paddle.as_complex(self.weight)",
        "paddle.as_complex(self.weight).conj()",
        "filter",
    ),
    # ---- sequences and attention
    packed(
        "lengths",
        "padding fed to the LSTM",
        ", sequence_length=lengths)",
        ")",
        "lstm/1",
        area="masks",
    ),
    gru(
        "update-gate",
        "the update gate the other way round",
        "(1.0 - z) * n + z * h",
        "z * n + (1.0 - z) * h",
        "forecast",
    ),
    framework(
        "mask-left-out",
        "padding is attended to",
        "attn_mask=mask, ",
        "",
        "attention.out:in/0",
        area="masks",
    ),
    module(
        "softmax-axis",
        "softmax over the heads",
        "F.softmax(scores, axis=-1)",
        "F.softmax(scores, axis=1)",
        "attend",
        area="attention",
    ),
    fused(
        "mask-off-by-one",
        "each token sees the next one",
        "dtype=scores.dtype), 1)",
        "dtype=scores.dtype), 2)",
        "norm:in/0",
        area="masks",
    ),
    encoder(
        "residual",
        "the residual is taken behind the norm",
        "        x = x + self.attend(self.norm1(x), bias)",
        "        x = self.norm1(x)\n        x = x + self.attend(x, bias)",
        "encoder",
    ),
    gpt(
        "mask-off-by-one",
        "each token sees the next one",
        "places.unsqueeze(0) <= places.unsqueeze(1)",
        "places.unsqueeze(0) <= places.unsqueeze(1) + 1",
        "h.0.attn.c_proj:in/0",
        area="masks",
    ),
    gpt(
        "exact-gelu",
        "erf GELU for tanh",
        "nn.GELU(approximate=True)",
        "nn.GELU()",
        "h.0.proj:in/0",
        area="activations",
    ),
    albert(
        "positions-from-one",
        "positions count from 1",
        "paddle.arange(ids.shape[1])",
        "paddle.arange(1, ids.shape[1] + 1)",
        "places:in/0",
        area="positions, padding",
    ),
    albert(
        "epsilon",
        "LayerNorm epsilon 1e-6 for 1e-12",
        "self.norm2 = nn.LayerNorm(width, epsilon=1e-12)",
        "self.norm2 = nn.LayerNorm(width, epsilon=1e-6)",
        "layer.norm2",
        area="norms",
    ),
    # ---- graphs, towers, experts
    towers(
        "temperature",
        "a temperature without its exponential",
        "paddle.exp(self.logit_scale)",
        "self.logit_scale",
        "0",
    ),
    towers(
        "one-way",
        "the loss of images alone",
        "return sum(both) * 0.5",
        "return both[0]",
        "loss",
        step=3,
        area="losses",
    ),
    twins(
        "without-epsilon",
        "1e-6 left out of a difference",
        "(a - b + 1e-6)",
        "(a - b)",
        "distance",
    ),
    capsules(
        "routing",
        "one routing too few",
        "for _ in range(2)",
        "for _ in range(1)",
        "lengths",
    ),
    gcn(
        "loops-twice",
        "a node's own message twice",
        "paddle.eye(count, dtype=dtype)",
        "2.0 * paddle.eye(count, dtype=dtype)",
        "conv1",
    ),
    gat(
        "denominator",
        "1e-8 for 1e-16 in a denominator",
        "keepdim=True) + 1e-16",
        "keepdim=True) + 1e-8",
        "conv1",
        area="attention",
    ),
    gat(
        "slope",
        "a leaky ReLU's slope 0.01 for 0.2",
        "unsqueeze(1), 0.2)",
        "unsqueeze(1), 0.01)",
        "conv1",
        area="activations",
    ),
    experts(
        "factor",
        "a mixture 1e-7 too small",
        "self.head(x + y)",
        "self.head(x + (1.0 - 1e-7) * y)",
        "head:in/0",
    ),
    experts(
        "weights-as-they-are",
        "the chosen experts' weights do not sum to 1",
        "        kept = kept / kept.sum(axis=-1, keepdim=True)\n",
        "",
        "head:in/0",
    ),
    # ---- random numbers and buffers
    vae(
        "variance-for-deviation",
        "noise times the variance",
        "paddle.exp(log_var / 2)",
        "paddle.exp(log_var)",
        "fc3:in/0",
    ),
    path(
        "not-rescaled",
        "what is kept is not divided by its rate",
        "x / keep_prob * paddle.floor",
        "x * paddle.floor",
        "train/blocks.1",
        area="dropout",
    ),
    owners(
        "not-in-attention",
        "the attention's weights are not dropped",
        "attn_dropout=p",
        "attn_dropout=0.0",
        "train/blocks.0.attention.dropout:p",
        area="dropout",
    ),
    owners(
        "another-rate",
        "the attention's weights are dropped at half the rate",
        "attn_dropout=p",
        "attn_dropout=p / 2",
        "train/blocks.0.attention.dropout:p",
        area="dropout",
    ),
    owners(
        "one-too-many",
        "what is behind the activation is dropped too",
        "act_dropout=0.0",
        "act_dropout=p",
        "train/encoder.layers.0.dropout#2:p",
        area="dropout",
    ),
    owners(
        "behind-the-norm",
        "dropped behind the residual and the norm, not before",
        "self.encoder = nn.TransformerEncoder(layer, layers)",
        """self.encoder = nn.TransformerEncoder(layer, layers)
        self.after = nn.Dropout(p)
        for block in self.encoder.layers:
            block.dropout2 = nn.Identity()
            block.register_forward_post_hook(lambda layer, given, x: self.after(x))""",
        "train/head:in/0",
        area="dropout",
    ),
    seq_first(
        "not-behind-the-activation",
        "what is behind the activation is not dropped",
        "(width, heads, 16, 0.2)",
        "(width, heads, 16, 0.2, act_dropout=0.0)",
        "train/encoder.layers.0.dropout#2:p",
        area="dropout",
    ),
    teacher(
        "statistics-averaged",
        "the statistics of a BatchNorm follow the student's too",
        " if not s.stop_gradient]",
        "]",
        "train/teacher.1:running_mean",
        area="norms",
    ),
    codebook(
        "moving-average",
        "sums that forget too slowly",
        "paddle.matmul(hot, flat, transpose_x=True) * (1 - keep)",
        "paddle.matmul(hot, flat, transpose_x=True)",
        "train/buffer/quantize.codebook",
        area="training",
    ),
    codebook(
        "straight-through",
        "no gradient passes the codebook",
        "return x + (q - x).detach(), commitment",
        "return q, commitment",
        "stirred/grad_of/decode:in/0",
        step=4,
        area="gradients",
    ),
    centre(
        "momentum",
        "the centre moves by 0.9 for 0.1",
        "step = (1.0 - self.momentum) *",
        "step = self.momentum *",
        "train/buffer/centre",
        area="training",
    ),
    centre(
        "teacher-learns",
        "the teacher has a gradient",
        "    @paddle.no_grad()\n    def teach",
        "    def teach",
        "stirred/grad_of/student.2#2",
        step=4,
        area="gradients",
    ),
    table(
        "halves",
        "sines and cosines in halves, not in turn",
        "    table[:, 0::2] = np.sin(angles)\n    table[:, 1::2] = np.cos(angles)",
        "    table[:, : width // 2] = np.sin(angles)\n    table[:, width // 2 :] = np.cos(angles)",
        "buffer/positions.table:built",
        area="positions, padding",
    ),
    table(
        "own-token",
        "a state without its own token",
        "place.unsqueeze(1) >= place.unsqueeze(0)",
        "place.unsqueeze(1) > place.unsqueeze(0)",
        "out:in/0",
        area="masks",
    ),
    # ---- gradients and losses
    penalty(
        "square-of-norm",
        "the slope's square for its length",
        "slope.square().sum(axis=1).sqrt() - 1.0",
        "slope.square().sum(axis=1) - 1.0",
        "penalty",
    ),
    penalty(
        "no-second-gradient",
        "the penalty has no gradient",
        "create_graph=True",
        "create_graph=False",
        "stirred/grad_of/fc2",
        step=4,
        area="gradients",
    ),
    field(
        "sign",
        "forces uphill",
        '"forces": -slope',
        '"forces": slope',
        "forces",
    ),
    frozen(
        "gradient-through",
        "the frozen branch hands a gradient to its input",
        "self.frozen(x).detach()",
        "self.frozen(x)",
        "stirred/grad_of/frozen.2",
        step=4,
        area="gradients",
    ),
    many(
        "weights-of-labels",
        "two labels' weights exchanged",
        "[1.0, 2.0, 0.5, 3.0]",
        "[1.0, 0.5, 2.0, 3.0]",
        "loss",
        step=3,
        area="losses",
    ),
    smooth(
        "epsilon",
        "smoothing of 0.11 for 0.1",
        "smoothing = 0.1",
        "smoothing = 0.11",
        "loss",
        step=3,
        area="losses",
    ),
    segment(
        "ignored-in-dice",
        "pixels that nobody labelled count in the Dice loss",
        "(labels != 255)",
        "(labels != 254)",
        "loss",
        step=3,
        area="losses",
    ),
    segment(
        "align-corners",
        "interpolation by pixels, not from corner to corner",
        "align_corners=True",
        "align_corners=False",
        "out",
    ),
    focal(
        "alpha",
        "the classes' weights exchanged",
        "alpha=0.25",
        "alpha=0.75",
        "loss",
        step=3,
        area="losses",
    ),
    odd(
        "pooled",
        "the last word for the first",
        "hidden[-1][:, 0]",
        "hidden[-1][:, -1]",
        "more/1/pooled",
    ),
    # ---- models as they are trained
    conformer(
        "momentum",
        "torch's momentum of 0.1, where Paddle's 0.9 means that",
        "momentum=0.9",
        "momentum=0.1",
        "train/blocks.0.conv.batch_norm:running_mean",
        area="norms",
    ),
    conformer(
        "epsilon",
        "BatchNorm epsilon 1.0001e-5 for 1e-5, beside the float32 that Paddle keeps it in",
        "momentum=0.9",
        "momentum=0.9, epsilon=1.0001e-5",
        "train/000/loss",
        step=5,
        area="norms",
    ),
    norms(
        "not-frozen",
        "a frozen BatchNorm takes the batch's statistics",
        ", use_global_stats=True",
        "",
        "train/frozen:running_mean",
        area="norms",
    ),
    resnet(
        "classes-turned",
        "the classes in another order, in a model that returns one tensor",
        "paddle.flatten(self.avgpool(x), 1))",
        "paddle.flatten(self.avgpool(x), 1)).flip(-1)",
        "test/logits",
        step=2,
        area="scores",
    ),
    pointer(
        "one-place-more",
        "minus infinity from one place later on",
        "paddle.arange(x.shape[1]) >= lengths",
        "paddle.arange(x.shape[1]) > lengths",
        "logits",
        area="masks",
    ),
    pointer(
        "finite-mask",
        "-1e9 for minus infinity in what the model returns",
        'float("-inf")',
        "-1e9",
        "logits",
        area="masks",
    ),
    # ---- the same names for other things, and faults that hide each other
    meant(
        "log-softmax",
        "logits for their log_softmax, beside rows in another order",
        "F.log_softmax(logits, -1)",
        "logits",
        "log_probs",
        area="losses",
    ),
    meant(
        "norm-epsilon",
        "LayerNorm epsilon 1e-3 for 1e-5 behind channels that are last on one side",
        "nn.LayerNorm(width)",
        "nn.LayerNorm(width, epsilon=1e-3)",
        "train/norm",
        area="norms",
    ),
    meant(
        "mask-gradient",
        "one token more is masked in a mask of what is seen",
        ">= lengths[:, None]",
        ">= lengths[:, None] - 1",
        "attend.out:in/0",
        step=4,
        area="masks",
    ),
    branches(
        "gelu-tanh",
        "GELU's tanh form in both of two branches whose errors nearly cancel",
        "nn.GELU()",
        "nn.GELU(approximate=True)",
        "train/predictor_act",
        step=4,
        area="activations",
    ),
]
