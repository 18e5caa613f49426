"""Results of a small pair, written without a framework, and what comparing them gives."""

import json

import numpy as np
from logged import PAIR, write_logs

from twincheck.common.check.command_line import check_main
from twincheck.extras.compared import command
from twincheck.step1_forward import step as step1


def tensors(**off):
    """Key -> values; those of `off` are wrong on the Paddle side by such a part."""
    rng = np.random.default_rng(0)
    found = {}
    for key in ("body.0", "body.1", "body.2", "logits"):
        values = rng.normal(size=(5, 40))
        found[key] = paddle_off(values, off[key]) if key in off else values
    return found


def paddle_off(values, part, noise=1.0):
    """The four runs of a tensor whose Paddle side is off, or that many times as noisy."""
    rng = np.random.default_rng(2)
    draws = [rng.normal(size=values.shape) for _ in range(4)]
    sizes = (1e-7, 1e-7 * noise, 1e-16, 1e-16)
    exact = (values, values * (1 + part), values, values * (1 + part))
    runs = [v * (1 + size * d) for v, size, d in zip(exact, sizes, draws, strict=True)]
    kinds = (np.float32, np.float32, np.float64, np.float64)
    return tuple(np.asarray(run, kind) for run, kind in zip(runs, kinds, strict=True))


def make(folder, values, check=step1, stem="forward_all", change=None, **told):
    """A folder of results: logs, judged; `change` edits their sidecars before."""
    logs = folder / f"step{check.STEP.number}_{check.STEP.title}" / "small_cnn"
    write_logs(logs, stem, values, **{"outputs": {"main": ["logits"]}} | told)
    for path in logs.glob("*.json") if change else ():
        path.write_text(change(path.read_text()))
    options = ["--model", PAIR, "--out", str(folder), "--compare-only", "--no-report"]
    check_main(check.STEP, options)
    return folder


def told(capsys, old, new, *more):
    """Status, what was said, and the document."""
    file = new.parent / "compared.json"
    capsys.readouterr()
    status = command.main([str(old), str(new), "--json", str(file), *more])
    said = capsys.readouterr()
    return status, said.out + said.err, json.loads(file.read_text())
