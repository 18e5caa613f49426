"""Trainings that somebody else's trainer logged, judged beside step 5's: its --torch-losses."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
