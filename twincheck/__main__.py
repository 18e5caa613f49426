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
    twincheck check-generate, check-predict, check-parallel   further checks of steps 4 and 5
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
from twincheck.common.system.start import begin, speak

STEPS = {
    "step1": "step1_forward",
    "step2": "step2_metric",
    "step3": "step3_loss",
    "step4": "step4_backward",
    "step5": "step5_train",
}
OF_THE_CORE = {
    "compare": "twincheck.common.compare",
    "show": "twincheck.common.show",
    "check-parallel": "twincheck.step4_backward.check_parallel",
    "gallery": "twincheck.examples.gallery.__main__",
}
# Of the others the entry point has this name (pyproject.toml).
OF_EXTRAS = (
    *("new", "export", "pr-report", "certificate", "converter", "doctor", "reference"),
    *("bundle", "verify", "check-generate", "check-predict", "live", "why", "exact", "mend"),
    "issue",
)
_HIDDEN = ("live",)  # what twincheck.check starts
# How the folder that results are in is called where a command takes one.
_OUT = *STEPS, "check", "report", "show", "why", "exact", "mend", "issue"
_RESULTS = {**dict.fromkeys(_OUT, "--out"), "bundle": "--from"}


def main(arguments=None):
    """The command; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        from twincheck.common.system.extras import in_language

        speak(words)
        print(in_language(__doc__.strip()))
        return 0
    command, *words = words
    begin("numpy", "rich")
    twincheck.COMMAND = ("twincheck",)
    known = ["check", "report", *STEPS, *OF_THE_CORE, *OF_EXTRAS]
    if command not in known:
        return _unknown(command, [name for name in known if name not in _HIDDEN])
    pairs, words = _pairs(command, words)
    compared = command == "report" and any(map(os.path.exists, pairs))
    if len(pairs) > 1 and (command == "check" or compared):
        return _extra(command, [*pairs, *words])
    words = [word for pair in pairs for word in ("--model", pair)] + words
    words += _where(command, pairs, words)
    if command in ("check", "report"):
        module = importlib.import_module("twincheck.common.check_all")
        return module.main(words, is_there=command == "report")
    if command in STEPS:
        return _step(command, words)
    if command == "gallery" and not twincheck.IN_A_CHECKOUT:
        page = os.path.join(twincheck.HERE, "docs", "gallery.html")
        said = "the gallery is run in a checkout, whose pages it writes; they are in"
        return _refused(f"{said} {page}")
    if command == "gallery":  # it uses what is beside the package: tools/ and faults/
        sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if command in OF_THE_CORE:
        return importlib.import_module(OF_THE_CORE[command]).main(words)
    return _extra(command, words)


def _refused(sentence):
    from twincheck.common.report.terminal import say_error

    say_error(sentence)
    return 2


def _unknown(command, known):
    from twincheck.common.system.words import did_you_mean

    meant = did_you_mean(command, known)
    return _refused(f"there is no command {command}{meant or ': twincheck --help lists them'}")


def _pairs(command, words):
    """(the pairs that are named without --model, the other words)."""
    if command not in _RESULTS:
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
    models = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--model"]
    models += [word.partition("=")[2] for word in words if word.startswith("--model=")]
    if len(models) == 1 and os.path.isdir(models[0]):
        return [option, os.path.join(models[0], "log")]
    if twincheck.IN_A_CHECKOUT and not pairs:
        return []
    return [option, "log"]


def _step(command, words):
    from twincheck.common.check.command_line import check_main
    from twincheck.common.check.options import Parser

    folder = STEPS[command]
    module = importlib.import_module(f"twincheck.{folder}.check_{command}")
    parser = Parser(module.__doc__).take(*module.STEP.takes)
    parser.prog = f"twincheck {command}"
    return check_main(module.STEP, words, parser)


def _extra(command, words):
    from twincheck.common.system.extras import run

    return run(command.replace("-", "_"), words)


if __name__ == "__main__":
    sys.exit(main())
