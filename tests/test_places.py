"""Which lines of code a check names: the user's, wherever their folders are called like ours."""

import pytest

from twincheck.common.sides.places import is_instrument, makers, noting_makers
from twincheck.common.system.checkout import ROOT

PACKAGES = "/env/lib/python3.11/site-packages"
# file -> whether it is an instrument: no user wants to be sent there
FILES = {
    f"{ROOT}/common/sides/backend_torch.py": True,
    f"{ROOT}/common/pair/tape.py": True,
    f"{ROOT}/common/torch_side.py": True,
    "<string>": True,
    f"{PACKAGES}/torch/nn/functional.py": True,
    f"{PACKAGES}/paddle/nn/layer/layers.py": True,
    "/usr/lib/python3/dist-packages/numpy/core.py": True,
    f"{PACKAGES}/paddlenlp/transformers/bert/modeling.py": False,
    f"{PACKAGES}/torchvision/models/resnet.py": False,
    "/home/me/torch/model.py": False,
    "/usr/lib/python3/site-packages/paddle/vision/models/squeezenet.py": False,
    f"{ROOT}/common/models/reformer/torch_model.py": False,
    f"{ROOT}/step4_backward/torch/backward.py": False,
    f"{ROOT}/my_pair/common/layers.py": False,
    "/home/user/my_pair/common/layers.py": False,
    "/home/user/common/models/layers.py": False,
    "C:\\pairs\\common\\layers.py": False,
    "/usr/lib/python3/site-packages/transformers/models/reformer/modeling_reformer.py": False,
}


@pytest.mark.parametrize("file", FILES)
def test_what_is_an_instrument(file):
    assert is_instrument(file) == FILES[file]


class Module:
    pass


def test_a_module_keeps_the_line_that_makes_it():
    """Of the model, not of a step's script or of the framework; and only inside."""

    def made(file):
        exec(compile("made = Module()", file, "exec"), given := {"Module": Module})
        return [line for line, _ in makers(given["made"])]

    before = Module.__init__
    with noting_makers(Module):
        assert made("/home/user/paddle_model.py")[0] == "/home/user/paddle_model.py:1"
        assert made(f"{ROOT}/step5_train/torch/train.py") == []
    assert Module.__init__ is before and made("/home/user/paddle_model.py") == []
