"""What both sides forecast behind a file's end: twincheck check-predict."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
