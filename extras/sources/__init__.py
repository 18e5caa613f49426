"""Data of other kinds than a series: reviews, texts, texts with labels."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
