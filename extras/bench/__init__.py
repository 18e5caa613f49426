"""Speed and memory beside the peers: python -m tools.bench."""
