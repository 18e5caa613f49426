import paddle
from paddle import nn
from paddle.nn import functional as F


class Net(nn.Layer):
    def __init__(self, width, m):
        super().__init__()
        self.m = m

        def mlp():
            return nn.Sequential(
                nn.Linear(5, width), nn.BatchNorm1D(width), nn.ReLU(), nn.Linear(width, width)
            )

        self.student = mlp()
        self.predictor = nn.Linear(width, width)
        self.teacher = mlp()
        self.teacher.set_state_dict(self.student.state_dict())
        for p in self.teacher.parameters():
            p.stop_gradient = True

    @paddle.no_grad()
    def update(self):
        # Paddle counts a BatchNorm's statistics among the parameters.
        pairs = zip(self.student.parameters(), self.teacher.parameters(), strict=True)
        for s, t in [(s, t) for s, t in pairs if not s.stop_gradient]:
            t.set_value(t * self.m + s * (1 - self.m))

    def forward(self, a, b):
        with paddle.no_grad():
            if self.training:
                self.update()
            target = self.teacher(b)
        p = F.normalize(self.predictor(self.student(a)), axis=-1)
        z = F.normalize(target.detach(), axis=-1)
        return 2 - 2 * (p * z).sum(-1)


def loss(outputs, inputs):
    return outputs.mean()
