"""What a pair is and what it is fed."""
