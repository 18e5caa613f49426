"""Twins are one text: every pair follows the table of spellings; a planted drift is caught."""

from pathlib import Path

import pytest

from tools import twins as spelling

pytestmark = pytest.mark.lint

ROOT = Path(__file__).resolve().parent.parent

TORCH = '''"""The torch side of a sample."""

import torch
from torch import nn


class Scores(nn.Module):
    """Scores of one query; Paddle and torch agree on these."""

    def __init__(self, size, epsilon=1e-12):
        super().__init__()
        self.norm = nn.LayerNorm(size, eps=epsilon)
        self.dense = nn.Linear(size, 1, bias=False)

    def forward(self, x):
        x = self.dense(self.norm(x))  # (B, T, 1): as in torch
        scale = 0.125
        order = torch.argsort(x, dim=-1, stable=True)
        x = torch.gather(x, -1, order)  # twin: another order of arguments
        return torch.cat([x, x], dim=-1) * scale
'''
PADDLE = TORCH
for spelt in (
    ("The torch side", "The paddle side"),
    ("import torch\nfrom torch", "import paddle\nfrom paddle"),
    ("nn.Module", "nn.Layer"),
    ("eps=epsilon", "epsilon=epsilon"),
    ("bias=False", "bias_attr=False"),
    ("torch.argsort(x, dim", "paddle.argsort(x, axis"),
    ("torch.gather(x, -1, order)", "paddle.take_along_axis(x, order, axis=-1)"),
    ("torch.cat([x, x], dim", "paddle.concat([x, x], axis"),
):
    PADDLE = PADDLE.replace(*spelt)


def compare(folder: Path, torch_text: str, paddle_text: str) -> list[str]:
    (folder / "torch_model.py").write_text(torch_text, encoding="utf-8")
    (folder / "paddle_model.py").write_text(paddle_text, encoding="utf-8")
    return list(spelling.differences(folder / "torch_model.py", folder / "paddle_model.py"))


def replaced(text: str, old: str, new: str) -> str:
    """`text` with its single `old` replaced, so that a fault cannot silently fail to be planted."""
    assert text.count(old) == 1, (text.count(old), old)
    return text.replace(old, new)


def test_every_row_of_the_table_explains_a_line():
    unused = [f"{row.torch} -> {row.paddle}" for row in spelling.unused_spellings(ROOT)]
    assert not unused, f"rows that explain no line of any twin, to be dropped: {unused}"


@pytest.mark.parametrize("row", spelling.SPELLINGS, ids=lambda row: row.torch)
def test_row_says_what_it_does(row):
    assert spelling.translate(row.torch) == row.paddle
    assert row.rewrite(row.torch)[1] == 1
    assert row.reason


def test_the_sample_is_one_text(tmp_path):
    assert compare(tmp_path, TORCH, PADDLE) == []


TWIN = "# twin: another order of arguments"
SPELT, ONE_SIDE = "does not explain this", "side says `# twin:`; both must"
# What is planted: of which side, what stands there, what instead, the line, what is said of it.
DRIFTS = {
    "a changed constant": ("paddle", "scale = 0.125", "scale = 0.12", 17, SPELT),
    "a dropped argument": ("paddle", ", stable=True", "", 18, SPELT),
    "torch's spelling": ("paddle", "axis=-1, stable", "dim=-1, stable", 18, SPELT),
    "a comment in code": ("paddle", "# (B, T, 1)", "# (B, 1, T)", 16, SPELT),
    "a docstring": ("paddle", "Scores of one query", "Scores of a query", 8, SPELT),
    "no reason on Paddle's side": ("paddle", f"  {TWIN}", "", 19, f"only the torch {ONE_SIDE}"),
    "no reason on torch's side": ("torch", f"  {TWIN}", "", 19, f"only the Paddle {ONE_SIDE}"),
    "an empty reason": ("paddle", TWIN, "# twin:", 19, "gives no reason"),
    "another reason": ("paddle", TWIN, "# twin: because", 19, "different reasons"),
    "a needless reason": ("both", "scale = 0.125", "scale = 0.125  # twin: x", 17, "drop its `#"),
    "a reason in a string": ("paddle", "= 0.125", '= ("# twin: x")', 17, SPELT),
    "an added line": ("paddle", "        scale =", "        x = x * 1\n        scale =", 17, SPELT),
}


@pytest.mark.parametrize("drift", DRIFTS)
def test_planted_drift_is_caught(tmp_path, drift):
    side, old, new, line, why = DRIFTS[drift]
    texts = {"torch": TORCH, "paddle": PADDLE}
    for name in texts:
        if side in (name, "both"):
            texts[name] = replaced(texts[name], old, new)
    found, *more = compare(tmp_path, *texts.values())
    assert f"torch_model.py:{line} and " in found and f"paddle_model.py:{line}: " in found
    assert why in found.splitlines()[0]
    expected = spelling.translate(texts["torch"].split("\n")[line - 1])
    assert found.endswith(f"  expected  {expected}")
    assert ("and 21 lines; twins go line by line" in str(more)) == ("\n" in new)
