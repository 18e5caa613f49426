"""The built-in pairs, one folder each; README.md, "Align your own model", is their contract."""
