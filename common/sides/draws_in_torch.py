"""Which of torch's functions draw random numbers, for random_functions.py.

What stands behind a function in FUNCTIONS takes its arguments, and gives what its numbers need:
None where the function is left alone.
"""

import torch

SEED = "manual_seed"


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """Its scores, temperature, whether it is one-hot, and its axis."""
    return logits, tau, hard, dim


def rrelu(input, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
    """Its values and the ends of the slopes."""
    return None if inplace or not training else (input, lower, upper)


def _low_high(self, low=0.0, high=1.0, **options):
    return options.get("from", low), options.get("to", high)


def _weights(input, num_samples, replacement=False, **options):
    return (input,) if replacement or num_samples == 1 else None


def _range(*given, low=0, high=None, **options):
    ends = [value for value in given if isinstance(value, int)]
    ends += [high] if high is not None else []
    return (low, *ends)[-2:] if ends else None


_OF_TORCH, _OF_TENSORS, _OF_BOTH = (torch,), (torch.Tensor,), (torch, torch.Tensor)
FUNCTIONS = (
    (_OF_TORCH, ("rand", "rand_like"), "uniform", lambda *given, **more: ()),
    (_OF_TORCH, ("randn", "randn_like"), "normal", lambda *given, **more: ()),
    (_OF_TORCH, ("normal",), "scaled", lambda mean=0.0, std=1.0, *rest, **more: (mean, std)),
    (_OF_TENSORS, ("normal_",), "scaled", lambda x, mean=0.0, std=1.0, **more: (mean, std)),
    (_OF_TENSORS, ("uniform_",), "between", _low_high),
    (_OF_TENSORS, ("exponential_",), "exponential", lambda x, lambd=1.0, **more: (lambd,)),
    (_OF_BOTH, ("bernoulli",), "coins", lambda input, p=None, **more: (input if p is None else p,)),
    (_OF_TENSORS, ("bernoulli_",), "coins", lambda x, p=0.5, **more: (p,)),
    (_OF_BOTH, ("multinomial",), "categories", _weights),
    (_OF_TORCH, ("randint", "randint_like"), "integers", _range),
    (_OF_TORCH, ("randperm",), "permutation", lambda *given, **more: ()),
)
