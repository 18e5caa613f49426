"""Two live models: twincheck.check, which forks its caller for each side and judges in between."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
