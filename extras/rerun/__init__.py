"""A bundle's checks run again here: --rerun of common.verify."""
