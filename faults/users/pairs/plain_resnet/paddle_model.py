import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn.initializer import Normal, Uniform


class BasicBlock(nn.Layer):
    def __init__(self, inputs, width, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2D(inputs, width, 3, stride, padding=1, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(width)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2D(width, width, 3, padding=1, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(width)
        self.downsample = None
        if stride != 1 or inputs != width:
            self.downsample = nn.Sequential(
                nn.Conv2D(inputs, width, 1, stride, bias_attr=False), nn.BatchNorm2D(width)
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + identity)


class ResNet(nn.Layer):
    def __init__(self, width, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2D(3, width, 3, padding=1, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(width)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2D(3, 2, padding=1)
        self.layer1 = BasicBlock(width, width)
        self.layer2 = BasicBlock(width, 2 * width, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2D(1)
        self.fc = nn.Linear(2 * width, num_classes)
        for layer in self.sublayers():
            if isinstance(layer, nn.Conv2D):  # Kaiming's, by what goes out
                out, _, height, across = layer.weight.shape
                Normal(0.0, (2.0 / (out * height * across)) ** 0.5)(layer.weight)
        edge = (2 * width) ** -0.5
        for value in (self.fc.weight, self.fc.bias):
            Uniform(-edge, edge)(value)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(paddle.flatten(self.avgpool(x), 1))  # (B, classes)


def build(config):
    return ResNet(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
