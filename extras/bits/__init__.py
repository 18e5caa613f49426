"""Bit for bit: which operators make the two sides' bits differ."""
