"""Two results beside each other: what a mend did, or a new version of a framework."""
