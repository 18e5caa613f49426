"""A pair from two names: what is named is looked at, matched, and written as a pair's files."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
