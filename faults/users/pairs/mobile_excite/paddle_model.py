from paddle import nn
from paddle.nn import functional as F


class Excite(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.reduce = nn.Conv2D(width, width // 4, 1)
        self.expand = nn.Conv2D(width // 4, width, 1)

    def forward(self, x):
        gate = self.expand(F.relu(self.reduce(x.mean([2, 3], keepdim=True))))
        return x * (F.relu6(gate + 3.0) / 6.0)


class Inverted(nn.Layer):
    def __init__(self, width, stride):
        super().__init__()
        hidden = width * 2
        self.expand = nn.Conv2D(width, hidden, 1, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(hidden)
        self.depth = nn.Conv2D(
            hidden, hidden, 3, stride=stride, padding=1, groups=hidden, bias_attr=False
        )
        self.bn2 = nn.BatchNorm2D(hidden)
        self.se = Excite(hidden)
        self.project = nn.Conv2D(hidden, width, 1, bias_attr=False)
        self.bn3 = nn.BatchNorm2D(width)
        self.act = nn.Hardswish()
        self.shortcut = stride == 1

    def forward(self, inputs):
        x = self.act(self.bn1(self.expand(inputs)))
        x = self.act(self.bn2(self.depth(x)))
        x = self.bn3(self.project(self.se(x)))
        if self.shortcut:
            x = inputs + x
        return x


class MobileNet(nn.Layer):
    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Conv2D(3, width, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(*(Inverted(width, stride) for stride in (1, 2, 1)))
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.classifier = nn.Linear(width, classes)

    def forward(self, images):
        x = self.pool(self.blocks(self.stem(images)))
        return self.classifier(x.squeeze([2, 3]))


def build(config):
    return MobileNet(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
