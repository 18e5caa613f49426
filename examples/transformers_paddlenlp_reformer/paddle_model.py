"""The candidate: Reformer with its language-model head, as PaddleNLP publishes it."""

import paddle
from paddle import nn
from paddlenlp.transformers import ReformerConfig, ReformerModelWithLMHead

from twincheck.paddle_side import current, cross_entropy, tensor


class Reformer(nn.Layer):
    """The published model; its hash rotations come from the tape, which both sides read."""

    def __init__(self, config):
        super().__init__()
        self.model = ReformerModelWithLMHead(ReformerConfig(**config))
        for layer in self.model.reformer.encoder.layers:
            repeat_names(layer)
        # Mask values are buffers, which transformers keeps out of its state.
        for layer in self.model.sublayers():
            layer._non_persistable_buffer_names_set.update(layer._buffers)

    def forward(self, input_ids, attention_mask):
        drawn, paddle.randn = paddle.randn, rotations
        try:
            outputs = self.model(input_ids=input_ids, attention_mask=attention_mask)
        finally:
            paddle.randn = drawn
        return {"logits": outputs[0]}  # (B, T, V)


def rotations(shape, dtype=None):
    """In place of paddle.randn: N(0, 1) from the tape, under the name of the attention."""
    session = current()
    label = session.label(f"{session.site_of_draw()}.rotations")
    return tensor(session.tape.normal(label, session.step, tuple(shape))).astype(dtype)


def repeat_names(layer):
    """A reversible layer's recomputation draws and logs under the names of its first run."""
    forward, backward_pass = layer.forward, layer.backward_pass
    kept = {}

    def remembering(*arguments, **keywords):
        kept["names"] = current().snapshot()
        return forward(*arguments, **keywords)

    def repeating(*arguments, **keywords):
        with current().repeat(kept["names"]):
            return backward_pass(*arguments, **keywords)

    layer.forward, layer.backward_pass = remembering, repeating
    # Its seeds are of no use: nothing is drawn but from the tape.
    layer.attention_seed = layer.feed_forward_seed = 0
    layer._init_attention_seed = layer._init_feed_forward_seed = lambda: None


def build(config):
    return Reformer(config)


def loss(outputs, inputs):
    """Each token from those before it; -100 is ignored.

    Written out: transformers' own is float32 in any run, and Paddle 3.3's mean counts -100 too.
    """
    return cross_entropy(outputs["logits"][:, :-1], inputs["labels"][:, 1:])
