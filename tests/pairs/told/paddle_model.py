import paddle
from paddle import nn
from paddle.nn import functional as F


class Model(nn.Layer):
    def __init__(self, channels, fault):
        super().__init__()
        self.fault = fault
        self.first = nn.Conv1D(channels, channels, 3, padding=1)
        self.axis = [0, 2 if "mask" in fault else 1]
        self.drop = nn.Dropout(0.3, axis=self.axis)
        self.second = nn.Conv1D(channels, channels, 3, padding=1)
        small = nn.initializer.Constant(1e-4)
        self.size = self.create_parameter([10], default_initializer=small)

    def set_state_dict(self, state_dict, *arguments, **options):
        if self.fault == "put in":
            state_dict = {**state_dict, "first.bias": state_dict["first.bias"] * 1.5}
        return super().set_state_dict(state_dict, *arguments, **options)

    def forward(self, x):
        x = self.first(x)
        if self.fault == "function's mask":
            x = F.dropout(x, 0.3, axis=self.axis, training=self.training)
        else:
            x = self.drop(x)
        x = self.second(x)
        return x * paddle.sqrt(self.size) if self.fault == "root" else x * self.size


def build(config):
    global fault
    fault = config["fault"]
    return Model(**config)


def loss(outputs, inputs):
    losses = (outputs**2).mean((1, 2))
    if fault == "dict":
        return {"loss": losses.mean()}
    if fault == "float":
        return float(losses.mean())
    return losses if fault == "samples" else losses.mean()
