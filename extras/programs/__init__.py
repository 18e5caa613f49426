"""What a check tells programs: findings, edits that mend them."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
