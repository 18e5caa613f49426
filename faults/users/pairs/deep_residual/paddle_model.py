from paddle import nn
from paddle.nn import functional as F


class BasicBlock(nn.Layer):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2D(channels, channels, 3, padding=1, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(channels)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2D(channels, channels, 3, padding=1, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(channels)

    def forward(self, x):
        identity = x
        out = self.bn1(self.conv1(x))
        out = self.relu(out)
        out = self.bn2(self.conv2(out))
        return self.relu(out + identity)


class ResNet(nn.Layer):
    def __init__(self, width, blocks, classes):
        super().__init__()
        self.conv = nn.Conv2D(3, width, 3, padding=1)
        self.layers = nn.LayerList([BasicBlock(width) for _ in range(blocks)])
        self.avgpool = nn.AdaptiveAvgPool2D((1, 1))
        self.fc = nn.Linear(width, classes)

    def forward(self, images):
        x = self.conv(images)
        for layer in self.layers:
            x = layer(x)
        return self.fc(self.avgpool(x).flatten(start_axis=1))


def build(config):
    return ResNet(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
