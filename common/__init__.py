"""The alignment workbench: what the five steps share. README.md says where to start."""
