"""Operators of the Paddle side that torch computes instead."""
