import torch
from torch import nn
from torch.nn import functional as F


class Double(nn.Sequential):
    def __init__(self, c_in, c_out):
        super().__init__(
            nn.Conv2d(c_in, c_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(c_out),
            nn.ReLU(inplace=True),
            nn.Conv2d(c_out, c_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(c_out),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.down1 = Double(3, width)
        self.down2 = Double(width, 2 * width)
        self.bottom = Double(2 * width, 4 * width)
        self.up2 = Double(6 * width, 2 * width)
        self.up1 = Double(3 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def grow(x, like):
        return F.interpolate(x, size=like.shape[2:], mode="bilinear", align_corners=False)

    def forward(self, images):
        a = self.down1(images)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        x = self.up2(torch.cat([self.grow(c, b), b], dim=1))
        x = self.up1(torch.cat([self.grow(x, a), a], dim=1))
        return {"out": self.head(x)}


def build(config):
    return UNet(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs["out"], inputs["labels"])
