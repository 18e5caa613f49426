"""Logs: written, read without being executed, and what stands beside them."""
