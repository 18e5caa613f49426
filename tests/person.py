"""Somebody at a terminal: what they type, and every command that they are told to type.

A journey types what README and the program's own output say, in a folder of its own.  Whatever is
printed, or stands on a page, in a document or in a bundle, is collected with the folder in which it
was printed; `follow` then types it there, as it stands, once for each command and its options, and
asks of each that it does what it is for.
"""

import json
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builders import a_net, paddles
from printed import Printed, of_bundle, of_json, of_page, printed, run

HERE = Path(sys.executable).parent  # of the checkout's `twincheck`

TORCH = a_net(
    """
    self.inner = nn.Linear(6, width)
    self.norm = nn.LayerNorm(width, eps=1e-6)
    self.outer = nn.Linear(width, 3)
    """,
    "return self.outer(self.norm(torch.tanh(self.inner(x))))",
    settings=", width=8",
).partition("\n\ndef build")[0]
# A port with one mistake, the usual one: the default epsilon.
PADDLE = paddles(TORCH, (", epsilon=1e-6", ""))
# Command -> what its output holds, as a pattern, once it did what it is for.
DOES = {
    "show": r"torch .*[\d.]",
    "mend": r"an edit of .* mends it|nothing to mend|no mend was found",
    "issue": r"written|\.py",
    "verify": r": intact; ",
    "bundle": r"root: [0-9a-f]{64}",
    "report": r"ALIGNED|UNDECIDED",
    "check": r"ALIGNED|UNDECIDED",
    "compare": r"\(torch\) against .* \(paddle\): ",
    "doctor": r"^python ",
}


@dataclass
class Person:
    """Somebody in a folder.

    path   the folder of the `twincheck` that they installed
    warm   a Python that runs it faster (faults/warm); empty: the script itself does
    """

    home: Path
    path: Path = HERE
    warm: str = ""
    told: dict[tuple[str, Path], Printed] = field(default_factory=dict)  # by text and folder
    typed: set = field(default_factory=set)  # what was followed: command, folder, options
    followed: Counter = field(default_factory=Counter)  # command -> how many were typed as printed

    def writes(self, files: Mapping[str, str]) -> None:
        """Put texts into files of their own."""
        for name, text in files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.lstrip("\n"))

    def types(self, text: str, status: int | None = 0, at: str = "") -> str:
        """Type a command in a folder below home; returns all that it prints.

        status  what it must end with; None: anything but an error
        """
        folder = self.home / at
        path = f"{self.path}{os.pathsep}{os.environ['PATH']}"
        program = shlex.join([self.warm, str(self.path / "twincheck")])
        faster = f'twincheck() {{ {program} "$@"; }}; ' if self.warm else ""
        done = run(faster + text, folder, PATH=path, OMP_NUM_THREADS="1", COLUMNS="120")
        said = done.stdout + done.stderr
        assert done.returncode in ((0, 1) if status is None else (status,)), f"$ {text}\n{said}"
        assert "Traceback" not in said, f"$ {text}\n{said}"
        if "--compare-only" not in text:  # what judges the results of before is past
            still = ((k, one) for k, one in self.told.items() if "--compare-only" not in one.words)
            self.told = dict(still)
        self.hears(printed(said, text), folder)
        return said

    def hears(self, found, folder: Path) -> None:
        """Keep commands that were printed in a folder."""
        for one in found:
            assert one.kind != "loose", f"no reader can tell where this command ends: {one}"
            if not one.is_form:
                self.told.setdefault((one.text, folder), one)

    def reads(self, path: str, at: str = "") -> None:
        """Look into a page, a document or a bundle that was written, from a folder below home."""
        file, folder = self.home / path, self.home / at
        if file.suffix == ".html":
            self.hears(of_page(file), folder)
        elif file.suffix == ".json":
            self.hears(of_json(json.loads(file.read_text())), folder)
        else:
            self.hears(of_bundle(file), folder)

    def follow(self, *left_out: str) -> None:
        """Type what was printed and not typed yet, each command once with its options.

        What judges the results that are there is typed at once: other commands put others there.

        left_out  commands that this journey types by hand
        """
        waiting = list(self.told.items())
        while waiting:
            waiting.sort(key=lambda item: "--compare-only" not in item[1].words)
            (text, folder), one = waiting.pop(0)
            if (text, folder) not in self.told:
                continue
            options = {word for word in one.words if word.startswith("-")}
            kind = one.command, folder, frozenset(options)
            if one.program != "twincheck" or one.command in left_out or kind in self.typed:
                continue
            self.typed.add(kind)
            known = set(self.told)
            said = self.types(text, None, os.path.relpath(folder, self.home))
            new = [(key, told) for key, told in self.told.items() if key not in known]
            waiting += [item for item in new if "--compare-only" in item[1].words]
            wanted = DOES.get(one.command, "")
            assert re.search(wanted, said, re.MULTILINE), f"$ {text}\n{said}"
            for name in re.findall(r"--json (\S+)", text):
                assert (folder / shlex.split(name)[0]).is_file(), text
            self.followed[one.command or "--help"] += 1
