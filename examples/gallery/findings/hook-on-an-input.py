"""A hook on an input that wants no gradient is an error; the torch model has no such hook."""

import sys

import paddle

try:
    paddle.ones([2]).register_hook(print)
except RuntimeError as error:
    print("paddle", str(error).strip().splitlines()[-1][:90])
    sys.exit(1)
