"""Several pairs in one command, here or on a cluster."""
