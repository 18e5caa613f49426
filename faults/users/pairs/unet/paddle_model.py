import paddle
from paddle import nn


def double(c_in, c_out):
    layers = []
    for i in (c_in, c_out):
        layers += [
            nn.Conv2D(i, c_out, 3, padding=1, bias_attr=False),
            nn.BatchNorm2D(c_out),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers)


class UNet(nn.Layer):
    def __init__(self, width, classes):
        super().__init__()
        self.pool = nn.MaxPool2D(kernel_size=2, stride=2)
        self.down1 = double(3, width)
        self.down2 = double(width, width * 2)
        self.bottom = double(width * 2, width * 4)
        self.up2 = double(width * 6, width * 2)
        self.up1 = double(width * 3, width)
        self.head = nn.Conv2D(width, classes, 1)

    def forward(self, images):
        first = self.down1(images)
        second = self.down2(self.pool(first))
        x = self.bottom(self.pool(second))
        for skip, block in ((second, self.up2), (first, self.up1)):
            size = [int(n) for n in skip.shape[2:]]
            x = nn.Upsample(size=size, mode="bilinear", align_corners=False)(x)
            x = block(paddle.concat([x, skip], axis=1))
        return {"out": self.head(x)}


def build(config):
    return UNet(**config)


def loss(outputs, inputs):
    criterion = nn.CrossEntropyLoss(axis=1)
    return criterion(outputs["out"], inputs["labels"].unsqueeze(1))
