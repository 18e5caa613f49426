"""What the tests of the core share beside the fixtures of every test."""

import json
import os
import subprocess

import numpy as np
import pytest
from checkout import ROOT, Checkout
from forged import write_result


@pytest.fixture(scope="module")
def checkout(request, tmp_path_factory):
    """A copy for a file's tests; its step 4 takes that file's STEPS_OF_4, or three."""
    steps = getattr(request.module, "STEPS_OF_4", 3)
    return Checkout(tmp_path_factory.mktemp("a checkout's"), steps=steps)


@pytest.fixture
def folder(tmp_path):
    """Whole logs of step 1, and the pair that belongs to them, which no framework made."""
    write_result(tmp_path / "step1_forward" / "small_cnn")
    return tmp_path / "step1_forward" / "small_cnn"


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """A function that has one side's process run a model and returns its answer's arrays."""
    folder = tmp_path_factory.mktemp("sides")
    processes = {
        side: subprocess.Popen(
            [*Checkout.interpreter, "-W", "ignore", ROOT / "tests" / "one_side.py", side],
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for side in ("torch", "paddle")
    }

    def run(model, side, config, state=None, inputs=None, dtype="float32", train=False, **more):
        request, answer = folder / f"request_{side}.npz", folder / f"answer_{side}.npz"
        kinds = {"sd": state or {}, "in": inputs or {}, "later": more.pop("later", {})}
        arrays = {f"{kind}/{key}": v for kind, of in kinds.items() for key, v in of.items()}
        meta = json.dumps({"config": config, "dtype": dtype, "train": train} | more)
        np.savez(request, meta=np.array(meta), **arrays)
        print(model, request, answer, sep="\t", file=processes[side].stdin, flush=True)
        assert processes[side].stdout.readline() == "done\n"
        with np.load(answer, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}

    yield run
    for process in processes.values():
        process.communicate()
