"""What both sides forecast behind a file's end: step5_train/check_predict.py."""

from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
