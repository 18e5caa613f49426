"""Operators of the Paddle side that torch computes, and which of them make the sides differ."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
