"""Two results beside each other: what a mend did, or a new version of a framework."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
