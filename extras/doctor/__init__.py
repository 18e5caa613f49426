"""What this machine has for a check, and what to do: twincheck doctor."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
