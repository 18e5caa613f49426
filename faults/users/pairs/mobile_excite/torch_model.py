from torch import nn
from torch.nn import functional as F


class Excite(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.reduce = nn.Conv2d(width, width // 4, 1)
        self.expand = nn.Conv2d(width // 4, width, 1)

    def forward(self, x):
        scale = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.expand(F.relu(self.reduce(scale))))


class Inverted(nn.Module):
    def __init__(self, width, stride):
        super().__init__()
        inner = 2 * width
        self.stride = stride
        self.expand = nn.Conv2d(width, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.depth = nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.se = Excite(inner)
        self.project = nn.Conv2d(inner, width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)

    def forward(self, x):
        y = F.hardswish(self.bn1(self.expand(x)))
        y = self.se(F.hardswish(self.bn2(self.depth(y))))
        y = self.bn3(self.project(y))
        return x + y if self.stride == 1 else y


class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 2, 1)
        self.blocks = nn.ModuleList([Inverted(width, s) for s in (1, 2, 1)])
        self.classifier = nn.Linear(width, classes)

    def forward(self, images):
        x = self.stem(images)
        for block in self.blocks:
            x = block(x)
        return self.classifier(x.flatten(2).mean(-1))


def loss(outputs, inputs):
    return F.cross_entropy(outputs, inputs["labels"])
