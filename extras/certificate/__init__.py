"""Weights moved from one side to the other, and the proof: its certificate, and the converter."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
