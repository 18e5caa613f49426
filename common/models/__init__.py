"""The built-in pairs, one folder each; a pair's contract is in README.md, "Align your own model"."""
