"""What runs inside a framework's process."""
