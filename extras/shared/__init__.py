"""What several extras need and the core does not."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
