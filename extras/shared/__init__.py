"""What several extras need and the core does not."""
