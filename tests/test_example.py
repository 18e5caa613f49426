"""examples/text_classifier: its README's commands, planted faults, and the contract's sentences."""

import re
import shlex
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from builders import copied, ended
from checkout import Checkout

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.sidecar import read_sidecar
from twincheck.common.pair.case_hooks import DEFAULTS, data_cases, make_data, training
from twincheck.common.pair.metrics import score
from twincheck.common.pair.pairs import Pair
from twincheck.common.pair.request import RunRequest
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "text_classifier"
COMMANDS = re.findall(r"^python (step\d.*)$", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
EXPECTED = {
    1: ["logits", "hidden/pooled", "hidden/attentions/1", "blocks.1.attention:in/mask", "head"],
    2: ["accuracy", "mean_share_of_right", "test/predictions", "test/hidden/attentions/1"],
    3: ["loss"],
    4: ["grad/positions", "grad/blocks.0.attention.out.weight", "grad/head.weight"],
    5: ["train/009/loss", "init/words.weight", "train/drift/epoch_003", "train/final_predictions"],
}
SCORES = ["acc", "mean_share_of_right"]
MODES = ("", "train/")
SUBMISSION = {
    1: ("forward", ["logits", "perturbed/logits", "train/logits"]),
    2: ("metric", SCORES),
    3: ("loss", ["loss", "perturbed/loss", "train/loss"]),
    4: ("bp_align", [f"{c}{k}_{i}" for c in MODES for i in range(10) for k in ("loss", "lr")]),
    5: ("train_align", SCORES),
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("example"), ("examples",), steps=10)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=[c[:5] for c in COMMANDS])
def test_the_readme_s_commands_pass(checkout, command):
    script, *arguments = shlex.split(command)
    step = int(script[4])
    arguments = [str(checkout.path(a)) if a.startswith("examples/") else a for a in arguments]
    done, report = ended(0, checkout.rows(step, *arguments, "--no-report"))
    assert report["verdict"] in ("IDENTICAL", "ROUNDING", "CONSTANT")
    assert set(EXPECTED[step]) <= {row["key"] for row in report["rows"]}
    stem, keys = SUBMISSION[step]
    for side in SIDES:
        path = checkout.logs(step, "text_classifier") / f"{stem}_{side}.npy"
        with read_log(path) as log, read_log(path.with_name(f"{stem}_all_{side}.npy")) as full:
            assert list(log) == keys
            for key, full_key in read_sidecar(path).selected["keys"].items():
                assert log[key].dtype == full[full_key].dtype
                assert log[key].tobytes() == full[full_key].tobytes()


# ---- the optional functions, without a framework ------------------------------------------------


def pair_of(**names):
    """A pair whose case.py holds these names."""
    case = ModuleType("case")
    vars(case).update({"CONFIGS": {"default": {"width": 3}}, **names})
    return Pair("mine", Path("mine"), case)


def sets(**changes):
    part = {"x": np.zeros((4, 2)), "labels": np.zeros(4, np.int64)}
    return {"train": dict(part), "test": dict(part)} | changes


def data_of(made):
    return make_data(pair_of(make_data=lambda config, seed: made), "default", 0)


def scores_of(found):
    return score(pair_of(metric=lambda outputs, inputs: found), {}, {})


def trained_with(given):
    return training(pair_of(optimizer=given), {"width": 3}, "default")


REFUSED = [
    (data_of, None, 'must return a dict with "train" and "test"'),
    (data_of, sets(test={}), '"test" must be a dict of arrays'),
    (data_of, sets(test={"x": np.zeros((4, 2))}), 'labels: in one of "train" and "test" alone'),
    (data_of, sets(test={"x": np.zeros((0, 2)), "labels": []}), "test/x holds no sample"),
    (
        data_of,
        sets(test={"x": np.zeros((4, 2)), "labels": np.zeros(3, int)}),
        "not as many samples",
    ),
    (data_of, sets(test={"x": np.array(["a"] * 4), "labels": np.zeros(4, int)}), "test/x is <U1"),
    (
        data_of,
        sets(test={"x": np.zeros((4, 2), int), "labels": np.zeros(4, int)}),
        'int64 in "test"',
    ),
    (
        data_of,
        sets(valid={"x": np.zeros(4)}),
        'valid: only "train", "test" and "validation" are read',
    ),
    (data_of, sets(text={"values": np.zeros(4, int)}), "must hold values and offsets"),
    (scores_of, 0.5, "must return a dict of figures, not a float"),
    (scores_of, {"error": np.zeros(2)}, "error is a ndarray, not one figure"),
    (scores_of, {"error": "low"}, "error is a str, not one figure"),
    (scores_of, {"loss": 0.5}, "the name loss is taken; call it test_loss"),
    (trained_with, "adam", "must be a dict, or return one, not a str"),
    (trained_with, {"learning_rate": 1}, "unknown learning_rate; known: epochs, batch_size"),
    (trained_with, {"optimizer": "lamb"}, "optimizer is 'lamb'; allowed: adam, adamw, sgd"),
    (trained_with, {"epochs": 0}, "epochs is 0; allowed: an integer from 1"),
    (trained_with, {"lr": float("nan")}, "lr is nan; allowed: a number from 0"),
    (trained_with, {"clip_norm": "1"}, "clip_norm is '1'; allowed: a number from 0"),
]


@pytest.mark.parametrize("asked, given, told", REFUSED)
def test_what_cannot_be_used_is_one_sentence(asked, given, told):
    with pytest.raises(UserError, match=re.escape(told)) as error:
        asked(given)
    assert "\n" not in str(error.value) and str(Path("mine") / "case.py") in str(error.value)


def test_what_a_function_raises_is_a_sentence_with_its_line(tmp_path):
    text = (
        "CONFIGS = {'default': {}}\n\ndef make_data(config, seed):\n\n    return config['depth']\n"
    )
    (tmp_path / "case.py").write_text(text)
    case = ModuleType("case")
    exec(compile(text, str(tmp_path / "case.py"), "exec"), vars(case))
    with pytest.raises(UserError, match=r"case\.py: make_data failed, line 5: KeyError: 'depth'"):
        make_data(Pair("mine", tmp_path, case), "default", 0)


def test_without_data_there_is_nothing_to_compare():
    with pytest.raises(UserError, match="nothing to compare in steps 2 and 5"):
        data_cases(pair_of(), RunRequest())


LOGITS = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 2.0]])


@pytest.mark.parametrize(
    "outputs, labels, name, figure",
    [
        ({"logits": LOGITS}, [1, 0, 0], "accuracy", 2 / 3),
        ({"logits": LOGITS}, [1, -100, 0], "accuracy", 1 / 2),  # a label below 0 does not count
        ({"logits": LOGITS[None]}, [[1, 0, 1]], "macro_f1", 1.0),  # tokens, one by one
        ({"output": LOGITS}, [1, 0, 0], "accuracy", 2 / 3),  # what its labels make of it
        ({"output": LOGITS}, LOGITS + 0.5, "mae", 0.5),
    ],
)
def test_the_default_metric_is_what_labels_ask_for(outputs, labels, name, figure):
    assert score(pair_of(), outputs, {"labels": np.array(labels)})[name] == figure


@pytest.mark.parametrize(
    "outputs, inputs",
    [
        ({"hidden": LOGITS}, {"labels": np.array([1, 0, 0])}),
        ({"logits": LOGITS}, {"labels": np.array([1.0, 0.0, 0.0])}),
        ({"logits": LOGITS}, {"labels": np.array([1, 0])}),
        ({"output": LOGITS.astype(int)}, {"labels": np.array([1, 0, 0])}),
        ({"output": LOGITS, "hidden": LOGITS}, {"labels": np.array([1, 0, 0])}),
        ({"output": LOGITS}, {}),
    ],
)
def test_where_the_default_metric_does_not_fit_one_is_asked_for(outputs, inputs):
    with pytest.raises(UserError, match=r"without metric\(outputs, inputs\) the model must return"):
        score(pair_of(), outputs, inputs)


def test_a_training_set_up_is_completed():
    assert training(pair_of(), {}, "default") == DEFAULTS
    assert training(pair_of(optimizer={"lr": 1}), {}, "default") == DEFAULTS | {"lr": 1}
    pair = pair_of(optimizer=lambda config: {"epochs": config["width"]})
    assert training(pair, {"width": 3}, "default")["epochs"] == 3


def test_a_pair_without_a_loss_is_told_so(checkout, tmp_path):
    spoilt = copied(EXAMPLE, tmp_path / "my pairs")
    path = spoilt / "torch_model.py"
    path.write_text(path.read_text().partition("def loss(")[0])
    done = ended(2, checkout.check(3, "--model", str(spoilt), "--no-report"))
    assert "torch_model.py: steps 3, 4 and 5 need loss(outputs, inputs)" in done.stderr
