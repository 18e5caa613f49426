"""The server that can run what a Python is asked to run: a part of each client (fork_client.py)."""

import os

# What a text holds that is run by -c; reprod_log's report imports paddle.
PROGRAMS = {
    "from twincheck.extras.bits": "both",
    "import ReprodDiffHelper": "paddle",
    "import paddle": "paddle",
    "from transformers import": "reference",
}
# Their own processes are cold: each has an environment of its own.
LAUNCHERS = {"torch.distributed.run": "torch", "paddle.distributed.launch": "paddle"}
LAUNCHED = "twincheck.common.system.launched"  # runs one of them


def server_of(arguments):
    """Name of the server that can run this, or None."""
    quiet = arguments[:2] == ["-W", "ignore"]
    rest = arguments[2:] if quiet else arguments
    if len(rest) > 1 and rest[0] == "-m":
        if rest[1] == LAUNCHED:
            return LAUNCHERS.get(rest[2]) if quiet else None
        parts = rest[1].removeprefix("twincheck.").split(".")
        side = parts[-2] if len(parts) > 2 else ""
        if parts[0].startswith(("step", "extras")) and side in ("torch", "paddle"):
            return side if quiet else None
        if parts[0] != "twincheck":
            return None
        return "scores" if rest[2:3] in (["step2"], ["step5"]) else "check"
    if len(rest) > 1 and rest[0] == "-c":
        names = [name for text, name in PROGRAMS.items() if text in rest[1]]
        return names[0] if quiet and names else None
    name = os.path.basename(rest[0]) if rest else ""
    if name == "reference_transformers.py":
        return "reference" if quiet else None
    if name == "forked_group.py":  # which stands for a launcher
        words = " ".join(rest).replace("/", ".")  # a module or a script
        sides = [
            s for s in ("torch", "paddle") if f"{s}.train" in words or f"{s}.parallel" in words
        ]
        return sides[0] if quiet and sides else None
    if name == "twincheck" and os.path.isfile(rest[0]):  # the installed command
        return "scores" if rest[1:2] in (["step2"], ["step5"]) else "check"
    if name in ("check_step2.py", "check_step5.py"):
        return "scores"
    return "check" if name.startswith("check_") and name.endswith(".py") else None
