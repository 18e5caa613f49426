"""The Paddle side of a pair as a repository of its own, which needs Paddle and NumPy alone."""
