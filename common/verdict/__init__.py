"""The rule: which differences are bugs, and which are rounding."""
