"""What the five steps share, twincheck.common.X. README.md says where to start."""
