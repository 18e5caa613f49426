import paddle
from paddle import nn
from paddle.nn import functional as F


class VAE(nn.Layer):
    def __init__(self, pixels, width, latent):
        super().__init__()
        self.fc1 = nn.Linear(pixels, width)
        self.mu = nn.Linear(width, latent)
        self.log_var = nn.Linear(width, latent)
        self.fc3 = nn.Linear(latent, width)
        self.fc4 = nn.Linear(width, pixels)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        log_var = self.log_var(h)
        mu = self.mu(h)
        noise = paddle.randn(mu.shape)
        z = mu + paddle.exp(log_var / 2) * noise
        x = F.sigmoid(self.fc4(F.relu(self.fc3(z))))
        return x, mu, log_var


def build(config):
    return VAE(**config)


def loss(outputs, inputs):
    x, mu, log_var = outputs
    likelihood = F.binary_cross_entropy(x, inputs["x"], reduction="sum")
    return likelihood + 0.5 * (mu.square() + log_var.exp() - 1.0 - log_var).sum()
