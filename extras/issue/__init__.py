"""The text of an issue for upstream, with a program that shows what differs: twincheck issue."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
