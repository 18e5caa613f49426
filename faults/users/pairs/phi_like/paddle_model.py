import paddle
from paddle import nn
from paddle.nn import functional as F


class RMSNorm(nn.Layer):
    def __init__(self, width, epsilon=1e-5):
        super().__init__()
        self.weight = self.create_parameter([width])
        self.epsilon = epsilon

    def forward(self, x):
        square = paddle.cast(x, "float32").square().mean(-1, keepdim=True)
        normed = paddle.cast(x, "float32") * paddle.rsqrt(square + self.epsilon)
        return normed.cast(x.dtype) * self.weight


class Attention(nn.Layer):
    def __init__(self, width, heads, turned):
        super().__init__()
        self.heads, self.turned = heads, turned
        self.q_proj = nn.Linear(width, width, bias_attr=False)
        self.k_proj = nn.Linear(width, width, bias_attr=False)
        self.v_proj = nn.Linear(width, width, bias_attr=False)
        self.o_proj = nn.Linear(width, width, bias_attr=False)

    def turn(self, x, base=10000.0):
        """x (B, T, H, D)"""
        turned = self.turned
        places = paddle.arange(x.shape[1], dtype="float32")
        inverse = 1.0 / base ** (paddle.arange(0, turned, 2, dtype="float32") / turned)
        angles = paddle.outer(places, inverse).reshape([1, -1, 1, turned // 2])
        cos = paddle.concat([angles, angles], -1).cos().astype(x.dtype)
        sin = paddle.concat([angles, angles], -1).sin().astype(x.dtype)
        head, rest = x[..., :turned], x[..., turned:]
        a, b = head.chunk(2, axis=-1)
        head = head * cos + paddle.concat([-b, a], axis=-1) * sin
        return paddle.concat([head, rest], axis=-1)

    def forward(self, x):
        shape = [x.shape[0], x.shape[1], self.heads, -1]
        q, k = self.turn(self.q_proj(x).reshape(shape)), self.turn(self.k_proj(x).reshape(shape))
        scores = paddle.einsum("bthd,bshd->bhts", q, k) / q.shape[-1] ** 0.5
        later = paddle.ones(scores.shape[-2:], dtype="bool").triu(1)
        scores = paddle.where(later, paddle.full_like(scores, -1e30), scores)
        weights = F.softmax(scores, axis=-1)
        y = paddle.einsum("bhts,bshd->bthd", weights, self.v_proj(x).reshape(shape))
        return self.o_proj(y.reshape(x.shape))


class Layer(nn.Layer):
    def __init__(self, width, heads, inner, turned):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attn = Attention(width, heads, turned)
        self.gate = nn.Linear(width, inner, bias_attr=False)
        self.up = nn.Linear(width, inner, bias_attr=False)
        self.down = nn.Linear(inner, width, bias_attr=False)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Phi(nn.Layer):
    def __init__(self, words, width, heads, inner, layers, turned):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.Sequential(*[Layer(width, heads, inner, turned) for _ in range(layers)])
        self.norm = RMSNorm(width)

    def forward(self, input_ids):
        x = self.norm(self.layers(self.embed(input_ids)))
        return paddle.matmul(x, self.embed.weight, transpose_y=True)


def build(config):
    return Phi(**config)


def loss(outputs, inputs):
    return F.cross_entropy(outputs[:, :-1], inputs["input_ids"][:, 1:])
