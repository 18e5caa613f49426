"""The report for a pull request: one Markdown file from results alone."""
