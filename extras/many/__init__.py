"""Several pairs in one command, here or on a cluster."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
