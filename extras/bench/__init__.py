"""Speed and memory beside the peers: twincheck bench."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
