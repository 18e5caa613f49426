"""Both sides write text from one checkpoint: twincheck check-generate."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
