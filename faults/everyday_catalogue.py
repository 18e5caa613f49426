"""Faults in two models of everyday size, ResNet-18 and BERT-base, as code after their paddle_model.

Each model is a library's own, so that no line of it can be changed: the code patches what the
library built, or the workbench's optimizer on the Paddle side.  Names are those of the Paddle side.
"""

from dataclasses import dataclass
from textwrap import dedent

VISION, BERT = "examples/torchvision_paddle_vision", "examples/transformers_paddlenlp_bert"

# After the pair's paddle_model.py in every copy; `plant` and `after_step` are a fault's own.
PRELUDE = '''

# ---- planted ----
import paddle
from paddle.nn import functional as F

from twincheck.common.sides.optimizer import Optimizer

_build_without_fault = build


def build(config):
    model = _build_without_fault(config)
    plant(model)
    return model


def plant(model):
    """Nothing, unless the fault has one of its own."""


def part(model, name):
    """A part of a model by its dotted name: a layer, or a parameter."""
    for word in name.split("."):
        model = model[int(word)] if word.isdecimal() else getattr(model, word)
    return model


def instead(layer, forward):
    """Have a layer compute forward(its own forward, inputs …)."""
    own = layer.forward
    layer.forward = lambda *inputs, **keywords: forward(own, *inputs, **keywords)


def with_factor(values, index, factor):
    """values, of which those at an index are multiplied."""
    factors = paddle.ones_like(values)
    factors[index] = factor
    return values * factors


def kind_of(optimizer):
    """The set-up's name in step 4."""
    if optimizer.rule is None:
        return "sgd"
    if optimizer.clip_norm is not None:
        return "adam_clip_warmup"
    return "adamw" if isinstance(optimizer.rule, paddle.optimizer.AdamW) else "adam"


def update_scaled(kind, step, name, index, factor):
    """In one step of a set-up, go another part of the way at an index of a parameter."""
    own = Optimizer.step

    def one_step(self):
        taken = dict(self.parameters)
        chosen = name in taken and kind_of(self) == kind and self.step_count == step
        before = taken[name].clone().detach() if chosen else None
        own(self)
        if chosen:
            with paddle.no_grad():
                way = with_factor(taken[name] - before, index, factor)
                taken[name].copy_(before + way, False)

    Optimizer.step = one_step
'''


@dataclass(frozen=True)
class EverydayFault:
    """One planted fault.

    id         unique; words and dashes
    what       the mistake in a few words, the wrong thing first
    model      the pair's folder
    step       of the check that must find it
    origins    keys that may be named as the first row that is off; one that goes on after a key
               with `:` is a row of the same tensor
    code       after PRELUDE
    arguments  further options of the check
    """

    id: str
    what: str
    model: str
    step: int
    origins: tuple[str, ...]
    code: str
    arguments: tuple[str, ...] = ()

    def planted(self, text: str) -> str:
        """The text of paddle_model.py with the fault."""
        return text + PRELUDE + "\n\n" + dedent(self.code).strip() + "\n"

    def named(self, key: str | None) -> bool:
        """True if the row is one where this fault starts."""
        key = (key or "").removeprefix("perturbed/")
        return any(key == origin or key.startswith(f"{origin}:") for origin in self.origins)


def _in(model: str):
    def fault(id: str, what: str, step: int, origins, code: str, *arguments: str) -> EverydayFault:
        origins = (origins,) if isinstance(origins, str) else tuple(origins)
        return EverydayFault(id, what, model, step, origins, code, arguments)

    return fault


_resnet, _bert = _in(VISION), _in(BERT)
_LAYER = "classifier.bert.encoder.layers"  # on the Paddle side
_TORCH_LAYER = "classifier.bert.encoder.layer"
_EMBEDDINGS = "classifier.bert.embeddings"

FAULTS = (
    _resnet(
        "resnet-downsample-shifted",
        "a downsampling convolution that takes the odd pixels, not the even ones",
        1,
        "network.layer2.0.downsample.0",
        """
        def plant(model):
            downsample = part(model, "network.layer2.0.downsample.0")
            instead(downsample, lambda own, x: own(x[:, :, 1:, 1:]))
        """,
    ),
    _resnet(
        "resnet-channels-swapped",
        "two channels of one convolution's weight swapped",
        1,
        "network.layer3.1.conv2",
        """
        def plant(model):
            convolution = part(model, "network.layer3.1.conv2")

            def swapped(own, x):
                weight = convolution.weight
                weight = paddle.concat([weight[:, 1:2], weight[:, :1], weight[:, 2:]], axis=1)
                return F.conv2d(x, weight, padding=1)

            instead(convolution, swapped)
        """,
    ),
    _resnet(
        "resnet-running-mean",
        "one element of one BatchNorm's running mean not moved",
        1,
        "network.layer2.1.bn1:running_mean",
        """
        def plant(model):
            norm = part(model, "network.layer2.1.bn1")

            def one_stays(own, x):
                before = norm._mean[5].item()
                y = own(x)
                mean = norm._mean.numpy()
                mean[5] = before
                norm._mean.set_value(mean)
                return y

            instead(norm, one_stays)
        """,
        "--train",
    ),
    _resnet(
        "resnet-running-variance",
        "one BatchNorm's running variance with n / (n - 1), which Paddle's is without",
        1,
        "network.layer4.1.bn2:running_var",
        """
        def plant(model):
            norm = part(model, "network.layer4.1.bn2")

            def unbiased(own, x):
                before = norm._variance.numpy().copy()
                y = own(x)
                count = x.shape[0] * x.shape[2] * x.shape[3]
                kept = norm._momentum * before
                seen = norm._variance.numpy() - kept
                norm._variance.set_value(kept + seen * count / (count - 1))
                return y

            instead(norm, unbiased)
        """,
        "--train",
    ),
    _resnet(
        "resnet-gradient-element",
        "one element of one convolution's gradient, the largest, 1 % too large",
        4,
        "grad/network.layer4.1.conv2.weight",
        """
        def plant(model):
            def one_larger(gradient):
                values = gradient.flatten()
                largest = values.abs().argmax().item()
                return with_factor(values, largest, 1.01).reshape(gradient.shape)

            part(model, "network.layer4.1.conv2.weight").register_hook(one_larger)
        """,
    ),
    _resnet(
        "resnet-sgd-step-7",
        "one element of one weight not updated in step 7 of SGD",
        4,
        "sgd/007/weight/network.layer3.0.conv1.weight",
        """
        update_scaled("sgd", 7, "network.layer3.0.conv1.weight", (100, 50, 1, 1), 0.0)
        """,
    ),
    _resnet(
        "resnet-momentum-twice",
        "momentum applied twice to one parameter",
        4,
        ("sgd/001/weight/network.layer1.1.bn2.bias", "sgd/001/velocity/network.layer1.1.bn2.bias"),
        """
        own_step = Optimizer.step


        def step(self):
            velocity = self.velocities.get("network.layer1.1.bn2.bias")
            if velocity is not None:
                self.velocities["network.layer1.1.bn2.bias"] = velocity * self.momentum
            own_step(self)


        Optimizer.step = step
        """,
    ),
    _resnet(
        "resnet-decay-on-gain",
        "weight decay on one norm's gain",
        4,
        "adamw/000/weight/network.layer2.0.bn1.weight",
        """
        own_init = Optimizer.__init__


        def init(self, *arguments, decayed, **keywords):
            decayed = {*decayed, "network.layer2.0.bn1.weight"}
            own_init(self, *arguments, decayed=decayed, **keywords)


        Optimizer.__init__ = init
        """,
    ),
    _bert(
        "bert-epsilon",
        "LayerNorm epsilon 1e-5 for 1e-12 in one layer",
        1,
        f"{_TORCH_LAYER}.1.attention.output.LayerNorm",
        f"""
        def plant(model):
            part(model, "{_LAYER}.1.norm1")._epsilon = 1e-5
        """,
    ),
    _bert(
        "bert-head-scale",
        "attention scale 0.1 % off in one head",
        1,
        f"{_TORCH_LAYER}.1.attention.output.dense:in/0",
        f"""
        def plant(model):
            attention = part(model, "{_LAYER}.1.self_attn")
            own = attention._prepare_qkv

            def scaled(*inputs):
                query, *others = own(*inputs)
                return with_factor(query, (slice(None), 2), 1.001), *others

            attention._prepare_qkv = scaled
        """,
    ),
    _bert(
        "bert-mask-shifted",
        "mask off by one token in one layer",
        1,
        f"{_TORCH_LAYER}.0.attention.output.dense:in/0",
        f"""
        def plant(model):
            def shifted(own, query, key, value, mask, *others):
                return own(query, key, value, paddle.roll(mask, 1, -1), *others)

            instead(part(model, "{_LAYER}.0.self_attn"), shifted)
        """,
    ),
    _bert(
        "bert-token-type",
        "token type embedding left out at one position",
        1,
        f"{_EMBEDDINGS}.token_type_embeddings",
        f"""
        def plant(model):
            def without(own, ids):
                return with_factor(own(ids), (slice(None), 3), 0.0)

            instead(part(model, "{_EMBEDDINGS}.token_type_embeddings"), without)
        """,
    ),
    _bert(
        "bert-gelu-tanh",
        "GELU's tanh form for the exact one in one layer",
        1,
        f"{_TORCH_LAYER}.0.output.dense:in/0",
        f"""
        def plant(model):
            part(model, "{_LAYER}.0").activation = lambda x: F.gelu(x, approximate=True)
        """,
    ),
    _bert(
        "bert-positions-from-one",
        "positions counted from one",
        1,
        f"{_EMBEDDINGS}.position_embeddings",
        f"""
        def plant(model):
            instead(part(model, "{_EMBEDDINGS}.position_embeddings"), lambda own, x: own(x + 1))
        """,
    ),
    _bert(
        "bert-gradient-row",
        "one row of an embedding's gradient 1 % too large",
        4,
        f"grad/{_EMBEDDINGS}.position_embeddings.weight",
        f"""
        def plant(model):
            weight = part(model, "{_EMBEDDINGS}.position_embeddings.weight")
            weight.register_hook(lambda gradient: with_factor(gradient, 5, 1.01))
        """,
    ),
    _bert(
        "bert-adam-step-7",
        "one element of one weight updated 1 % too far in step 7 of Adam",
        4,
        f"adam/007/weight/{_TORCH_LAYER}.1.attention.self.query.weight",
        f"""
        update_scaled("adam", 7, "{_LAYER}.1.self_attn.q_proj.weight", (33, 21), 1.01)
        """,
    ),
    _bert(
        "bert-adamw-last-step",
        "one row of one weight half updated in the last step of AdamW",
        4,
        f"adamw/009/weight/{_TORCH_LAYER}.0.output.dense.weight",
        f"""
        update_scaled("adamw", 9, "{_LAYER}.0.linear2.weight", (slice(None), 7), 0.5)
        """,
    ),
    _bert(
        "bert-unclipped",
        "gradients of one bias not clipped",
        4,
        tuple(
            f"adam_clip_warmup/000/{kind}/{_TORCH_LAYER}.0.intermediate.dense.bias"
            for kind in ("weight", "moment1")
        ),
        f"""
        own_clip = Optimizer.clip


        def clip(self):
            value = dict(self.parameters)["{_LAYER}.0.linear1.bias"]
            gradient = value.grad.clone()
            own_clip(self)
            value.grad = gradient


        Optimizer.clip = clip
        """,
    ),
    _bert(
        "bert-not-warmed-up",
        "one norm's gain updated at the full learning rate in the warm-up's second step",
        4,
        f"adam_clip_warmup/001/weight/{_TORCH_LAYER}.1.output.LayerNorm.weight",
        f"""
        update_scaled("adam_clip_warmup", 1, "{_LAYER}.1.norm2.weight", slice(None), 2.5)
        """,
    ),
)
