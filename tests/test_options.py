"""Options: repeated as they were typed, listed by `help`, refused where they have no use."""

import argparse
import importlib
import re
import shlex
from pathlib import Path

import pytest
from checkout import ROOT

from twincheck.__main__ import main
from twincheck.common.check.command_line import added_to, check_main
from twincheck.common.check.options import LISTED, OF_JUDGING, OPTIONS, CheckOptions, Parser, of
from twincheck.common.check.result import Result
from twincheck.common.check_all import all_steps
from twincheck.common.pair.pairs import built_in_models
from twincheck.common.report import commands

STEPS = all_steps()
EXAMPLE = str(ROOT / "examples" / "text_classifier")
# Beside the flags' own examples: what is hard to repeat.
ODD = ("a b", "-x", "it's", "$HOME", "*", "ä")


def takers():
    """(name, parser, step) of every check."""
    for step in STEPS:
        yield step.name, Parser("").take(*step.takes), step
    for step in (STEPS[1], STEPS[4]):  # they take more than that
        parser = Parser("").take(*step.takes)
        added_to(step, parser)
        yield f"{step.name} and extras", parser, step
    parallel = importlib.import_module("twincheck.step4_backward.check_parallel").STEP
    yield "parallel", Parser("").take(*parallel.takes, "processes"), parallel
    generate = importlib.import_module("twincheck.extras.generation.check")
    yield "generate", generate.options_parser(), generate.STEP


def example(action: argparse.Action) -> list[str]:
    """An option as its help shows it, with a value that has to be quoted where any text will do."""
    option = action.option_strings[-1]
    if action.nargs == 0:
        return [option]
    if action.choices:
        values = [str(list(action.choices)[-1])]
    elif action.type not in (None, str, Path):
        values = ["3"]
    else:
        values = list(ODD)
    repeated = isinstance(action, argparse._AppendAction)
    return [f"{option}={value}" for value in (values if repeated else values[-1:])]


@pytest.mark.parametrize(
    ("name", "parser", "step"), list(takers()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_again_repeats_every_option_that_was_given(name, parser, step):
    """By a round trip through the parser: a new flag cannot be forgotten."""
    others = [a for group in parser._mutually_exclusive_groups for a in group._group_actions[1:]]
    actions = [action for action in parser._actions[1:] if action not in others]
    words = [word for action in actions for word in example(action)]
    given = parser.parse_args(words)
    told = CheckOptions.of(given)
    result = Result(step, "m", "/pairs/my model", typed=told.typed)
    command = shlex.split(commands.again(result))
    model, *words = command[command.index(step.command) + 1 :]
    repeated = vars(parser.parse_args(["--model", model, *words])) | {"typed": None}
    expected = vars(given) | {"typed": None, "model": ["/pairs/my model"]}
    assert repeated == expected
    assert len(told.typed) == len(actions) > 15


def test_data_and_losses_say_what_has_no_use_with_them(capsys, monkeypatch):
    metric = importlib.import_module("twincheck.step2_metric.step")
    train = importlib.import_module("twincheck.step5_train.step")
    for check, words, said in (
        (metric, ["--agree", "x", "--compare-only", "--strict"], "--compare-only, --strict has no"),
        (metric, ["--batch-size", "3"], "belongs to --agree DATA"),
        (metric, ["--agree", "x"], "--agree: name the one --model"),
        (metric, ["--agree", "no such", "--model", EXAMPLE], "there is no such file or folder"),
        (train, ["--losses-name", "x"], "give the losses, too"),
        (train, ["--torch-losses", "x", "--epochs", "1"], "--epochs has no use with logged"),
        (train, ["--torch-losses", "x", "--lang", "en"], "name the one --model that was trained"),
    ):
        monkeypatch.setenv("LANGUAGE", "en")  # --lang sets it too
        assert check_main(check.STEP, words) == 2
        assert said in capsys.readouterr().err


# ---- refused ------------------------------------------------------------------------------------


def test_every_option_either_judges_or_runs():
    """A new flag says here on which side it is: what runs is refused with --compare-only."""
    runs = {
        *("preset", "device", "seed", "weights", "keep", "torch-python", "paddle-python", "data"),
        *("tokenizer", "reuse", "reference", "transplant", "mode", "processes"),
        *of("half", "optimizers", "training"),
    }
    assert runs | set(OF_JUDGING) == set(OPTIONS) and not runs & set(OF_JUDGING)
    assert set(LISTED) <= set(OPTIONS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (1, ["--resume"], "--resume has no use here"),
        (1, ["--seeds", "5"], "--seeds has no use here; did you mean --seed"),
        (2, ["--mode", "train"], "--mode has no use here"),
        (1, ["--preest", "x"], "--preest: there is no such option; did you mean --preset"),
        (1, ["--seed", "x"], "--seed: x is not a number from 0"),
        (1, ["--device", "tpu"], "invalid choice: 'tpu'"),
        (1, ["--compare-only", "--weights", "trained-like", "--seed", "0"], "--seed, --weights"),
        (5, ["--compare-only", "--epochs", "1", "--resume"], "leave out --epochs, --resume"),
        (1, ["--compare-only", "--reuse", "torch"], "exclude each other"),
        (1, ["--reference", "x", "--torch-python", "y"], "--torch-python: with --reference no"),
        (1, ["--model", "reformr"], "did you mean reformer"),
        (1, ["--model", EXAMPLE, "--preset", "Defualt"], "did you mean default?"),
        (1, ["--model", "fastformer", "--case", "pading"], "did you mean padding"),
        (1, ["--transplant", "softmx"], "did you mean softmax"),
        (5, ["--model", "fastformer", "--tokenizer", "README.md"], "trains on no text"),
        (2, ["--model", "fastformer", "--data", "README.md"], "--data README.md: preset digits"),
    ],
)
def test_what_a_check_does_not_use_is_refused_in_one_sentence(
    number, words, said, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(ROOT)
    out = [] if said.endswith("no use here") else ["--out", str(tmp_path)]
    try:
        status = check_main(STEPS[number - 1], [*words, *out])
    except SystemExit as end:
        status = end.code
    told = capsys.readouterr()
    assert status == 2 and said in told.err, told.err
    assert told.err.startswith("error: ") and told.err.count("\n") == 1
    assert told.out == "", "a user's error is no table"


# ---- `help` as a value --------------------------------------------------------------------------


def listed(capsys, main, *words) -> str:
    """Return what a command prints, which ends with 0 and runs nothing."""
    with pytest.raises(SystemExit) as end:
        main(list(words))
    assert end.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_every_check_lists_presets_models_and_devices(step, capsys):
    def run(words):
        return check_main(step, words)

    assert "fastformer" in listed(capsys, run, "--model", "help")
    every = listed(capsys, run, "--preset", "help")
    assert re.search(r"--preset of reformer: default, .*enwik8 \(reads a file: --data\)", every)
    assert every.count("\n") == len(built_in_models())
    own = listed(capsys, run, "--model", EXAMPLE, "--preset=help")
    assert own == "--preset of text_classifier: default\n"
    assert listed(capsys, run, "--device", "help") == "--device: cpu, gpu, torch-gpu, paddle-gpu\n"
    assert "softmax" in listed(capsys, run, "--transplant", "help")


def test_other_programs_list_values_too(capsys):
    for command in ("check", "certificate", "converter"):
        assert "--preset of fastformer: " in listed(capsys, main, command, "--preset", "help")
    assert "fastformer" in listed(capsys, main, "show", "--model", "help")
    cases = listed(capsys, lambda w: check_main(STEPS[0], w), "--case", "help", "--model", EXAMPLE)
    assert cases == "--case of text_classifier, preset default: main, perturbed, train, edges\n"


def test_a_wrong_word_beside_help_is_still_refused(capsys):
    for words in (["--preset", "help", "--nonsense"], ["--preset", "help", "--model", "nowhere"]):
        with pytest.raises(SystemExit) as end:
            check_main(STEPS[0], words)
        assert end.value.code == 2
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("step", "options", "words"),
    [
        (1, ["--autocast"], "--autocast lowers what to? Give --dtype bfloat16 or float16 too"),
        (5, ["--dtype", "float16"], "trains in mixed precision alone"),
    ],
)
def test_half_precision_that_means_nothing_is_refused(capsys, step, options, words):
    assert check_main(STEPS[step - 1], ["--model", "fastformer", *options]) == 2
    assert words in capsys.readouterr().err
