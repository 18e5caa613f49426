"""The check's own process: the command line, the twins' processes, the result."""
