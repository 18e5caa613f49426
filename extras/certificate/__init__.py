"""Weights moved from one side to the other, and the proof: its certificate, and the converter."""
