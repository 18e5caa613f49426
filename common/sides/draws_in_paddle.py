"""Which of Paddle's functions draw random numbers, name by name as in draws_in_torch.py."""

import paddle

SEED = "seed"


def keep_compilable(plain, drawn):
    """Paddle's compilers look at what is called when it is called."""


def gumbel_softmax(x, temperature=1.0, hard=False, axis=-1, name=None):
    """As in torch."""
    return x, temperature, hard, axis


def rrelu(x, lower=1 / 8, upper=1 / 3, training=True, name=None):
    """As in torch."""
    return (x, lower, upper) if training else None


def _none(*given, **options):
    return ()


def _mean_std(shape_or_tensor, mean, std, *rest, **options):
    return mean, std


def _created(*given, **options):
    return given[2:4] if len(given) == 6 else given[4:6]


def _low_high(x, low, high, *rest, **options):
    return low, high


def _rate(x, rate, *rest, **options):
    return (rate,)


def _probability(x, *rest, **options):
    return (x,)


def _own_probability(x, p=0.5, name=None):
    return (p,)


def _weights(x, num_samples, replacement=False, **options):
    return (x,) if replacement or num_samples == 1 else None


def _range(low, high, *rest, **options):
    return low, high


_OPERATORS = (paddle._C_ops,)
FUNCTIONS = (
    (_OPERATORS, ("uniform", "uniform_random_batch_size_like"), "between", _created),
    (_OPERATORS, ("gaussian", "gaussian_inplace_"), "scaled", _mean_std),
    (_OPERATORS, ("uniform_inplace_",), "between", _low_high),
    (_OPERATORS, ("exponential_",), "exponential", _rate),
    (_OPERATORS, ("bernoulli",), "coins", _probability),
    ((paddle, paddle.Tensor), ("bernoulli_",), "coins", _own_probability),
    (_OPERATORS, ("multinomial",), "categories", _weights),
    (_OPERATORS, ("randint",), "integers", _range),
    (_OPERATORS, ("randperm",), "permutation", _none),
)
