"""Both sides write text from one checkpoint: step5_train/check_generate.py."""
