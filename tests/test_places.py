"""Which lines of code a check names: the user's, wherever their folders are called like ours."""

import pytest

from twincheck.common.report.findings import place_of
from twincheck.common.sides.places import is_instrument, makers, noting_makers
from twincheck.common.sides.session import Session
from twincheck.common.system.checkout import ROOT, short_place

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


def test_places_are_short():
    assert short_place(f"{ROOT}/common/models/a/torch_model.py:7", str(ROOT)) == (
        "common/models/a/torch_model.py:7"
    )
    assert short_place(f"{PACKAGES}/paddlenlp/bert/modeling.py:7", "/root") == (
        "paddlenlp/bert/modeling.py:7"
    )
    assert short_place("/home/me/model.py:7", "/root") == "/home/me/model.py:7"


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


def test_no_row_of_a_step_is_said_to_start_at_the_workbench():
    session = Session()
    for name in ("step5_train/torch/train", "step4_backward/paddle/backward", "my_pair/model"):
        note = compile(f"session.note_place({name!r})", f"{ROOT}/{name}.py", "exec")
        exec(note, {"session": session})
    assert list(session.seen.places.values()) == ["", "", f"{ROOT}/my_pair/model.py:1"]
    assert place_of(session.seen.places, "step5_train/torch/train") == "no line known"
