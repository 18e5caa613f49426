"""Step 5, torch side: the first steps of a training, once for each change to it.

    python -m extras.trainers.reference.torch.why REQUEST.json

The request's folder has changes.json: {"steps": N, "changes": {name: change}} (retrain.py says what
a change is).  Logged is each training's curve under its name; told.json has what the model or the
data has no place for, left_out {name: why}, and the names of its weights
and dropouts.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[4])
    from twincheck.common.system.start import begin_side

    begin_side("torch", __doc__)

from twincheck.common.pair.case_hooks import data_cases, training
from twincheck.common.sides.backend_torch import side
from twincheck.common.sides.group import join_group
from twincheck.common.sides.worker import Script, main
from twincheck.common.system.json_file import load_json, write_json
from twincheck.extras.shared.one_case import asked_precision
from twincheck.extras.trainers.reference.torch.retrain import Retrained, dropouts
from twincheck.step5_train.train import batches_of

GROUP = join_group(side)


def retrained(run):
    """Train once for each change, and log the losses."""
    told = load_json(run.folder / "changes.json")
    settings = training(run.pair, run.case.config, run.data_preset)
    per_epoch = batches_of(run.samples("train"), settings)
    total = run.request.steps or per_epoch * (run.request.epochs or settings["epochs"])
    left_out = {}
    run.session.probing, run.session.watching = False, True
    for number, (name, change) in enumerate(told["changes"].items(), 1):
        run.progress(f"training {number} of {len(told['changes'])}, {told['steps']} steps each")
        try:
            with run.session.unrecorded():
                one = Retrained(run, settings, change, total, change.get("twin", 0))
                losses = one.losses(told["steps"])
        except (ValueError, RuntimeError, TypeError, KeyError, IndexError) as error:
            if not set(change) - {"twin"}:
                raise
            left_out[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            continue
        run.session.begin(prefix=run.prefix)
        run.log(f"curve/{name}", losses)
    names = dict.fromkeys(name for name, _ in dropouts(run.build()))
    told = {"left_out": left_out, "weights": list(run.start()), "dropouts": list(names)}
    write_json(run.folder / "told.json", told)


SCRIPT = Script(side, "why", retrained, asked_precision, cases=data_cases, group=GROUP)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
