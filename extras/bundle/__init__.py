"""The bundle: what a run has left, in one file that somebody else can verify."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
