"""Every template is another text, in all processes: twenty faults are found where they were."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from string import Formatter

import pytest

from tools.sentences import read

ROOT = Path(__file__).resolve().parent.parent
FAULTS = """
    layernorm-default-epsilon samples-per-head relu-gradient half-encoder-norm unstable-sort
    drop-last rotary-halves hour-over-24 half-rms-norm batchnorm-momentum label-smoothing-others
    llama-like-epsilon phi-like-epsilon t5-like-scaled dropout-owners-not-in-attention
    half-feed-forward norms-by-hand-epsilon-outside unet-align-corners two-towers-one-way own-scale
""".split()


def without_words(template):
    """A template of `xx` and its fields."""
    parts = (part for part in Formatter().parse(template) if part[1] is not None)
    return " ".join(
        ["xx", *(f"{{{n}{way and '!' + way or ''}:{spec}}}" for _, n, spec, way in parts)]
    )


@pytest.mark.slow
def test_faults_are_found_whatever_sentences_say(tmp_path):
    ignore = shutil.ignore_patterns(".*", "log", "docs", "pics", "__pycache__")
    copy = shutil.copytree(ROOT, tmp_path / "copy", ignore=ignore)
    lists = [*copy.glob("common/report/reasons/*.toml"), *copy.glob("extras/*/reasons.toml")]
    for path in lists:
        kinds = ((name, without_words(text)) for name, text in read(path).items())
        path.write_text("".join(f"{name} = {json.dumps(text)}\n" for name, text in kinds))
    assert len(lists) > 20
    only = [word for fault in FAULTS for word in ("--only", fault)]
    command = [sys.executable, "-m", "faults.run", *only, "--json", str(tmp_path / "found.json")]
    environment = os.environ | {"PYTHONPATH": str(copy)}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text())["faults"]
    assert [one["id"] for one in found if not (one["caught"] and one["origin_right"])] == []
    assert sorted(one["id"] for one in found) == sorted(FAULTS)
