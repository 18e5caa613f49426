"""The check's own process: the command line, the workers' processes, the result."""
