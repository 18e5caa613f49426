"""A small bundle without a framework, and hands that forge it, for tests of what verifies one."""

import json
from pathlib import Path

import numpy as np
from builders import arrays_of, write_log
from logged import PAIR, RUNS, write_logs

from twincheck.common.check.options import CheckOptions
from twincheck.common.check_all import all_steps
from twincheck.common.judge_again import judge_again
from twincheck.extras.bundle.plan import INSIDE, ROWS
from twincheck.extras.bundle.results import bundle_results
from twincheck.extras.shared.archive import MANIFEST, Archive, ArchiveWriter

FORWARD, BACKWARD = (f"evidence/{s}/small_cnn" for s in ("step1_forward", "step4_backward"))


def make_bundle(folder: Path) -> Path:
    """A bundle of two steps: a wrong row, a flip, and more that agree than there is room for."""
    rng = np.random.default_rng(0)
    tensors = {f"body.{i:02d}": rng.normal(size=(5, 40)) for i in range(30)}
    wrong = rng.normal(size=(5, 12))
    tensors["body.wrong"] = tuple(
        np.asarray(wrong * (1 + (side == "paddle") * 1e-3), dtype) for side, _, dtype in RUNS
    )
    scores = np.sort(rng.normal(size=(5, 4)), axis=1)
    scores[0, 2] = scores[0, 3] - 1e-9
    near = np.argsort(scores, axis=1)[:, -1]
    flipped = near.copy()
    flipped[0] = 2
    runs = [scores.astype(dtype) for _, _, dtype in RUNS]
    runs[1][0, 2:] = runs[1][0, [3, 3]] + np.float32([3e-7, 0])
    runs[0][0, 2:] = runs[0][0, [2, 2]] + np.float32([0, 3e-7])
    tensors["choice:scores"] = tuple(runs)
    ordered = np.sort(scores, axis=1)
    margin = ordered[:, -1] - ordered[:, -2]
    tensors["choice:margin"] = tuple(np.asarray(margin, dtype) for _, _, dtype in RUNS)
    tensors["choice"] = (near, flipped, near, near)
    tensors["logits"] = rng.normal(size=(5, 4))
    told = {"choices": {"choice": {"scores": "choice:scores", "margin": "choice:margin"}}}
    told |= {"outputs": {"main": ["logits"]}}
    write_logs(folder / "step1_forward" / "small_cnn", "forward_all", tensors, **told)
    tensors = {f"grad/body.{i:02d}": rng.normal(size=(5, 8)) * 0.1**i for i in range(12)}
    for step in range(3):
        tensors[f"sgd/{step:03d}/lr"] = np.float64(0.1)
        tensors[f"sgd/{step:03d}/loss"] = np.float64(1.5 / (step + 1))
        for i in range(4):
            tensors[f"sgd/{step:03d}/weight/body.{i:02d}"] = rng.normal(size=(5, 8))
    seen = {"sgd_worst": "body.00", "sgd_off": 2e-17, "largest_gradient": 1.0}
    seen |= {"gradient_norm": 2.0, "largest_weight": 1.0, "directional": 0.5, "half": True}
    witness = {"main": seen}
    folder_of_4 = folder / "step4_backward" / "small_cnn"
    write_logs(folder_of_4, "bp_align_all", tensors, witness=witness)
    (folder / "report.html").write_text("<!doctype html><title>A report</title>")
    path = folder / "bundle.zip"
    options = CheckOptions(models=(PAIR,), out=folder)
    bundle_results(judge_again(all_steps(), options), options, path, folder / "report.html")
    return path


class Forgery:
    """A bundle's files, to be changed and put together again.

    `write(rehashed=True)` is the attacker who makes every hash and every count fit again; without,
    the manifest stays as it was.
    """

    def __init__(self, path: Path):
        with Archive(path) as archive:
            self.files = {n: archive.read(n) for n in archive.entries if n != MANIFEST}
            self.manifest, _ = archive.manifest()

    def part(self, folder: str) -> dict:
        """Return what the manifest says of a part."""
        return next(part for part in self.manifest["parts"] if part["folder"] == folder)

    def lines(self, name: str) -> list[dict]:
        """A file's JSON lines."""
        return [json.loads(line) for line in self.files[name].splitlines()]

    def put_lines(self, name: str, records: list[dict]) -> None:
        """Put others in."""
        lines = (json.dumps(record, separators=(",", ":")) + "\n" for record in records)
        self.files[name] = "".join(lines).encode()

    def change_lines(self, name: str, change) -> None:
        """Put what `change` makes of them in."""
        self.put_lines(name, change(self.lines(name)))

    def edit_row(self, folder: str, key: str, **values) -> None:
        """Put other values into a row."""
        rows = self.lines(f"{folder}/{ROWS}")
        next(row for row in rows if row["key"] == key).update(values)
        self.put_lines(f"{folder}/{ROWS}", rows)

    def edit_json(self, name: str, **values) -> None:
        """Put other entries into a JSON file."""
        content = json.loads(self.files[name])
        self.files[name] = json.dumps(content | values, indent=1).encode()

    def edit_log(self, name: str, change, scratch: Path) -> None:
        """Write a log with changed tensors: `change` takes and gives key -> array."""
        path = scratch / "log.npy"
        path.write_bytes(self.files[name])
        write_log(path, change(arrays_of(path)))
        self.files[name] = path.read_bytes()

    def inside(self, folder: str, why: str) -> dict:
        """The first row that is inside for this reason."""
        records = self.lines(f"{folder}/{INSIDE}")
        return next(record for record in records if record["why"] == why)

    def write(self, path: Path, rehashed: bool) -> Path:
        """Put it together."""
        manifest = json.loads(json.dumps(self.manifest))
        former = manifest.pop("files")
        with ArchiveWriter(path) as archive:
            for name, content in self.files.items():
                archive.add(name, content)
            if rehashed:
                archive.finish(manifest)
            else:
                archive.finish({**manifest, "files": former})
        return path


def seed_everywhere(f):
    """In every sidecar."""
    for name, content in f.files.items():
        if name.endswith(".json") and b'"seed": 0' in content:
            f.files[name] = content.replace(b'"seed": 0', b'"seed": 5')
