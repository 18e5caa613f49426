"""The bundle: what a run has left, in one file that somebody else can verify."""
