"""Aligned or not, in a test suite: the fixture `twincheck`, and references where no torch is."""
