import paddle
from paddle import nn
from paddle.nn import functional as F


class Clip(nn.Layer):
    def __init__(self, words, width, joint):
        super().__init__()
        self.token_embedding = nn.Embedding(words, width)
        self.text = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, joint))
        self.visual = nn.Sequential(
            nn.Conv2D(3, width, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(4 * width, joint)
        )
        scale = nn.initializer.Constant(2.6592)
        self.logit_scale = self.create_parameter([], default_initializer=scale)

    def encode_text(self, ids):
        return F.normalize(self.text(self.token_embedding(ids).mean(axis=1)), axis=-1)

    def encode_image(self, images):
        return F.normalize(self.visual(images), axis=-1)

    def forward(self, images, ids):
        text = self.encode_text(ids)
        image = self.encode_image(images)
        logits = paddle.matmul(image, text, transpose_y=True) * paddle.exp(self.logit_scale)
        return logits, image, text


def build(config):
    return Clip(**config)


def loss(outputs, inputs):
    logits, same = outputs[0], paddle.arange(outputs[0].shape[0])
    both = (F.cross_entropy(logits, same), F.cross_entropy(logits.T, same))
    return sum(both) * 0.5
