"""The built-in pairs, one folder each; README.md, "Write a pair by hand", is their contract."""
