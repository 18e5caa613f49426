"""The first steps of step 5's training, both sides: the MD5 of each loss and of all gradients.

NumPy only and the same on both sides; torch/steps.py and paddle/steps.py run it.
"""

from twincheck.common.pair.case_hooks import data_cases, training
from twincheck.extras.bits import md5
from twincheck.extras.shared.one_case import asked_precision
from twincheck.step5_train.train import batches_of, gradients_of, prepared, shuffled

STEM = "steps"


def steps(run):
    """Train the request's number of steps, and write STEM_SIDE.md5 beside the logs."""
    samples = run.samples("train")
    settings = training(run.pair, run.case.config, run.data_preset)
    per_epoch = batches_of(samples, settings)
    run.session.probing, run.session.watching = False, True
    model, optimizer = prepared(run, settings, per_epoch * settings["epochs"], per_epoch)
    lines, losses, epoch = [], [], 0
    while len(losses) < run.request.steps:
        for batch in shuffled(run, samples, settings, epoch):
            run.session.begin(len(losses), prefix=run.prefix)
            with run.session.unrecorded():
                loss = run.side.array(gradients_of(run, model, batch))
            losses.append(loss)
            found = ((name, run.side.gradient(value)) for name, value in run.parameters(model))
            backwards = reversed(list(run.as_reference(found)))  # as they come about
            lines += md5.lines(len(losses), loss, backwards)
            optimizer.step()
            run.side.clear_gradients(model)
            if len(losses) == run.request.steps:
                break
        epoch += 1
    run.session.begin(prefix=run.prefix)
    run.log("loss", losses)
    if run.dtype == "float32":
        path = run.folder / f"{STEM}_{run.job.slot}.md5"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


SCRIPT = {"stem": STEM, "function": steps, "dtypes": asked_precision, "cases": data_cases}
