from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, width, heads, layers, classes):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x, padding):
        return self.head(self.encoder(x, src_key_padding_mask=padding))


def loss(outputs, inputs):
    return F.cross_entropy(outputs.transpose(1, 2), inputs["labels"])
