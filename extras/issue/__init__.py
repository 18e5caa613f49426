"""The text of an issue for upstream, with a program that shows what differs: twincheck issue."""
