"""The whole chain in one command: train, eval, export, infer, with a log of every stage.

    python run_chain.py            a short training (20 steps), then its weights through all stages
    python run_chain.py --full     the training that config.json describes

Without data in the repository: predict, export, infer, with the weights that are here.
Writes log/chain.log: of each stage its command, what it said, its exit status and its seconds.
Exit status: 0 all stages passed, 1 one did not.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from datetime import datetime
from importlib import metadata
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
LOG = FOLDER / "log" / "chain.log"
SHORT = ["--epochs", "1", "--steps", "20"]


def main():
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="train as config.json says")
    given = parser.parse_args()
    LOG.parent.mkdir(exist_ok=True)
    with open(LOG, "w", encoding="utf-8") as log:
        found = (d for d in metadata.distributions() if d.name in ("paddlepaddle", "numpy"))
        versions = ", ".join(sorted(f"{d.name} {d.version}" for d in found))
        say(log, f"chain: Python {platform.python_version()}, {versions}, {platform.platform()}")
        for name, arguments in stages(given.full):
            if not (FOLDER / arguments[0]).is_file():
                say(log, f"{name}: left out, there is no {arguments[0]}: see README.md")
                continue
            status = run(log, name, arguments)
            if status:
                say(log, f"chain: failed in {name}")
                return 1
        say(log, "chain: passed")
    return 0


def stages(full):
    """(name, arguments of Python) of each stage."""
    weights = ["--weights", "output/best.pdparams"]
    if (FOLDER / "train.py").is_file():
        first = [("train", ["train.py", *([] if full else SHORT)]), ("eval", ["eval.py", *weights])]
    else:
        first = [("predict", ["predict.py"])]
        weights = []
    return [*first, ("export", ["export.py", *weights]), ("infer", ["infer.py"])]


def run(log, name, arguments):
    """Run one stage in the repository's folder; its exit status."""
    say(log, f"{name}: python {' '.join(arguments)}")
    started = time.perf_counter()
    command = [sys.executable, "-W", "ignore", *arguments]
    process = subprocess.Popen(
        command,
        cwd=FOLDER,
        env={"GLOG_minloglevel": "2", **os.environ},  # Paddle's errors, and not its remarks
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for line in process.stdout:
        say(log, f"{name}: {line.rstrip()}")
    status = process.wait()
    seconds = time.perf_counter() - started
    word = "passed" if status == 0 else "FAILED"
    say(log, f"{name}: {word}, exit status {status}, {seconds:.1f} s")
    return status


def say(log, text):
    """A line on the terminal and, with the time, in the log."""
    print(text, flush=True)
    log.write(f"[{datetime.now():%Y/%m/%d %H:%M:%S}] chain INFO: {text}\n")
    log.flush()


if __name__ == "__main__":
    sys.exit(main())
