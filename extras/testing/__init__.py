"""Aligned or not, in a test suite: the fixture `twincheck`, and reference logs for who has no torch."""
