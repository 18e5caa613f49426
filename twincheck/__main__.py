"""Prove that a PaddlePaddle port of a PyTorch model is the same model; where not, find the line.

    twincheck new NAME --torch SPEC --paddle SPEC --input …   a pair of two models, and step 1
    twincheck check DIR …          all five steps of a pair, and one line; of several, DIR DIR …
    twincheck step1 DIR            one step: forward; step2 metric, step3 loss, step4 backward,
                                   step5 train
    twincheck show KEY DIR         both sides' values around a row's worst element
    twincheck report DIR           judge the logs there once more; OLD NEW: compare two results
    twincheck compare A.npy B.npy  judge any two logs
    twincheck reference DIR        keep torch's logs of a pair, to be judged against without torch
    twincheck bundle DIR           put what a reviewer needs into DIR/log/bundle.zip
    twincheck verify BUNDLE        verify such a file, without either framework
    twincheck export, pr-report    the Paddle side as a repository; a pull request's report
    twincheck mend DIR             the edit that makes a red check green, proven
    twincheck issue DIR            a small program that shows what differs, and an issue's text
    twincheck why DIR              the change to step 5's training that makes its losses the others
    twincheck exact DIR            which values are the same bits, and which operators are not
    twincheck certificate, converter      weights: the proof, and a checkpoint for the other side
    twincheck check-generate, check-parallel   further checks of steps 4 and 5
    twincheck gallery              the published pairs
    twincheck doctor               which frameworks and Pythons are here, and what to do

DIR is a pair's folder (`twincheck new` makes one) or a built-in model: reformer, fastformer,
fast_transformer, informer.  Results are written into DIR/log, of a built-in model into ./log.
`twincheck COMMAND --help` says what a command takes.  In Python: twincheck.check(torch_model,
paddle_model, inputs).

Exit status: 0 aligned, 1 not aligned, 2 could not be compared.
"""

import importlib
import os
import sys

if __name__ == "__main__" and not __package__:  # by its path too
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

import twincheck
from twincheck.common.system.door import in_help, to_type
from twincheck.common.system.start import begin, speak

STEPS = {
    "step1": "step1_forward",
    "step2": "step2_metric",
    "step3": "step3_loss",
    "step4": "step4_backward",
    "step5": "step5_train",
}
OF_THE_CORE = {
    "check": "twincheck.common.check_all",
    "report": "twincheck.common.check_all",
    "compare": "twincheck.common.compare",
    "show": "twincheck.common.show",
    "check-parallel": "twincheck.step4_backward.check_parallel",
    "gallery": "twincheck.examples.gallery.__main__",
}
_HIDDEN = ("live",)  # what twincheck.check starts
_NEEDS = {"doctor": (), "verify": ("numpy",)}  # of the others NumPy and rich
# How the folder that results are in is called where a command takes one.
_OUT = *STEPS, "check", "report", "show", "why", "exact", "mend", "issue"
_OUT += "check-generate", "check-parallel"
_RESULTS = {**dict.fromkeys(_OUT, "--out"), "bundle": "--from"}
_PAIRS = *_RESULTS, "certificate", "converter", "export"  # those that are given pairs by name


def commands():
    """Every command: the core's, and of each extra the entry point's name (pyproject.toml)."""
    from twincheck.common.system.extras import COMMANDS, entry_points

    extras = (name.replace("_", "-") for name in entry_points(COMMANDS))
    return dict.fromkeys(name for name in (*STEPS, *OF_THE_CORE, *extras) if name not in _HIDDEN)


def main(arguments=None):
    """The command; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        from twincheck.common.system.extras import described

        speak(words)
        print(in_help(described(__doc__.strip())))
        return 0
    command, *words = words
    begin(*_NEEDS.get(command, ("numpy", "rich")))
    if command not in commands() and command not in _HIDDEN:
        return _unknown(command)
    pairs, words = _pairs(command, words)
    compared = command == "report" and any(map(os.path.exists, pairs))
    if len(pairs) > 1 and (command == "check" or compared):
        return _extra(command, [*pairs, *words])
    words = [word for pair in pairs for word in ("--model", pair)] + words
    words += _where(command, pairs, words)
    if command in STEPS:
        from twincheck.common.check.command_line import check_main

        script = importlib.import_module(f"twincheck.{STEPS[command]}.check_{command}")
        return check_main(script.STEP, words)
    if command == "gallery" and not twincheck.IN_A_CHECKOUT:
        from twincheck.common.system.reasons import Kind

        page = os.path.join(twincheck.HERE, "docs", "gallery.html")
        return _refused(Kind.GALLERY_ELSEWHERE(page=page))
    if command == "gallery":  # what it imports beside the package are the checkout's folders
        sys.path.insert(0, os.path.dirname(twincheck.HERE))
    if command in OF_THE_CORE:
        more = {"is_there": True} if command == "report" else {}
        return importlib.import_module(OF_THE_CORE[command]).main(words, **more)
    return _extra(command, words)


def _refused(sentence):
    from twincheck.common.report.terminal import say_error

    say_error(sentence)
    return 2


def _unknown(command):
    from twincheck.common.system.reasons import Kind
    from twincheck.common.system.words import did_you_mean

    listed = Kind.COMMANDS_LISTED(command=to_type("--help"))
    meant = did_you_mean(command, list(commands())) or listed
    return _refused(Kind.COMMAND_UNKNOWN(command=command, meant=meant))


def _pairs(command, words):
    """(the pairs that are named without --model, the other words)."""
    if command not in _PAIRS:
        return [], words
    at = 1 if command == "show" else 0
    if words[:at] and words[0].startswith("-"):
        return [], words
    end = at
    while end < len(words) and not words[end].startswith("-"):
        end += 1
    return words[at:end], words[:at] + words[end:]


def _where(command, pairs, words):
    """Where results are written and looked for, unless that is said."""
    option = _RESULTS.get(command)
    given = [word.partition("=")[0] for word in words]
    if option is None or option in given or {"-h", "--help", "help"} & set(given):
        return []
    if twincheck.IN_A_CHECKOUT and not pairs:  # --model alone: where the steps' scripts have them
        return []
    models = [*pairs, *(word.partition("=")[2] for word in words if word.startswith("--model="))]
    models += [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--model"]
    models = list(dict.fromkeys(models))
    beside = len(models) == 1 and os.path.isdir(models[0])
    return [option, os.path.join(models[0], "log") if beside else "log"]


def _extra(command, words):
    from twincheck.common.system.extras import run

    return run(command.replace("-", "_"), words)


if __name__ == "__main__":
    sys.exit(main())
