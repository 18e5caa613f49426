"""Which of Paddle's functions draw random numbers, name by name as in draws_in_torch.py."""

import paddle

SEED = "seed"


def gumbel_softmax(x, temperature=1.0, hard=False, axis=-1, name=None):
    """As in torch."""
    return x, temperature, hard, axis


def rrelu(x, lower=1 / 8, upper=1 / 3, training=True, name=None):
    """As in torch."""
    return (x, lower, upper) if training else None


def _first_two(_, one, other, *rest, **options):
    """Behind a shape or a tensor: the mean and the deviation, or the ends of a range."""
    return one, other


def _created(*given, **options):
    return given[2:4] if len(given) == 6 else given[4:6]


def _weights(x, num_samples, replacement=False, **options):
    return (x,) if replacement or num_samples == 1 else None


_OPERATORS = (paddle._C_ops,)
FUNCTIONS = (
    (_OPERATORS, ("uniform", "uniform_random_batch_size_like"), "between", _created),
    (_OPERATORS, ("gaussian", "gaussian_inplace_"), "scaled", _first_two),
    (_OPERATORS, ("uniform_inplace_",), "between", _first_two),
    (_OPERATORS, ("exponential_",), "exponential", lambda x, rate, *rest, **more: (rate,)),
    (_OPERATORS, ("bernoulli",), "coins", lambda x, *rest, **more: (x,)),
    ((paddle, paddle.Tensor), ("bernoulli_",), "coins", lambda x, p=0.5, name=None: (p,)),
    (_OPERATORS, ("multinomial",), "categories", _weights),
    (_OPERATORS, ("randint",), "integers", lambda low, high, *rest, **more: (low, high)),
    (_OPERATORS, ("randperm",), "permutation", lambda *given, **more: ()),
)
