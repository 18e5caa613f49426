"""The Paddle side of a pair as a repository of its own, which needs Paddle and NumPy alone."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
