"""Sidecars that somebody else wrote: whatever an entry holds, no reader of it breaks.

Every kind of JSON value is put in every place of a real result's sidecars, and the checks that read
them are run: the value is refused in a sentence that names the file and the entry, or used.
"""

import json
import subprocess
from dataclasses import fields, replace

import pytest
from checkout import Checkout

from twincheck.common.check.command_line import check_main
from twincheck.common.check_all import all_steps
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import Sidecar, read_sidecar, sidecar_path, write_sidecar
from twincheck.common.logs.writer import LogWriter
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import LogError, UserError

PAIR = str(ROOT / "tests" / "pairs" / "small_cnn")
ESCAPE = "\x1b[2J"

# Every kind of JSON value, wrong or right, and what is near to right in one place or another.
VALUES = (
    *(None, True, 0, -1, 2**63, 10**400, 0.5, 1e308, ESCAPE, "", [ESCAPE], [], [None], [[]]),
    *({"x": ESCAPE}, {}, {"x": None}, {"x": 0}, {"x": []}, {"x": {"x": "x"}}, {"main": 1e308}),
)

# Entries that no run of a small model has, and step 4's, as its workers write them.
WITNESS = {
    "sgd_worst": "fc.weight",
    "sgd_off": 1e-15,
    "largest_gradient": 1.0,
    "gradient_norm": 2.0,
    "largest_weight": 1.0,
    "directional": 0.5,
    "finite_difference": 0.5,
    "finite_step": 1e-5,
    "loss_noise": 1e-16,
}
COUNTS = {"calls": 1, "differed": 0, "gradients": 0, "gradients_differed": 0, "largest": 0.0}
DRAW = {"kind": "normal", "shape": [4, 8], "site": "encoder", "place": "torch_model.py:31"}
SAMPLES = {
    "tables": {"0f": "model.py:7"},
    "against": "paddle",
    "candidate": "paddle-static",
    "no_float64": "it casts to float32",
    "upcast": {"model.py:3": {"float64 to float32": 2}},
    "witness": {"main": WITNESS},
    "last_bias": {"main": "fc.bias"},
    "loader": {"main": "each side's own loader has read the folder"},
    "cases": ["perturbed"],
    "probes": ["features.*"],
    "no_probe": True,
    "transplanted": ["softmax"],
    "operators": {
        "softmax": COUNTS | {"where": "", "untaken": {"TypeError": 1}},
    },
    "paddle_to_torch": {"main": []},
    "hidden_rows": {"main": []},
    "draws": {"main": [{"passes": 2, "draws": [DRAW]}]},
    "dropouts": {"main": [{"passes": 2, "draws": [DRAW | {"kind": "dropout 0.1"}]}]},
    "untaped_draws": {"main": True},
    "rates": {"main": {"sgd": {"factor": 0.1, "because": "the loss goes from 2 to inf"}}},
    "generated": {"main": {"cache/prompt_0:gap": [1e-15, None]}},
    "left_out": {"main": ["torch, cache: no part of its model takes past_key_values"]},
    "failed": {"main": {"library": "ValueError: no cache"}},
    "given_gradients": {"main": {"values": 2000000, "setups": ["adam"]}},
    "steps_per_epoch": {"main": 11},
    "optimizer": {"main": "adamw"},
    "computed": {"block": {"rsqrt float32": 2}},
    "not_forced": ["layers.0.norm"],
    "handed": {"drop": [{"line": "net.py:3", "given": {"p": 0.1}}, {"line": "", "given": {}}]},
    "idle": {"drop": "net.py:3"},
    "wrong": {"norm": {"layer_norm": {"gradient": 0.3}}},
    "variances": {"norm:running_var": {"n": 24, "held": 0.9, "compared": 1.0}},
    "moved": {"main/": 1},
    "lost": {"main/y": 1},
    "kernels": "torch's own kernels",
    "autocast": True,
    "inexact": {"": {"selu": 3e-8}},
    "sums": {"network.fc": [2, 8192]},
    "booleans": ["network.mask"],
    "outputs": {"main": ["logits", "states/0"]},
    "selected": {"log": "forward_all_torch.npy", "sha256": "1f", "keys": {"logits": "lm/logits"}},
    "exact": True,
}
ENTRIES = [entry.name for entry in fields(Sidecar)]


class Results:
    """Real results of step 1, and the same logs as if they were step 4's, with their sidecars."""

    def __init__(self, out):
        self.out = out
        self.folders = {1: out / "step1_forward" / "small_cnn"}
        self.folders[4] = out / "step4_backward" / "small_cnn"
        command = [*Checkout.interpreter, str(ROOT / "step1_forward" / "check_step1.py")]
        command += ["--model", PAIR, "--out", str(out), "--no-report"]
        subprocess.run(command, check=True, capture_output=True)
        self.sidecars = {}
        step1, step4 = (ResultFolder(self.folders[step]) for step in (1, 4))
        step4.path.mkdir(parents=True)
        for path, name in list(step1.logs()):
            renamed = step4.log("bp_align_all", name.side, name.run)
            with read_log(path) as log, LogWriter(renamed) as writer:
                for key in list(log)[-6:]:  # a few: they are read for each value that is tried
                    writer.add(key, log[key])
                writer.add("grad/fc.bias", log[key] - log[key])
            told = replace(read_sidecar(path), step="bp_align_all", log_sha256=writer.sha256)
            self.sidecars[path] = json.loads(sidecar_path(path).read_text())
            self.sidecars[renamed] = told.as_json()

    def write(self, entry=None, value=None):
        """All sidecars as they were, but for one entry, which is the same in all."""
        for path, content in self.sidecars.items():
            changed = content if entry is None else content | {entry: value}
            sidecar_path(path).write_text(json.dumps(changed))

    def statuses(self):
        """Run the checks that read the sidecars; their exit statuses."""
        known = ["--model", PAIR, "--out", str(self.out), "--compare-only", "--no-report"]
        return [check_main(all_steps()[number - 1], known) for number in (4, 1)]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return Results(tmp_path_factory.mktemp("results"))


def sample(results, entry):
    """A good value of an entry, from a real sidecar where there is one."""
    if entry in SAMPLES:
        return SAMPLES[entry]
    return next(s[entry] for s in reversed(list(results.sidecars.values())) if entry in s)


def mutants(value, place=()):
    """(where, the value with every kind of JSON in its place, and in that of what it holds)."""
    yield from ((place, other) for other in VALUES)
    if isinstance(value, dict):
        for key in value if len(value) <= 12 else list(value)[:1]:
            yield (*place, key), {name: item for name, item in value.items() if name != key}
            for where, item in mutants(value[key], (*place, key)):
                yield where, value | {key: item}
    elif isinstance(value, list) and value:
        for where, item in mutants(value[0], (*place, 0)):
            yield where, [item, *value[1:]]


@pytest.mark.slow
def test_the_results_are_good(results):
    results.write()
    assert results.statuses() == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_no_value_of_an_entry_breaks_a_reader(results, entry, capsys):
    """The reader gets every value; the checks those that may stand there, deeper in one each."""
    path, done = next(iter(results.sidecars)), set()
    for place, value in mutants(sample(results, entry)):
        results.write(entry, value)
        try:
            read_sidecar(path)
        except LogError as error:
            assert f"{sidecar_path(path)}: refused: its {entry} is " in str(error)
            if "refused" not in done:
                assert results.statuses() == [2, 2], (place, value)
            done.add("refused")
        else:
            if place not in done:
                results.statuses()
            done |= {place} if place else set()
        said = capsys.readouterr()
        assert "internal error" not in said.err and "Traceback" not in said.err, (place, value)
        assert ESCAPE not in said.err + said.out


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_of_another_type_is_named_and_null_is_nothing(results, entry):
    results.write()
    path = next(iter(results.sidecars))
    content = results.sidecars[path]
    good = sample(results, entry)
    for value in ({"a": {"b": [{}]}}, [[]], -1.5, 3 if isinstance(good, str) else "x"):
        sidecar_path(path).write_text(json.dumps(content | {entry: value}))
        with pytest.raises(LogError, match=rf"{path.stem}.json: refused: its {entry} is "):
            read_sidecar(path)
    sidecar_path(path).write_text(json.dumps(content | {entry: None}))
    assert getattr(read_sidecar(path), entry) == getattr(Sidecar(), entry)


def test_what_is_written_is_what_is_read(results, tmp_path):
    """Entry for entry, in the fields' order; a later version's further entries are passed over."""
    results.write()
    for path, content in results.sidecars.items():
        told = read_sidecar(path)
        assert told.as_json() == content and list(told.as_json()) == list(content)
        sidecar_path(path).write_text(json.dumps(content | {"of_a_later_version": 1}))
        assert read_sidecar(path) == told
    write_sidecar(tmp_path / "log.npy", replace(told, **SAMPLES))
    assert read_sidecar(tmp_path / "log.npy") == replace(told, **SAMPLES)


def test_nothing_is_written_that_would_be_refused(tmp_path):
    with pytest.raises(UserError, match="its environment is 'x', which no worker writes"):
        write_sidecar(tmp_path / "log.npy", Sidecar(environment="x"))
    assert not list(tmp_path.iterdir())
