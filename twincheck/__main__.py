"""Prove that a PaddlePaddle port of a PyTorch model is the same model; where not, find the line.

DIR is a pair's folder (`twincheck new` makes one) or a built-in model: reformer, fastformer,
fast_transformer, informer.  Results are written into DIR/log, of a built-in model into ./log.
`twincheck COMMAND --help` says what a command takes.  In Python: twincheck.check(torch_model,
paddle_model, inputs).

Exit status: 0 aligned, 1 not aligned, 2 could not be compared.
"""

import os
import sys

if __name__ == "__main__" and not __package__:  # by its path too
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

import twincheck
from twincheck.common.system.door import in_help, to_type
from twincheck.common.system.start import begin, speak

# The core's commands; an extra's are its entry points.  The first line of a module's docstring is
# its command's line of help.
CORE = {
    "check": "twincheck.common.check_all:main",
    "step1": "twincheck.step1_forward.step:main",
    "step2": "twincheck.step2_metric.step:main",
    "step3": "twincheck.step3_loss.step:main",
    "step4": "twincheck.step4_backward.step:main",
    "step5": "twincheck.step5_train.step:main",
    "check-parallel": "twincheck.step4_backward.check_parallel:main",
    "show": "twincheck.common.show:main",
    "report": "twincheck.common.judge_again:main",
    "compare": "twincheck.common.compare:main",
    "gallery": "twincheck.examples.gallery.__main__:main",
}


def commands():
    """Return each command's name and what runs it, as module:function."""
    from twincheck.common.system.extras import COMMANDS, entry_points

    extras = {name: point.value for name, point in entry_points(COMMANDS).items()}
    return {**CORE, **{name: value for name, value in extras.items() if name not in CORE}}


def main(arguments=None):
    """Run the command that the words name; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    begin()
    if not words or words[0] in ("-h", "--help", "help"):
        speak(words)
        print(in_help(_help()))
        return 0
    from twincheck.common.system.errors import UserError
    from twincheck.common.system.extras import COMMANDS, load, loaded
    from twincheck.common.system.program import say_error
    from twincheck.common.system.reasons import Kind
    from twincheck.common.system.words import did_you_mean

    command, *words = words
    speak(words)
    known = commands()
    try:
        if command not in known:
            listed = Kind.COMMANDS_LISTED(command=to_type("--help"))
            offered = [name for name in known if not name.startswith("_")]
            meant = did_you_mean(command, offered) or listed
            raise UserError(Kind.COMMAND_UNKNOWN(command=command, meant=meant))
        if command == "gallery" and not twincheck.IN_A_CHECKOUT:
            page = os.path.join(twincheck.HERE, "docs", "gallery.html")
            raise UserError(Kind.GALLERY_ELSEWHERE(page=page))
        run = loaded(command, CORE[command]) if command in CORE else load(COMMANDS, command)
        pairs, words = _pairs(run, words)
        # Two results, an extra compares.
        if command == "report" and len(pairs) > 1 and any(map(os.path.exists, pairs)):
            return load(COMMANDS, command)([*pairs, *words])
    except UserError as error:
        say_error(str(error))
        return 2
    except ModuleNotFoundError as error:
        begin(error.name.partition(".")[0])
        raise
    words = [word for pair in pairs for word in ("--model", pair)] + words
    return run(words + _where(run, pairs, words))


def _help():
    """The docstring, and a line for each command."""
    from twincheck.common.system.extras import described, help_line, in_language

    helps = {name: help_line(value) for name, value in commands().items() if name[0] != "_"}
    lines = [f"    {name:<16}{in_language(line)}" for name, line in helps.items() if line]
    first, *parts = __doc__.strip().split("\n\n")
    return "\n\n".join([described(first), "\n".join(lines), *map(described, parts)])


def _pairs(run, words):
    """(the pairs that are named without --model, the other words) of a command's words."""
    at = getattr(run, "behind", None)
    if at is None or any(word.startswith("-") for word in words[:at]):
        return [], words
    end = at
    while end < len(words) and not words[end].startswith("-"):
        end += 1
    return words[at:end], words[:at] + words[end:]


def _where(run, pairs, words):
    """Return the words of where results are written and looked for, unless that is said."""
    option = getattr(run, "results", "")
    given = [word.partition("=")[0] for word in words]
    if not option or option in given or {"-h", "--help", "help"} & set(given):
        return []
    if twincheck.IN_A_CHECKOUT and not pairs:  # --model alone: where the steps' scripts have them
        return []
    models = [*pairs, *(word.partition("=")[2] for word in words if word.startswith("--model="))]
    models += [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--model"]
    models = list(dict.fromkeys(models))
    beside = len(models) == 1 and os.path.isdir(models[0])
    return [option, os.path.join(models[0], "log") if beside else "log"]


if __name__ == "__main__":
    sys.exit(main())
