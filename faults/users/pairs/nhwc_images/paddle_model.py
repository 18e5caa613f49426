from paddle import nn
from paddle.nn import functional as F

LAYOUT = {"data_format": "NHWC"}


class Net(nn.Layer):
    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2D(3, width, 3, padding=1, bias_attr=False, **LAYOUT)
        self.norm1 = nn.BatchNorm2D(width, momentum=0.9, **LAYOUT)
        self.conv2 = nn.Conv2D(width, 2 * width, 3, stride=2, padding=1, **LAYOUT)
        self.norm2 = nn.BatchNorm2D(2 * width, momentum=0.9, **LAYOUT)
        self.pool = nn.MaxPool2D(2, **LAYOUT)
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, images):
        x = images.transpose([0, 2, 3, 1])  # (B, H, W, C) from here on
        x = self.pool(F.relu(self.norm1(self.conv1(x))))
        x = F.relu(self.norm2(self.conv2(x)))
        return {"logits": self.fc(x.mean(axis=[1, 2]))}


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
