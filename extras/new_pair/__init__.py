"""A pair from two names: what is named is looked at, matched, and written as a pair's files."""
