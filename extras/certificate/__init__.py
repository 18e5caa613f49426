"""Weights moved from one side to the other, and the proof: common.certificate, common.converter."""
