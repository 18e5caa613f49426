"""A pair from two names, or from one PyTorch file."""
