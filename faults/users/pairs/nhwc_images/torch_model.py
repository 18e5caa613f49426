from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.norm2 = nn.BatchNorm2d(2 * width)
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, images):
        x = F.relu(self.norm1(self.conv1(images)))
        x = F.max_pool2d(x, 2)
        x = F.relu(self.norm2(self.conv2(x)))
        return {"logits": self.fc(x.mean(dim=(2, 3)))}


def loss(outputs, inputs):
    return F.cross_entropy(outputs["logits"], inputs["labels"])
