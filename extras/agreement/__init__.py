"""On which of a user's examples do the sides choose otherwise: step 2's --agree."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
