"""Informer: configurations, inputs and cases (NumPy only).

    from twincheck.common.models.informer.case import CONFIGS, make_inputs
    inputs = make_inputs(CONFIGS["default"], seed=0)
    inputs["x_enc"].shape  # (3, 24, 4)

The keys of a configuration are the options of the reference's main_informer.py, and so is what they
mean; its constructor's `out_len` and, of the stack, a list of `e_layers` are understood too.
"""

import math

import numpy as np

# The reference's defaults; what is not of the model says which data it is trained on.
DEFAULTS = {
    "model": "informer",  # or informer_stack: an encoder for each of s_layers
    "enc_in": 7,  # columns that the encoder reads
    "dec_in": 7,  # columns that the decoder reads
    "c_out": 7,  # columns that are forecast
    "seq_len": 96,  # rows that the encoder reads
    "label_len": 48,  # of them the last so many are the decoder's start
    "pred_len": 24,  # rows that are forecast
    "factor": 5,  # of ProbSparse: how many logarithms of the length are sampled and chosen
    "d_model": 512,  # C
    "n_heads": 8,
    "e_layers": 2,
    "d_layers": 1,
    "s_layers": [3, 2, 1],  # layers of each encoder of the stack
    "d_ff": 2048,
    "dropout": 0.05,
    "attn": "prob",  # of the encoder and of the decoder's own attention; or full
    "embed": "timeF",  # of the time: a Linear of features; or fixed or learned tables
    "freq": "h",  # what the time is told in
    "activation": "gelu",  # the exact one, with erf
    "output_attention": False,
    "distil": True,  # halve the sequence between the encoder's layers
    "mix": True,  # the decoder's own attention hands its heads on unmerged
    "features": "M",  # many columns from many; S one from itself, MS one from many
    "target": "OT",  # that one
    "inverse": False,  # forecast in the file's own units
    "padding": 0,  # what stands in the decoder's input for rows to forecast: 0 or 1
}

_ALLOWED = {
    "model": ("informer", "informer_stack"),
    "attn": ("prob", "full"),
    "embed": ("timeF", "fixed", "learned"),
    "freq": ("s", "t", "h", "d", "b", "w", "m", "a"),
    "activation": ("gelu", "relu"),
    "output_attention": (True, False),
    "distil": (True, False),
    "mix": (True, False),
    "features": ("M", "S", "MS"),
    "inverse": (True, False),
    "padding": (0, 1),
}
_COUNTS = (
    "enc_in",
    "dec_in",
    "c_out",
    "seq_len",
    "pred_len",
    "factor",
    "d_model",
    "n_heads",
    "d_layers",
    "d_ff",
)

# Columns of the time: of features in place of dates, by frequency, and of tables.
TIME_FEATURES = {"h": 4, "t": 5, "s": 6, "m": 1, "a": 1, "w": 2, "d": 3, "b": 3}
# What each table holds rows for, in the order of the columns; the minutes are quarters of an hour.
TIME_TABLES = {"month": 13, "day": 32, "weekday": 7, "hour": 24, "minute": 4}

MAX_LENGTH = 5000  # rows of the table of positions

_SMALL = {
    **DEFAULTS,
    "enc_in": 4,
    "dec_in": 4,
    "c_out": 4,
    "seq_len": 24,
    "label_len": 12,
    "pred_len": 6,
    "factor": 2,
    "d_model": 16,
    "n_heads": 2,
    "e_layers": 2,
    "d_layers": 1,
    "s_layers": [2, 1],
    "d_ff": 24,
    "dropout": 0.05,
}

# The paper's horizons on ETTh1, as the reference's scripts/ETTh1.sh has them: rows that are
# forecast -> (rows read, rows of the decoder's start), with all columns and with one.
_MULTIVARIATE = {24: (48, 48), 48: (96, 48), 168: (168, 168), 336: (168, 168), 720: (336, 336)}
_UNIVARIATE = {24: (720, 168), 48: (720, 168), 168: (720, 336), 336: (720, 336), 720: (720, 336)}


def _paper(features, horizon):
    lengths = (_MULTIVARIATE if features == "M" else _UNIVARIATE)[horizon]
    columns = 7 if features == "M" else 1
    return {
        **DEFAULTS,
        "enc_in": columns,
        "dec_in": columns,
        "c_out": columns,
        "seq_len": lengths[0],
        "label_len": lengths[1],
        "pred_len": horizon,
        "features": features,
        "factor": 3 if features == "M" and horizon == 24 else 5,
    }


_PAPER = {
    f"etth1_{features.lower()}_{horizon}": (features, horizon)
    for features in ("M", "S")
    for horizon in _MULTIVARIATE
}

_SHORT = "etth1_s_24_short"

CONFIGS = {
    "default": _SMALL,
    # What steps 2 and 5 train.  At this factor every row is chosen, in some order.
    # At a smaller one, a training of 4 epochs meets near ties, and what rounding puts in another
    # row's place moves the test's mse by up to 0.17 % (measured at factor 5, 20 of 24 rows).
    "seasons": {**_SMALL, "factor": 6},
    **{name: _paper(*what) for name, what in _PAPER.items()},
    # A step on 720 rows takes ten times as long as on 48; the paper searched among 24 to 720.
    _SHORT: {**_paper("S", 24), "seq_len": 48, "label_len": 48},
    # The same on files of quarters of an hour (ETTm1), and on any CSV file with a date column.
    "ettm1_m_24": {**_paper("M", 24), "freq": "t"},
    "csv": {**DEFAULTS, "seq_len": 96, "label_len": 48, "pred_len": 24},
}

CASES = {
    "default": {
        "informer": {"config": {"e_layers": 1}, "weights": "initial"},
        "stack": {
            "config": {
                "model": "informer_stack",
                "embed": "learned",
                "freq": "t",
                "dropout": 0.1,
                "output_attention": True,
            },
            "weights": "perturbed",
            "train": True,
        },
        "full": {
            "config": {
                "attn": "full",
                "embed": "fixed",
                "activation": "relu",
                "distil": False,
                "mix": False,
                "output_attention": True,
                "features": "MS",
                "c_out": 1,
            },
            "weights": "perturbed",
        },
        # Queries that are nearly alike: their places in the top-u hang on the last bits.
        "near_ties": {
            "config": {"inverse": True},
            "inputs": {"near_ties": True},
            "weights": "perturbed",
        },
    }
}


# How a preset is trained.
_PAPER_TRAIN = {
    "epochs": 6,
    "batch_size": 32,
    "optimizer": "adam",
    "lr": 1e-4,
    "schedule": "type1",
    "best": ("smallest", "mse"),
    "patience": 3,
    "drop_last": True,
}
TRAIN = {
    **{name: _PAPER_TRAIN for name in CONFIGS if name != "default"},
    "seasons": _PAPER_TRAIN | {"epochs": 4, "lr": 3e-3, "schedule": "linear", "patience": None},
}

# What a preset reads (common/pair/sources).
DATA = {
    "seasons": {"source": "ett", "split": "share", "default": "seasons.csv"},
    **{name: {"source": "ett", "split": "hour"} for name in (*_PAPER, _SHORT)},
    "ettm1_m_24": {"source": "ett", "split": "minute"},
    "csv": {"source": "ett", "split": "share"},
}

# Steps 2 and 5 read and train this where the preset has no entry in TRAIN or DATA.
DATA_PRESET = "seasons"

# Table 2 and Table 1 of the paper (as its authors updated them), by horizon: mse and mae.
_REACHED = {
    "M": {
        24: (0.577, 0.549),
        48: (0.685, 0.625),
        168: (0.931, 0.752),
        336: (1.128, 0.873),
        720: (1.215, 0.896),
    },
    "S": {
        24: (0.098, 0.247),
        48: (0.158, 0.319),
        168: (0.183, 0.346),
        336: (0.222, 0.387),
        720: (0.269, 0.435),
    },
}


def _target(features, horizon):
    mse, mae = _REACHED[features][horizon]
    return {
        "source": f"Informer's paper, ETTh1, {features}, {horizon} hours ahead",
        # The test has 2,880 hours; a batch that is not whole is left out.
        "test_samples": (2881 - horizon) // 32 * 32,
        "scores": {"mse": (mse, 0.0), "mae": (mae, 0.0)},
    }


TARGETS = {name: _target(*what) for name, what in _PAPER.items()} | {_SHORT: _target("S", 24)}


def complete(config):
    """`config` with DEFAULTS for what it leaves out; keys that the model does not use are dropped.

    `e_layers` becomes a list for the stack, a number else.
    Raises ValueError, one sentence naming the value and what is allowed, for a value that no model
    can be built from.
    """
    given = dict(config)
    if "out_len" in given:
        given.setdefault("pred_len", given["out_len"])
    full = {key: given.get(key, default) for key, default in DEFAULTS.items()}
    full["freq"] = _frequency(full["freq"])
    for key, allowed in _ALLOWED.items():
        known = full[key] in allowed and not (
            isinstance(full[key], bool) != isinstance(allowed[0], bool)
        )
        if not known:
            names = ", ".join(repr(name) for name in allowed)
            raise ValueError(f"informer: {key} is {full[key]!r}; allowed: {names}.")
    for key in _COUNTS:
        _check_count(key, full[key], 1)
    _check_count("label_len", full["label_len"], 0)
    if full["model"] == "informer_stack":
        layers = full["e_layers"] if isinstance(full["e_layers"], list | tuple) else None
        full["e_layers"] = _layers(full["s_layers"] if layers is None else layers)
    else:
        _check_count("e_layers", full["e_layers"], 1)
    if full["d_model"] % 2 or full["d_model"] < full["n_heads"]:
        raise ValueError(
            f"informer: d_model is {full['d_model']}; allowed: an even number from n_heads, which "
            f"is {full['n_heads']}."
        )
    for key, length in (
        ("seq_len", full["seq_len"]),
        ("label_len + pred_len", full["label_len"] + full["pred_len"]),
    ):
        if length > MAX_LENGTH:
            raise ValueError(f"informer: {key} is {length}; allowed: up to {MAX_LENGTH} rows.")
    if full["label_len"] > full["seq_len"]:
        raise ValueError(
            f"informer: label_len is {full['label_len']}; allowed: up to seq_len, which is "
            f"{full['seq_len']}."
        )
    if not 0.0 <= full["dropout"] < 1.0:
        raise ValueError(f"informer: dropout is {full['dropout']!r}; allowed: from 0 to below 1.")
    return full


def _frequency(freq):
    """The letter of a frequency such as 15min or 4h."""
    text = str(freq).lower()
    return "t" if text.endswith("min") else text[-1:]


def _check_count(key, value, least):
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"informer: {key} is {value!r}; allowed: an integer from {least}.")


def _layers(value):
    """Layers of each encoder of the stack, from a list or from a text such as 3,2,1."""
    try:
        parts = value.replace(" ", "").split(",") if isinstance(value, str) else list(value)
        layers = [int(part) for part in parts]
    except (TypeError, ValueError):
        layers = []
    if not layers or min(layers) < 1:
        raise ValueError(
            f"informer: s_layers is {value!r}; allowed: integers from 1, such as [3, 2, 1]."
        )
    return layers


def time_columns(config):
    """How many columns the marks of the time have; `config` is complete."""
    if config["embed"] == "timeF":
        return TIME_FEATURES[config["freq"]]
    return len(TIME_TABLES) - (config["freq"] not in ("t", "s"))


def make_inputs(config, seed, batch_size=3, near_ties=False):
    """Series, marks of the time and what is to be forecast, under the reference's names.

    near_ties  most rows of the encoder's series are one large value, beside which their places
               count for little: so near to each other the queries' measures are.  The other rows
               are never sampled (index_samples), and every softmax picks the key of one of them, by
               far: the choice of queries alone hangs on the last bits.  The decoder's series stays

    The decoder's series ends in the rows to forecast, which are `padding`; its start is the end of
    the encoder's, as in the data.  Marks are features within ±0.5, or rows of the tables, int64.
    """
    config = complete(config)
    rng = np.random.default_rng(seed)
    rows, start, ahead = config["seq_len"], config["label_len"], config["pred_len"]
    columns = max(config["enc_in"], config["dec_in"], config["c_out"])
    series = np.cumsum(rng.standard_normal([batch_size, rows + ahead, columns]), axis=1)
    series = series / np.sqrt(rows)
    marks = _marks(rng, config, batch_size, rows + ahead)
    decoded = np.full([batch_size, start + ahead, config["dec_in"]], float(config["padding"]))
    decoded[:, :start] = series[:, rows - start : rows, : config["dec_in"]]
    inputs = {
        "x_enc": series[:, :rows, : config["enc_in"]],
        "x_mark_enc": marks[:, :rows],
        "x_dec": decoded,
        "x_mark_dec": marks[:, rows - start :],
        "labels": series[:, rows:, -config["c_out"] :],
    }
    if near_ties:
        inputs |= _nearly_alike(rng, config, inputs)
    if config["inverse"]:
        inputs["target_mean"] = rng.standard_normal([batch_size, config["c_out"]])
        inputs["target_std"] = 0.5 + rng.random([batch_size, config["c_out"]])
    return {
        name: values
        if isinstance(values, list)
        else values.astype(np.int64 if values.dtype.kind == "i" else np.float32)
        for name, values in inputs.items()
    }


def _nearly_alike(rng, config, inputs):
    """What near_ties changes of the inputs, and the keys that each ProbSparse attention samples."""
    rows = config["seq_len"]
    series = 2e4 * (1.0 + np.abs(np.repeat(inputs["x_enc"][:, :1], rows, axis=1)))
    # One is larger and one smaller by as much, and the convolution mixes each into its neighbours:
    # whatever the weights are, some of these have larger scores than the rows that are alike, whose
    # own scores differ by no more than float32's noise.
    others = {rows // 4: 1.5, 3 * rows // 4: 0.5}
    for row, factor in others.items():
        series[:, row] *= factor
    near = {(row + step) % rows for row in others for step in (-1, 0, 1)}
    alike = np.array([row for row in range(rows) if row not in near])
    lengths = [rows]
    for _ in range(config["e_layers"] - 1):
        lengths.append((lengths[-1] + 1) // 2 if config["distil"] else lengths[-1])
    lengths += [config["label_len"] + config["pred_len"]] * config["d_layers"]
    samples = [
        rng.integers(
            0, length, [length, min(config["factor"] * math.ceil(math.log(length)), length)]
        )
        for length in lengths
    ]
    samples[0] = alike[samples[0] % len(alike)]
    return {
        "x_enc": series,
        # And one time: positions alone tell the rows apart.
        "x_mark_enc": np.repeat(inputs["x_mark_enc"][:, :1], rows, axis=1),
        "index_samples": samples,
    }


def _marks(rng, config, batch_size, rows):
    """Marks of consecutive times, each sample from a start of its own: (B, rows, columns)"""
    columns = time_columns(config)
    if config["embed"] == "timeF":
        return rng.random([batch_size, rows, columns]) - 0.5
    sizes = list(TIME_TABLES.values())[:columns]
    starts = rng.integers(0, 1000, size=[batch_size, 1, columns])
    # A month and a day of the month count from one.
    first = np.array([1, 1, 0, 0, 0][:columns])
    steps = np.arange(rows).reshape([1, rows, 1])
    return first + (starts + steps) % (np.array(sizes) - first)
