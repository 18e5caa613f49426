"""The reference: BERT with its head for classifying sequences, as transformers publishes it."""

from torch import nn
from torch.nn import functional as F
from transformers import BertConfig, BertForSequenceClassification


class Classifier(nn.Module):
    """The published model, of which the logits are compared."""

    def __init__(self, batch, tokens, **config):
        super().__init__()
        settings = BertConfig(**config)
        settings._attn_implementation = "eager"
        self.classifier = BertForSequenceClassification(settings)

    def forward(self, input_ids, token_type_ids, attention_mask):
        outputs = self.classifier(
            input_ids=input_ids, token_type_ids=token_type_ids, attention_mask=attention_mask
        )
        return {"logits": outputs.logits}  # (B, classes)


def build(config):
    return Classifier(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
