"""The catalogue of planted faults is sound, and the machinery that plants them tells both ways.

`make faults` runs the whole catalogue; here a few cheap faults stand for the rest.
"""

import contextlib
import dataclasses
import json
import re
import sys
from types import SimpleNamespace

import pytest
from builders import few_digits

import faults.worker as worker_module
from faults import catalogue, run, show
from faults.catalogue import FAULTS
from faults.checkout import ROOT, Checkout
from faults.fault import AREAS, Fault
from faults.worker import COLD, Check, Worker
from tools import red
from twincheck.common.system.errors import UserError

BY_ID = {fault.id: fault for fault in FAULTS}
# One for each way in which a fault is planted or found.
REPRESENTATIVES = (
    *("layernorm-epsilon-small", "dropout-left-out", "bias-left-out", "relu-gradient"),
    *("torch-on-both-sides", "stale-log", "case-kept", "class-weights-mean"),
    "large-one-element-once",
)


# ---- the catalogue ------------------------------------------------------------------------------


def test_a_row_that_is_no_fault_is_refused():
    with pytest.raises(ValueError, match="half.toml, x: no fault has orgin"):
        catalogue._fault({"id": "x", "orgin": "a"}, "half.toml")


def test_catalogue_is_long_and_its_names_are_unique():
    assert len(FAULTS) >= 60
    assert len(BY_ID) == len(FAULTS)
    planted = [(f.step, f.model, f.file, f.old, f.new, f.after, f.other) for f in FAULTS]
    assert len(set(planted)) == len(planted)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.id for fault in FAULTS])
def test_fault_can_be_planted_and_says_what_it_wants(fault):
    assert fault.step in run.COST and fault.origin and fault.what and fault.area in AREAS
    assert fault.file or fault.after is not None
    if fault.file:
        text = (ROOT / fault.file).read_text()
        assert fault.planted(text) != text
        assert "/torch" not in fault.file and not fault.file.startswith("common/torch")


def test_patch_that_fits_nowhere_or_twice_is_refused():
    fault = Fault("x", "a fault", "fastformer", 1, "logits", file="f.py", old="a", new="b")
    for text in ("no such letter?", "aa"):
        with pytest.raises(ValueError, match=r"^x: f.py holds 'a' \d times, not once$"):
            fault.planted(text.replace("a", "") if text[0] == "n" else text)


def test_origin_is_a_whole_key_behind_a_case():
    fault = BY_ID["gelu-tanh"]
    assert fault.named(f"main/{fault.origin}") and fault.named(fault.origin)
    assert not fault.named(f"main/{fault.origin}.dense") and not fault.named(fault.origin[1:])


# ---- planting them ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    worker = Worker(tmp_path_factory.mktemp("faults"))
    few_digits(worker.checkout)
    yield worker
    worker.close()


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_fault_is_caught_and_named(worker, name):
    found = worker.judge(BY_ID[name])
    assert found["control_is_green"], found
    assert found["caught"], found
    assert found["origin_right"], found


def test_one_fault_a_step_is_judged_by_cold_processes(tmp_path, monkeypatch):
    assert {BY_ID[name].step for name in COLD.values()} == set(COLD) == {1, 2, 3, 4, 5}
    ran = []

    class Planted(Worker):
        def __init__(self, python):
            self.checkout = SimpleNamespace(interpreter=None)
            self.warm = (python,)
            self.controls, self.ignored = {Check.of(BY_ID[COLD[1]]): {"exit_code": 0}}, {}

        def run(self, check, *more):
            ran.append(self.checkout.interpreter)
            raise KeyboardInterrupt

    monkeypatch.setattr(worker_module, "_Planted", lambda *_: contextlib.nullcontext())
    for name in (COLD[1], "gelu-tanh"):
        planted = Planted("a warm one")
        planted.logs = lambda check: tmp_path
        with pytest.raises(KeyboardInterrupt):
            planted.judge(BY_ID[name])
    assert ran == [(sys.executable,), ("a warm one",)]


def test_change_that_is_no_fault_is_not_caught(worker):
    fault = BY_ID["layernorm-epsilon-small"]
    found = worker.judge(dataclasses.replace(fault, new=f"{fault.old}  # as it was"))
    assert found["exit_code"] == 0 and not found["caught"] and not found["origin_right"]


def done(status):
    """A finished check, as far as a verdict on it goes."""
    return SimpleNamespace(stderr="", returncode=status)


@pytest.mark.parametrize(
    "control_is_green, status, first, caught, right",
    [
        (True, 1, "main/fastformer_model.LayerNorm", True, True),
        (True, 1, "main/logits", True, False),
        (True, 1, None, True, False),
        (True, 2, None, False, False),
        (True, 0, None, False, False),
        (False, 1, "main/fastformer_model.LayerNorm", False, False),
    ],
)
def test_fault_counts_only_behind_a_green_run_and_by_its_own_row(
    worker, control_is_green, status, first, caught, right
):
    fault = BY_ID["layernorm-epsilon-small"]
    told = {"first_diverged": first, "verdict": "DIVERGED", "rows": []}
    found = worker.found(fault, control_is_green, done(status), told)
    assert (found["caught"], found["origin_right"]) == (caught, right)


@pytest.mark.parametrize(
    "status, sentence, caught, right",
    [
        (2, "only in the torch model: layers.0.0.fn.to_r.bias, layers.1.0.fn", True, True),
        (2, "internal error", True, False),
        (1, "only in the torch model: layers.0.0.fn.to_r.bias", False, False),
    ],
)
def test_refusal_counts_by_what_its_sentence_says(worker, status, sentence, caught, right):
    told = {"errors": {"fast_transformer": sentence}}
    found = worker.found(BY_ID["bias-left-out"], True, done(status), told)
    assert (found["caught"], found["origin_right"]) == (caught, right)


@pytest.mark.parametrize(
    "changes, green",
    [
        ({}, True),
        ({"verdict": "INSIDE"}, True),
        ({"verdict": "DIVERGED"}, False),
        ({"verdict": "CONSTANT"}, False),  # shown by a run
        ({"inside": True}, False),
        ({"gap": 1e-9}, False),
        ({"gap": None}, False),
    ],
)
def test_no_fault_is_found_while_an_output_that_is_off_is_green(worker, changes, green):
    """Whatever is said of what lies before it: this is asked of every fault of the catalogue."""
    row = {"key": "main/logits", "verdict": "ROUNDING", "inside": False, "gap": 0.15}
    row |= {"allowed": 1e-8, "origin": False} | changes
    fault = BY_ID["layernorm-epsilon-small"]
    told = {"first_diverged": fault.origin, "verdict": "DIVERGED", "rows": [row]}
    found = worker.found(fault, True, done(1), told)
    assert found["green_and_off"] == (["main/logits"] if green else [])
    assert found["caught"] is not green


# ---- what is told -------------------------------------------------------------------------------


def _found(**changes) -> dict:
    says = {"reprod_log": "passes", "padiff": "fails"}
    fault = {
        **{"id": "x", "area": "norms", "what": "a fault", "model": "fastformer", "step": 1},
        **{"wanted": "logits", "refused": False, "exit_code": 1, "caught": True},
        **{"origin_right": True, "patched_line": False, "first": "main/logits"},
        **{"origins": ["main/logits"], "sentence": "", "earlier": {}},
        **{"peers": says, "control_peers": says},
    }
    control = {"exit_code": 0, "peers": says}
    found = {"faults": [fault | changes], "controls": [control], "hard": []}
    return found | {"seconds": 1.0, "cpu_seconds": 1.0}


def test_result_passes_only_if_all_is_caught_and_no_alarm_is_false():
    assert run.passed(_found())
    assert not run.passed(_found(caught=False))
    assert not run.passed(_found(origin_right=False))
    assert not run.passed(_found() | {"hard": [{"name": "p", "exit_code": 1}]})


def test_rule_that_fails_the_correct_run_too_has_not_caught_the_fault():
    found = _found()
    fault = found["faults"][0]
    assert show.peer(fault, "reprod_log") == "missed"
    assert show.peer(fault, "padiff") == "blind"
    sentences = show.sentences(found)
    assert sentences[0].startswith("1 of 1 faults caught, 1 with the right origin; 0 false alarms")
    assert "fails 1 of the 1 faults" in sentences[-1]
    assert "1 of the 1 correct runs; tells 0 faults from the correct run" in sentences[-1]
    pairs = [{"exit_code": 0, "guide_passed": passed} for passed in (True, False, None)]
    said = show.sentences(found | {"hard": pairs})[1]
    assert said == "0 false alarms in 3 correct hard pairs, of which the guide's rule fails 1"
    fault["control_peers"] = {"padiff": "passes"}
    assert show.peer(fault, "padiff") == "caught"


def test_result_is_drawn_and_written_as_a_table(tmp_path):
    found = json.loads(json.dumps(_found()))
    show.draw(found, tmp_path / "faults.png")
    assert (tmp_path / "faults.png").read_bytes()[1:4] == b"PNG"
    assert "| 1 | fastformer | a fault | yes | `main/logits` | missed |" in show.as_markdown(found)


@pytest.mark.slow
def test_red_block_of_the_pages_is_what_a_check_says_of_a_planted_epsilon(tmp_path):
    """The block that `python -m tools.red` shows: the mistake's own line, on both sides, and that
    the guide's rule passes it."""
    copy = Checkout(tmp_path)
    fault = red.named(red.SHOWN)
    text, report = red.planted(copy, fault, "--case", red.CASE)
    assert report["first_diverged"] == fault.origin and report["guide_passed"] is True
    assert fault.origin in text and len(text.splitlines()) < 40
    for side in ("torch", "paddle"):
        path, number = re.search(rf"(common/\S*/{side}_model\.py):(\d+)", text).groups()
        line = (ROOT / path).read_text().splitlines()[int(number) - 1]
        assert "self.LayerNorm = nn.LayerNorm(" in line
    assert str(tmp_path) not in text and "┃" not in text, "the same text wherever it is run"
    assert copy.path(fault.file).read_text() == (ROOT / fault.file).read_text()
    unseen = dataclasses.replace(fault, new=fault.old)
    with pytest.raises(UserError, match="layernorm-epsilon-small was not found"):
        red.planted(copy, unseen, "--case", red.CASE)


def test_unknown_fault_is_one_sentence(capsys):
    assert run.main(["--only", "no-such-fault"]) == 2
    assert "--only no-such-fault: no such fault" in capsys.readouterr().err
