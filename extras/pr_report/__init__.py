"""The report for a pull request: one Markdown file from results alone."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
