"""Pairs of tests/pairs that are one text: what their ports have otherwise than in torch's words."""

from builders import translated

SMALL_LSTM = translated("small_lstm", ("bidirectional=True", 'direction="bidirect"'))
# The embedding cannot be the head's weight too, since a Linear keeps it transposed.
SMALL_TRANSFORMER = translated(
    "small_transformer",
    ("norm_first=True", "normalize_before=True"),
    ("        self.head = nn.Linear(channels, vocab_size, bias_attr=False)\n", ""),
    ("        self.head.weight = self.embedding.weight\n", ""),
    ("attended, _ =", "attended ="),
    ("self.head(attended)", "paddle.matmul(attended, self.embedding.weight, transpose_y=True)"),
)
_ONES = "default_initializer=nn.initializer.Constant(1.0)"
LAYER_ZOO = translated(
    "layer_zoo",
    ("nn.Parameter(paddle.ones(c))", f"self.create_parameter([c], {_ONES})"),
    ("nn.Parameter(paddle.zeros(c))", "self.create_parameter([c])"),
    ("nn.Parameter(paddle.ones(1))", f"self.create_parameter([1], {_ONES})"),
    ("states, states)[0]", "states, states)"),
    ("self.gru_cell(rows)", "self.gru_cell(rows)[0]"),
    ("value.numel()", "value.size"),
)
# These plant faults, of which the reference has none.
_DRAWN = """        for layer in self.layers:
            nn.init.normal_(layer.weight, std=0.15)
            nn.init.zeros_(layer.bias)
"""
DEEP = translated("deep", (_DRAWN, ""), ('**config | {"faults": []}', "**config"))
FRAMEWORK_PART = translated(
    "framework_part",
    ("nn.BatchNorm2D(3)", "nn.BatchNorm2D(3, momentum=0.9 + 1e-7 if fault else 0.9)"),
    ('**config | {"fault": False}', "**config"),
)
SEVERAL_FAULTS = translated("several_faults", ('**config | {"faults": selu}', "**config"))
