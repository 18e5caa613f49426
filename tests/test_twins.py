"""Twins are one text: every pair follows the table of spellings; a planted drift is caught."""

from pathlib import Path

import pytest

from tools import twins as spelling
from twincheck.common.system.errors import UserError

pytestmark = pytest.mark.lint

ROOT = Path(__file__).resolve().parent.parent
PAIRS = spelling.twin_pairs(ROOT)

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


def compare(folder: Path, torch_text: str, paddle_text: str) -> list[spelling.Difference]:
    (folder / "torch_model.py").write_text(torch_text, encoding="utf-8")
    (folder / "paddle_model.py").write_text(paddle_text, encoding="utf-8")
    return spelling.differences(folder / "torch_model.py", folder / "paddle_model.py")


def replaced(text: str, old: str, new: str) -> str:
    """`text` with its single `old` replaced, so that a fault cannot silently fail to be planted."""
    assert text.count(old) == 1, (text.count(old), old)
    return text.replace(old, new)


def test_every_kind_of_twin_is_found():
    found = {str(path.relative_to(ROOT).as_posix()) for pair in PAIRS for path in pair}
    expected = set()
    expected |= {f"twincheck/{side}_side.py" for side in ("torch", "paddle")}
    for case in (ROOT / "common" / "models").glob("*/case.py"):
        expected |= {f"common/models/{case.parent.name}/{s}_model.py" for s in ("torch", "paddle")}
    for folder in ROOT.glob("step*/"):
        for side in ("torch", "paddle"):
            expected |= {p.relative_to(ROOT).as_posix() for p in folder.glob(f"{side}/*.py")}
    assert expected <= found


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


DRIFTS = {
    "a changed constant": ("scale = 0.125", "scale = 0.12", [17]),
    "a dropped argument": (", stable=True", "", [18]),
    "torch's spelling of an argument": ("axis=-1, stable", "dim=-1, stable", [18]),
    "a comment changed in code": ("# (B, T, 1)", "# (B, 1, T)", [16]),
    "a docstring changed": ("Scores of one query", "Scores of a query", [8]),
    "another indentation": ("        scale =", "         scale =", None),
}


@pytest.mark.parametrize("drift", DRIFTS)
def test_planted_drift_is_caught(tmp_path, drift):
    old, new, lines = DRIFTS[drift]
    if lines is None:  # not even Python any more
        with pytest.raises(UserError, match="is not Python source"):
            compare(tmp_path, TORCH, replaced(PADDLE, old, new))
        return
    found = compare(tmp_path, TORCH, replaced(PADDLE, old, new))
    assert [d.torch_line for d in found] == [d.paddle_line for d in found] == lines
    assert found[0].expected == spelling.translate(TORCH.split("\n")[lines[0] - 1])
    assert "paddle_model.py:" in str(found[0]) and new.strip() in str(found[0])


def test_swapped_lines_are_caught(tmp_path):
    lines = PADDLE.split("\n")
    lines[15], lines[16] = lines[16], lines[15]
    found = compare(tmp_path, TORCH, "\n".join(lines))
    assert [d.paddle_line for d in found] == [16, 17]


@pytest.mark.parametrize("side", ["torch", "Paddle"])
def test_twin_comment_on_one_side_is_caught(tmp_path, side):
    mark = "  # twin: another order of arguments"
    if side == "torch":
        found = compare(tmp_path, TORCH, replaced(PADDLE, mark, ""))
    else:
        found = compare(tmp_path, replaced(TORCH, mark, ""), PADDLE)
    said = f"only the {side} side says `# twin:`; both must, with the same reason"
    assert [d.why for d in found] == [said]


def test_twin_comment_needs_one_reason(tmp_path):
    mark = "# twin: another order of arguments"
    found = compare(tmp_path, replaced(TORCH, mark, "# twin:"), replaced(PADDLE, mark, "# twin:"))
    assert [d.why for d in found] == ["`# twin:` gives no reason"]
    found = compare(tmp_path, TORCH, replaced(PADDLE, mark, "# twin: because"))
    assert [d.why for d in found] == ["the two sides give different reasons after `# twin:`"]


def test_needless_twin_comment_is_caught(tmp_path):
    mark = "scale = 0.125"
    found = compare(
        tmp_path, *(replaced(t, mark, f"{mark}  # twin: none") for t in (TORCH, PADDLE))
    )
    said = "the table of spellings explains this line: drop its `# twin:`"
    assert [d.why for d in found] == [said]


def test_twin_inside_a_string_excuses_nothing(tmp_path):
    old, x = "scale = 0.125", '"# twin: x"'
    torch, paddle = (replaced(TORCH, old, f"scale = {x}"), replaced(PADDLE, old, f"scale = ({x})"))
    found = compare(tmp_path, torch, paddle)
    assert [d.torch_line for d in found] == [17]


def test_an_added_line_is_caught_where_it_is(tmp_path):
    added = replaced(PADDLE, "        scale =", "        x = x * 1\n        scale =")
    found = compare(tmp_path, TORCH, added)
    assert [(d.torch_line, d.paddle_line) for d in found] == [(17, 17)]
    assert found[0].paddle_text == "        x = x * 1"
    assert "0 line(s) on the torch side, 1 on the Paddle side" in found[0].why
    assert spelling.differences(*[tmp_path / f"{s}_model.py" for s in ("torch", "torch")])


def test_a_missing_partner_is_a_sentence(tmp_path):
    (tmp_path / "step1_forward" / "torch").mkdir(parents=True)
    (tmp_path / "step1_forward" / "torch" / "forward.py").write_text("import torch\n")
    pairs = spelling.twin_pairs(tmp_path)
    assert [tuple(p.relative_to(tmp_path).as_posix() for p in pair) for pair in pairs] == [
        ("step1_forward/torch/forward.py", "step1_forward/paddle/forward.py")
    ]
    with pytest.raises(UserError, match="no such file; every twin needs its partner"):
        spelling.differences(*pairs[0])


def test_command_line(tmp_path, capsys):
    compare(tmp_path, TORCH, replaced(PADDLE, "scale = 0.125", "scale = 0.12"))
    files = [str(tmp_path / "torch_model.py"), str(tmp_path / "paddle_model.py")]
    assert spelling.main(files) == 1
    said = capsys.readouterr().out
    assert "paddle_model.py:17" in said and "expected          scale = 0.125" in said
    assert spelling.main([files[0], str(tmp_path / "missing.py")]) == 2
    assert spelling.main(["--table"]) == 0
    assert "| `nn.Module` | `nn.Layer` |" in capsys.readouterr().out
