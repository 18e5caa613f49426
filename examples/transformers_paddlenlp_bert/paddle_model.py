"""The candidate: the same classifier, as PaddleNLP publishes it."""

from paddle import nn
from paddle.nn import functional as F
from paddlenlp.transformers import BertConfig, BertForSequenceClassification


class Encoder(nn.TransformerEncoder):
    """Paddle's own.  The check looks into a class of a user's file, not into one of Paddle's."""


class EncoderLayer(nn.TransformerEncoderLayer):
    """Likewise."""


class Attention(nn.MultiHeadAttention):
    """Likewise."""


OPENED = {own.__base__: own for own in (Encoder, EncoderLayer, Attention)}


class Classifier(nn.Layer):
    """The published model, of which the logits are compared."""

    def __init__(self, batch, tokens, **config):
        super().__init__()
        self.classifier = BertForSequenceClassification(BertConfig(**config))
        for layer in self.sublayers():
            layer.__class__ = OPENED.get(type(layer), type(layer))

    def forward(self, input_ids, token_type_ids, attention_mask):
        logits = self.classifier(
            input_ids=input_ids, token_type_ids=token_type_ids, attention_mask=attention_mask
        )
        return {"logits": logits}  # (B, classes)


def build(config):
    return Classifier(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
