"""The candidate: the same decoder, as PaddleFormers publishes it."""

from paddle import nn
from paddleformers import transformers

from twincheck.paddle_side import cross_entropy


class Decoder(nn.Layer):
    """The published model, of which the logits are compared."""

    def __init__(self, model, **config):
        super().__init__()
        settings = getattr(transformers, f"{model}Config")(**config)
        settings.fuse_rms_norm = False  # the fused kernel is for GPUs
        self.decoder = getattr(transformers, f"{model}ForCausalLM")(settings)

    def forward(self, input_ids, attention_mask):
        outputs = self.decoder(input_ids=input_ids, attention_mask=attention_mask, return_dict=True)
        return {"logits": outputs.logits}  # (B, T, V)


def build(config):
    return Decoder(**config)


def loss(outputs, inputs):
    """Each token from those before it; -100 is ignored.

    Written out: transformers' own is float32 in any run, and Paddle's mean counts -100 too.
    """
    return cross_entropy(outputs["logits"][:, :-1], inputs["labels"][:, 1:])
