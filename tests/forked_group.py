"""A group of processes that share a training, forked from one that has the framework.

    python tests/forked_group.py A-LAUNCHER'S-COMMAND-LINE

What torchrun or paddle.distributed.launch starts, without an import of the framework for each: in
a warm interpreter this process has it.  Ends with the worst of their exit statuses.
"""

import os
import re
import runpy
import shlex
import socket
import sys
from pathlib import Path


def in_place_of_launchers(folder, interpreter):
    """Options for a check whose groups are forked, where a launcher imports for each process."""
    python, warm = folder / "forking python", shlex.join(interpreter)
    forked = f"{warm} -W ignore {shlex.quote(str(Path(__file__).resolve()))}"
    launcher = f'case "$*" in *common.system.launched*) exec {forked} "$@";; esac'
    python.write_text(f'#!/bin/sh\n{launcher}\nexec {warm} "$@"\n')
    python.chmod(0o755)
    return ("--torch-python", str(python), "--paddle-python", str(python))


def main(words):
    """See the module's docstring."""
    script = re.search(r"step\d_\w+\.(torch|paddle)\.\w+", " ".join(words).replace("/", "."))[0]
    count = next(int(words[i + 1]) for i, word in enumerate(words) if word.startswith("--nproc"))
    paths = [word for word in words if word.endswith(".json")]
    ports = [free_port() for _ in range(count)]
    members = []
    for rank in range(count):
        member = os.fork()
        if member == 0:
            os.environ.update(told(rank, ports))
            sys.path.insert(0, os.getcwd())
            sys.argv = [script, *paths]
            runpy.run_module(script, run_name="__main__", alter_sys=True)
            os._exit(0)
        members.append(member)
    return max(os.waitstatus_to_exitcode(os.waitpid(member, 0)[1]) for member in members)


def told(rank, ports):
    """Return what torchrun and paddle.distributed.launch tell a process."""
    ends = [f"127.0.0.1:{port}" for port in ports]
    return {
        **{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(len(ports))},
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[0])},
        **{"PADDLE_TRAINER_ID": str(rank), "PADDLE_TRAINERS_NUM": str(len(ports))},
        **{"PADDLE_TRAINER_ENDPOINTS": ",".join(ends), "PADDLE_CURRENT_ENDPOINT": ends[rank]},
        **{"PADDLE_MASTER": ends[0], "PADDLE_DISTRI_BACKEND": "gloo"},
    }


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
