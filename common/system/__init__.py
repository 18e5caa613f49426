"""Files, processes, signals and interpreters; it knows nothing of logs or models."""
