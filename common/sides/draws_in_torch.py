"""Which of torch's functions draw random numbers, for random_functions.py.

What stands behind a function in FUNCTIONS takes its arguments, and gives what its numbers need:
None where the function is left alone.
"""

import torch

SEED = "manual_seed"


def keep_compilable(plain, drawn):
    """A function that torch.jit.script compiles knows the framework's own by identity."""
    operator = torch.jit._builtins._find_builtin(plain)
    if operator:
        torch.jit._builtins._register_builtin(drawn, operator)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """Its scores, temperature, whether it is one-hot, and its axis."""
    return logits, tau, hard, dim


def rrelu(input, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
    """Its values and the ends of the slopes."""
    return None if inplace or not training else (input, lower, upper)


def _none(*given, **options):
    return ()


def _mean_std(mean=0.0, std=1.0, *rest, **options):
    return mean, std


def _own_mean_std(self, mean=0.0, std=1.0, *rest, **options):
    return mean, std


def _low_high(self, low=0.0, high=1.0, **options):
    return options.get("from", low), options.get("to", high)


def _rate(self, rate=1.0, **options):
    return (options.get("lambd", rate),)


def _probability(input, p=None, **options):
    return (input if p is None else p,)


def _own_probability(self, p=0.5, **options):
    return (p,)


def _weights(input, num_samples, replacement=False, **options):
    return (input,) if replacement or num_samples == 1 else None


def _range(*given, low=0, high=None, **options):
    ends = [value for value in given if isinstance(value, int)]
    ends += [high] if high is not None else []
    return (low, *ends)[-2:] if ends else None


_OF_TORCH, _OF_TENSORS, _OF_BOTH = (torch,), (torch.Tensor,), (torch, torch.Tensor)
FUNCTIONS = (
    (_OF_TORCH, ("rand", "rand_like"), "uniform", _none),
    (_OF_TORCH, ("randn", "randn_like"), "normal", _none),
    (_OF_TORCH, ("normal",), "scaled", _mean_std),
    (_OF_TENSORS, ("normal_",), "scaled", _own_mean_std),
    (_OF_TENSORS, ("uniform_",), "between", _low_high),
    (_OF_TENSORS, ("exponential_",), "exponential", _rate),
    (_OF_BOTH, ("bernoulli",), "coins", _probability),
    (_OF_TENSORS, ("bernoulli_",), "coins", _own_probability),
    (_OF_BOTH, ("multinomial",), "categories", _weights),
    (_OF_TORCH, ("randint", "randint_like"), "integers", _range),
    (_OF_TORCH, ("randperm",), "permutation", _none),
)
