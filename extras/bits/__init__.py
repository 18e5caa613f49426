"""Bit for bit: which operators make the two sides' bits differ."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
