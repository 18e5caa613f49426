"""Faults before and behind the models: readers, words, scores, weights, and the logs themselves."""

import json
import shutil
from functools import partial
from pathlib import Path

from faults.fault import MODELS, USERS, Fault

LOADER = "common/sides/loader.py"
# Both sides read this file: the first that can see it wrong is the third opinion on torch's log.
TOKENIZERS = "step2_metric/tokenizers.py"
METRIC = "step2_metric/metric.py"

BATCHES = "def batches(side, dataset, order, batch_size, drop_last=False, max_length=None):"
PLAIN = BATCHES.replace("batches", "plain")
reader = partial(Fault, model="fastformer", step=2, file=LOADER, old=BATCHES, area="readers")
words = partial(Fault, model="fastformer", step=2, file=TOKENIZERS, area="words")
SCORES = "for name, value in scores.items():\n"
EVALUATED = "    scores, outputs = evaluate(run, run.build(), test, size)\n"
score = partial(Fault, model="fastformer", step=2, file=METRIC, area="scores")
LOAD = "self.side.load_state(model, values)"
pipeline = partial(Fault, model="fastformer", step=1, refused=True, area="logs")


def _each(change: str) -> str:
    """Paddle's `batches`, of each of which something else is made."""
    return (
        "def batches(side, *arguments, **options):\n"
        "    for batch in plain(side, *arguments, **options):\n"
        f"        yield {change}\n\n\n{PLAIN}"
    )


# ---- what is done to the logs of a correct run --------------------------------------------------


def _copy(folder: Path, source: str, target: str) -> None:
    for suffix in (".npy", ".json"):
        shutil.copy(folder / f"{source}{suffix}", folder / f"{target}{suffix}")


def torch_twice(folder: Path, other: Path) -> None:
    """Both logs are torch's, sidecars too."""
    for name in ("", "_fp64"):
        _copy(folder, f"forward_all_torch{name}", f"forward_all_paddle{name}")


def torch_twice_relabelled(folder: Path, other: Path) -> None:
    """Paddle's logs are replaced by torch's, whose sidecars are made to say Paddle."""
    for name in ("", "_fp64"):
        sidecar = json.loads((folder / f"forward_all_paddle{name}.json").read_text())
        torch, paddle = (folder / f"forward_all_{side}{name}.npy" for side in ("torch", "paddle"))
        shutil.copy(torch, paddle)
        told = json.loads((folder / f"forward_all_torch{name}.json").read_text())
        sidecar["log_sha256"] = told["log_sha256"]
        (folder / f"forward_all_paddle{name}.json").write_text(json.dumps(sidecar))


def swapped(folder: Path, other: Path) -> None:
    """Each side's logs under the other side's name."""
    for name in ("", "_fp64"):
        _copy(folder, f"forward_all_torch{name}", "kept")
        _copy(folder, f"forward_all_paddle{name}", f"forward_all_torch{name}")
        _copy(folder, "kept", f"forward_all_paddle{name}")


def paddle_of_other_run(folder: Path, other: Path) -> None:
    """Paddle's logs come from another run."""
    for path in other.glob("forward_all_paddle*"):
        shutil.copy(path, folder / path.name)


def edited(folder: Path, other: Path) -> None:
    """One byte of a log is changed by hand."""
    path = folder / "forward_all_paddle.npy"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def cut_off(folder: Path, other: Path) -> None:
    """A log that was not written to its end."""
    path = folder / "forward_all_paddle.npy"
    path.write_bytes(path.read_bytes()[:-1000])


def no_sidecar(folder: Path, other: Path) -> None:
    """A log of unknown origin."""
    (folder / "forward_all_paddle.json").unlink()


def embellished(folder: Path, other: Path) -> None:
    """What is handed in says that the sides agree to the last bit: torch's values as Paddle's."""
    told = json.loads((folder / "forward_paddle.json").read_text())
    of_torch = json.loads((folder / "forward_torch.json").read_text())
    shutil.copy(folder / "forward_torch.npy", folder / "forward_paddle.npy")
    told["log_sha256"] = of_torch["log_sha256"]
    (folder / "forward_paddle.json").write_text(json.dumps(told))


def nothing(folder: Path, other: Path) -> None:
    """The logs stay; what they were made from has changed."""


FAULTS = [
    # ---- readers
    reader(
        id="drop-last",
        what="the last, smaller batch dropped",
        old='run, "train", batches(Samples(train), shuffled, BATCH_SIZE))',
        new='run, "train", batches(Samples(train), shuffled, BATCH_SIZE, drop_last=True))',
        file=METRIC,
        origin="train/hashes",
    ),
    reader(
        id="not-shuffled",
        what="samples in the files' order instead of the shuffled one",
        new="def batches(side, dataset, order, *rest, **options):\n"
        f"    return plain(side, dataset, sorted(order), *rest, **options)\n\n\n{PLAIN}",
        origin="train/batch/000/input_ids",
    ),
    reader(
        id="off-by-one-sample",
        what="a sample read with the next one's label",
        new="class Shifted(Samples):\n"
        "    def __getitem__(self, index):\n"
        '        after = super().__getitem__((index + 1) % len(self))["labels"]\n'
        '        return super().__getitem__(index) | {"labels": after}\n\n\n'
        f"Samples = Shifted\n\n\n{BATCHES}",
        origin="train/batch/000/labels",
    ),
    reader(
        id="wrong-split",
        what="scores taken on the training set",
        old='run.samples("train"), run.samples("test")',
        new='run.samples("train"), run.samples("train")',
        file=METRIC,
        origin="test/batch/000/input_ids",
    ),
    reader(
        id="truncated-in-front",
        what="long texts cut in front instead of behind",
        new="def batches(side, dataset, *rest, max_length=None, **options):\n"
        "    if max_length:\n"
        "        dataset = Documents([text[-max_length:] for text in dataset.documents])\n"
        "    return plain(side, dataset, *rest, max_length=max_length, **options)\n\n\n" + PLAIN,
        origin="text/batch/000/input_ids",
    ),
    reader(
        id="padded-in-front",
        what="short texts padded in front",
        new="def front(values, batch):\n"
        '    lengths = batch["attention_mask"].sum(axis=1)\n'
        "    return np.stack([np.roll(v, -n) for v, n in zip(values, lengths, strict=True)])\n\n\n"
        + _each("{k: front(v, batch) if 'max_length' in options else v for k, v in batch.items()}"),
        origin="words/batch/000/input_ids",
    ),
    reader(
        id="mask-of-the-reader",
        what="the reader's mask says 1 for padding",
        new=_each("{k: 1 - v if k == 'attention_mask' else v for k, v in batch.items()}"),
        origin="text/batch/000/attention_mask",
    ),
    reader(
        id="labels-in-int32",
        what="integers read as int32",
        new=_each("{name: values.astype('int32') for name, values in batch.items()}"),
        origin="train/batch/000/input_ids",
    ),
    # ---- words
    words(
        id="case-kept",
        what="words not put into lower case",
        old="text = text.lower()",
        new="text = str(text)",
        origin="third/words_lower/lengths/torch",
    ),
    words(
        id="vocabulary-sorted",
        what="vocabulary in alphabetical order",
        old="for word, _, _ in self.words(text):",
        new="for word, _, _ in sorted(self.words(text)):",
        origin="third/words/input_ids/torch",
    ),
    words(
        id="punctuation-glued",
        what="words split at blanks alone, marks left on them",
        old=r'r"\w+|[^\w\s]+"',
        new=r'r"\S+"',
        origin="third/words/lengths/torch",
    ),
    words(
        id="unknown-dropped",
        what="unknown words left out",
        old="            ids.append(self.ids.get(word, self.unknown_id))",
        new="            if word not in self.ids:\n                continue\n"
        "            ids.append(self.ids[word])",
        origin="third/words/lengths/torch",
    ),
    words(
        id="marks-one-by-one",
        what="a run of punctuation taken apart",
        old=r"[^\w\s]+",
        new=r"[^\w\s]",
        origin="third/words/lengths/torch",
    ),
    words(
        id="vocabulary-from-0",
        what="the first word has padding's id",
        old="PADDING + 1 + len(self.ids))",
        new="PADDING + len(self.ids))",
        origin="third/words/input_ids/torch",
    ),
    words(
        id="offsets-of-bytes",
        what="offsets count bytes instead of characters",
        old="spans.append((place, place + 1))",
        new="spans.append((len(spans), len(spans) + 1))",
        origin="third/bytes/offsets/torch",
    ),
    reader(
        id="half-precision-data",
        what="images read in half precision",
        model=f"{USERS}/plain_resnet",
        new=_each("{k: v.astype('f2') if v.dtype.kind == 'f' else v for k, v in batch.items()}"),
        origin="train/batch/000/x",
    ),
    # ---- scores
    score(
        id="macro-f-definition",
        what="macro-F as the mean of the classes' F1, not of averaged precision and recall",
        old=SCORES,
        new='for name, value in (scores | {"macro_f_seed": scores["macro_f1"]}).items():\n',
        origin="macro_f_seed",
    ),
    score(
        id="scored-with-dropout",
        what="predictions made in train mode",
        old="evaluate(run, run.build(), test, size)",
        new="evaluate(run, run.build(training=True), test, size)",
        origin="test/000/fastformer_model.dropout:p",
    ),
    score(
        id="scored-over-samples",
        what="scores of the predictions in another order than the labels",
        old=EVALUATED,
        new=EVALUATED + "    rolled = {k: np.roll(v, 1, axis=0) for k, v in test.items()}\n"
        "    from common.pair.metrics import score\n\n"
        "    scores = score(run.pair, outputs, rolled)\n",
        origin="accuracy",
    ),
    score(
        id="one-class-too-many",
        what="scores averaged over one class too many",
        old=EVALUATED,
        new=EVALUATED
        + '    wide = np.pad(outputs["logits"], ((0, 0), (0, 1)), constant_values=-1e9)\n'
        "    from common.pair.metrics import score\n\n"
        '    scores = score(run.pair, {"logits": wide}, test)\n',
        origin="macro_f_seed",
    ),
    # ---- weights and inputs
    Fault(
        id="weights-not-loaded",
        what="the checkpoint is never put into the model",
        model="fastformer",
        step=1,
        file="common/sides/run.py",
        old=LOAD,
        new=f"if self.side.NAME == 'torch':\n            {LOAD}",
        origin="main/word_embedding",
        area="weights",
    ),
    Fault(
        id="wrong-checkpoint",
        what="another case's checkpoint loaded",
        model="fastformer",
        step=1,
        file="common/sides/run.py",
        old=LOAD,
        new="other = weights.load_state(self.folder / 'weights' / 'padding.npz')\n"
        "        values = values if self.side.NAME == 'torch' else layout.to_paddle(other)\n"
        f"        {LOAD}",
        origin="word_embedding",  # of any case: all of them run, since it loads another's
        area="weights",
    ),
    Fault(
        id="layers-crossed",
        what="two layers of the same shape loaded into each other",
        model="fastformer",
        step=1,
        file="common/sides/run.py",
        old=LOAD,
        new="path = 'fastformer_model.encoders.0.attention.self.{}.weight'\n"
        "        first, second = path.format('query'), path.format('key')\n"
        "        if self.side.NAME == 'paddle' and first in values:\n"
        "            values = dict(values)\n"
        "            values[first], values[second] = values[second], values[first]\n"
        f"        {LOAD}",
        origin="main/fastformer_model.encoders.0.attention.self.query",
        area="weights",
    ),
    Fault(
        id="inputs-mixed",
        what="samples fed in another order",
        model="fastformer",
        step=1,
        file="step1_forward/paddle/forward.py",
        old="outputs = run.call(model, run.tensors())",
        new="outputs = run.call(model, {key: x.flip(0) for key, x in run.tensors().items()})",
        origin="main/word_embedding:in/0",
        area="readers",
    ),
    # ---- the logs themselves
    pipeline(
        id="torch-on-both-sides",
        what="torch run on both sides",
        after=torch_twice,
        origin="was made by torch, not paddle",
    ),
    pipeline(
        id="torch-log-relabelled",
        what="torch's log given as Paddle's, with a sidecar that says Paddle",
        after=torch_twice_relabelled,
        origin="hold the same bits: one side's log was given twice",
    ),
    pipeline(
        id="logs-swapped",
        what="the two sides' logs swapped",
        after=swapped,
        origin="was made by paddle, not torch",
    ),
    pipeline(
        id="torch-inside-paddle",
        what="a Paddle twin that computes with torch",
        file=f"{MODELS}/fastformer/paddle_model.py",
        old="import paddle\nimport paddle.nn.functional as F\n",
        new="import paddle\nimport paddle.nn.functional as F\nimport torch  # noqa: F401\n",
        origin="had loaded torch and paddle",
    ),
    pipeline(
        id="stale-log",
        what="a Paddle log from before the model was changed",
        file=f"{MODELS}/fastformer/paddle_model.py",
        old='"gelu": F.gelu',
        new='"gelu": lambda x: F.gelu(x, approximate=True)',
        after=nothing,
        origin="paddle_model.py",
    ),
    pipeline(
        id="other-seed",
        what="logs of two runs with different inputs and weights",
        after=paddle_of_other_run,
        other=("--seed", "1"),
        origin="the two logs are from different seeds",
    ),
    pipeline(
        id="other-weights",
        what="logs of two runs with different checkpoints",
        after=paddle_of_other_run,
        other=("--weights", "trained-like"),
        origin="the two logs are from different weights",
    ),
    pipeline(
        id="log-edited",
        what="a number of a log changed by hand",
        after=edited,
        origin="is not the file that its sidecar describes",
    ),
    pipeline(
        id="hand-in-embellished",
        what="torch's values in Paddle's log of the guide's pair",
        after=embellished,
        origin="is not what forward_all_paddle.npy holds as",
    ),
    pipeline(
        id="log-cut-off",
        what="a log cut off before its end",
        after=cut_off,
        origin="an end before the pickle's own",
    ),
    pipeline(
        id="log-of-nobody",
        what="a log that does not say who made it",
        after=no_sidecar,
        origin="has no sidecar: nobody knows what made it",
    ),
]
