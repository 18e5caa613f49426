"""What PaConvert makes of a file's imports is put right, where it would not do."""

import pytest

from twincheck.extras.new_pair.paconvert import _with_its_imports

MOVED = 'import sys\n\nfrom __future__ import annotations\n\nimport paddle\nx: "A" = 1\n'
LAYERS = "import einops\nimport paddle\n\nnet = einops.layers.paddle.Rearrange('b c -> c b')\n"
SOUND = [
    "from __future__ import annotations\n\nimport paddle\n",
    '"""Words."""\n\nfrom __future__ import annotations\n\nimport einops\n\neinops.rearrange\n',
    "import einops\n\n# as in `einops_layers.paddle`\nown.einops.layers.paddle.Rearrange\n",
    "broken(\n",
]


def test_future_goes_to_the_top():
    with pytest.raises(SyntaxError):
        compile(MOVED, "", "exec")
    text = _with_its_imports(MOVED)
    compile(text, "", "exec")
    assert text.count("__future__") == 1 and "import paddle" in text


def test_a_layer_of_einops_is_imported():
    text = _with_its_imports(LAYERS)
    assert "import einops.layers.paddle  #" in text
    assert text.splitlines()[0] == "import einops"


@pytest.mark.parametrize("text", SOUND)
def test_what_is_sound_stays(text):
    assert _with_its_imports(text) == text
