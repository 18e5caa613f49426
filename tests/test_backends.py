"""Any two: --candidate and --against name what computes the sides of a check."""

import shutil

import pytest
from builders import a_case, a_net, ended, paddles, write_pair

from twincheck.common.logs.independence import folder_problems

CASE = a_case(
    '"x": rng.standard_normal((4, 6)).astype("float32"), "labels": rng.integers(0, 3, 4)',
    {"default": {"width": 8}},
)
OLD = a_net(
    """
    self.first = nn.Linear(6, width)
    self.square = nn.Linear(width, width)
    self.norm = nn.LayerNorm(width)
    self.drop = nn.Dropout(0.2)
    self.last = nn.Linear(width, 3)
    """,
    "return self.last(self.drop(nn.functional.gelu(self.norm(self.square(self.first(x))))))",
    settings=", width",
)
# The same function in other modules, whose names RENAME has.
NEW = OLD.replace("self.first", "self.begin").replace(
    "nn.functional.gelu(self.norm(self.square(self.begin(x))))",
    "self.act(self.norm(self.square(self.begin(x))))",
)
NEW = NEW.replace("        self.drop =", "        self.act = nn.GELU()\n        self.drop =")
# All that a static graph would keep in float32: what is added, a factor, a bound, a filling.
PADDLE = paddles(
    a_net(
        """
        self.first = nn.Linear(6, width)
        self.norm = nn.BatchNorm1d(width)
        self.drop = nn.Dropout(0.2)
        self.last = nn.Linear(width, 3)
        """,
        """
        h = self.drop(F.relu(self.norm(self.first(x))))
        if h.mean() > 0.1:
            h = h / 3 + 1 / 3
        h = (paddle.clip(h * 0.7, min=1 / 7) - 0.1) * 1.3 + paddle.full_like(h, 0.3)
        return self.last(paddle.scale(h, scale=1 / 3, bias=0.1, bias_after_scale=False))
        """,
        settings=", width",
    )
)
# What a graph is made with differs from what runs.
OTHERWISE = PADDLE.replace(
    "return self.last(",
    "h = h if paddle.in_dynamic_mode() else h * 1.001\n        return self.last(",
)
assert OTHERWISE != PADDLE and NEW.count("self.act") == 2


@pytest.fixture
def pair(tmp_path):
    """Writes the files of a pair; returns its folder."""

    def write(torch=None, paddle=None, candidate=None, case=CASE):
        folder = write_pair(tmp_path / "a pair", case, torch or "", paddle or "")
        models = {"torch": torch, "paddle": paddle, "candidate": candidate}
        for name, text in models.items():
            path = folder / f"{name}_model.py"
            path.unlink(missing_ok=True) if text is None else path.write_text(text)
        return str(folder)

    return write


@pytest.mark.slow
def test_a_refactored_file_computes_the_same(checkout, pair, tmp_path):
    case = CASE + '\nRENAME = {"begin": "first"}\n'
    folder, out = pair(OLD, candidate=NEW, case=case), str(tmp_path / "out")
    asked = ("--model", folder, "--candidate", "torch", "--out", out)
    for step in (1, 4):
        done, report = ended(0, checkout.rows(step, *asked))
        assert "ALIGNED in step" in done.stdout and "Paddle" not in done.stdout
    assert {row["verdict"] for row in report["rows"]} <= {"IDENTICAL", "ROUNDING"}
    kept = tmp_path / "out" / "torch-against-torch" / "step1_forward"
    files = (kept / "a pair" / "forward_all_paddle.npy", kept / "report.html")
    assert all(file.is_file() for file in files)
    ended(0, checkout.check(1, *asked, "--compare-only"))


def test_logs_of_one_framework_show_nothing_of_a_port(checkout, pair, tmp_path):
    folder, out = pair(OLD, candidate=OLD), tmp_path / "out"
    asked = ("--model", folder, "--out", str(out))
    ended(0, checkout.check(1, *asked, "--candidate", "torch"))
    logs = out / "torch-against-torch" / "step1_forward" / "a pair"
    assert folder_problems(logs, backends=("torch", "torch")) == []
    (problem, *_) = folder_problems(logs)
    assert problem.endswith("_paddle.npy was made by torch, not paddle")
    shutil.copytree(logs, out / "step1_forward" / "a pair")
    done = ended(2, checkout.check(1, *asked, "--compare-only"))
    assert "was made by torch, not paddle" in done.stderr


def test_what_differs_is_said_of_the_reference_and_the_candidate(checkout, pair):
    wrong = OLD.replace("nn.LayerNorm(width)", "nn.LayerNorm(width, eps=1e-3)")
    folder = pair(OLD, candidate=wrong)
    done, report = ended(1, checkout.rows(1, "--model", folder, "--candidate", "torch"))
    assert "epsilon is 1e-05 in the reference and 0.001 in the candidate" in done.stdout
    assert "candidate_model.py:11" in done.stdout and "Paddle" not in done.stdout
    assert "--candidate torch" in done.stdout.split("what to type next")[1]
    (finding, *_) = report["findings"]
    assert finding["paddle"]["file"].endswith("candidate_model.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "port", "status", "said"),
    [(1, PADDLE, 0, "train"), (4, PADDLE, 0, "train"), (1, OTHERWISE, 1, "static Paddle")],
)
def test_a_static_graph_is_the_function_that_runs_as_it_is(
    checkout, pair, step, port, status, said
):
    """A branch that the graph takes otherwise is found."""
    asked = ("--model", pair(paddle=port), "--candidate", "paddle-static", "--against", "paddle")
    done, report = ended(status, checkout.rows(step, *asked))
    assert ("DIVERGED" in {row["verdict"] for row in report["rows"]}) == bool(status)
    assert said in done.stdout and any("train/" in row["key"] for row in report["rows"])


def test_a_model_that_no_graph_can_be_made_of_is_a_sentence(checkout, pair):
    listed = PADDLE.replace("if h.mean() > 0.1:", "if sum(sum(h.tolist(), [])) > 0.1:")
    asked = ("--model", pair(paddle=listed), "--candidate", "paddle-static")
    done = ended(2, checkout.check(1, *asked, "--against", "paddle"))
    assert "paddle-static: no graph can be made of this model: " in done.stderr


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--candidate", "torch"), "one file would be compared with itself"),
        (("--candidate", "torch", "--against", "paddle"), "exchange the two"),
        (("--candidate", "paddle-static", "--probe", "norm"), "nothing is seen inside a graph"),
        (("--against", "paddle-static", "--reuse", "torch"), "leave --against out"),
    ],
)
def test_what_cannot_be_compared_is_refused(checkout, pair, typed, said):
    folder = pair(OLD, PADDLE)
    done = ended(2, checkout.check(1, "--model", folder, *typed))
    assert said in done.stderr and len(done.stderr.splitlines()) == 1
