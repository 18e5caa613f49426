"""What this machine has for a check, and what to do: twincheck doctor."""
