import paddle
from paddle import nn
from paddle.nn import functional as F


class Codebook(nn.Layer):
    def __init__(self, size, codes, decay):
        super().__init__()
        self.decay, self.codes = decay, codes
        self.register_buffer("codebook", paddle.randn([codes, size]))
        self.register_buffer("counts", paddle.ones([codes]))
        self.register_buffer("sums", self.codebook.clone())

    @paddle.no_grad()
    def update(self, flat, hot):
        keep = self.decay
        counts = self.counts * keep + hot.sum(axis=0) * (1 - keep)
        sums = self.sums * keep + paddle.matmul(hot, flat, transpose_x=True) * (1 - keep)
        total = counts.sum()
        smooth = (counts + 1e-5) / (total + self.codes * 1e-5) * total
        paddle.assign(counts, self.counts)
        paddle.assign(sums, self.sums)
        paddle.assign(sums / smooth.unsqueeze(1), self.codebook)

    def forward(self, x):
        flat = x.flatten(0, 1)
        distance = (flat.unsqueeze(1) - self.codebook).square().sum(axis=-1).sqrt()
        index = paddle.argmin(distance, axis=-1)
        q = paddle.gather(self.codebook, index).reshape(x.shape)
        commitment = (x - q.detach()).square().mean()
        if self.training:
            self.update(flat, F.one_hot(index, self.codes).astype(x.dtype))
        return x + (q - x).detach(), commitment


class Net(nn.Layer):
    def __init__(self, features, size, codes, decay):
        super().__init__()
        self.encode = nn.Linear(features, size)
        self.quantize = Codebook(size, codes, decay)
        self.decode = nn.Linear(size, features)

    def forward(self, x):
        q, commitment = self.quantize(self.encode(x))
        return {"commitment": commitment, "x": self.decode(q)}


def loss(outputs, inputs):
    return F.mse_loss(outputs["x"], inputs["x"]) + 0.25 * outputs["commitment"]
