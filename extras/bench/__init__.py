"""Speed and memory beside the peers: python -m tools.bench."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
