"""What both sides forecast behind a file's end: step5_train/check_predict.py."""
