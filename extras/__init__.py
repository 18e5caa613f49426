"""Features beside the core, a folder each: README.md says what an extra is."""
