"""Both sides write text from one checkpoint: step5_train/check_generate.py."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
