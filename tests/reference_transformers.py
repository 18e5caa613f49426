"""transformers' own Reformers for the tests of checkpoints, in a process of its own.

    python tests/reference_transformers.py REQUEST.json

The request is a list of tasks, done in order:

    {"do": "make", "architecture": …, "config": {…}, "folder": …, "forms": […]}
        builds the model and saves it: safe, bin, legacy, shards, bin_shards, each in folder/FORM
    {"do": "run", "architecture": …, "folder": …, "inputs": NPZ, "rotations": NPZ, "answer": NPZ}
        loads it in float64 and writes outputs, loss and every gradient

The answer is REQUEST's list of what was done, in REQUEST.answer.json.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from torch.nn import functional as F

KINDS = {
    "safe": {},
    "bin": {"safe_serialization": False},
    "shards": {"max_shard_size": "20KB"},
    "bin_shards": {"safe_serialization": False, "max_shard_size": "20KB"},
}


def make(task):
    """Build a model of random weights, no bias 0 and no gain 1, and save it."""
    torch.manual_seed(task.get("seed", 0))
    kind = getattr(transformers, task["architecture"])
    model = kind(transformers.ReformerConfig(**task["config"]))
    with torch.no_grad():
        for value in model.parameters():
            if value.ndim == 1:
                value.add_(0.1 * torch.randn(value.shape))
    folder = Path(task["folder"])
    for form in task["forms"]:
        if form == "legacy":
            model.config.save_pretrained(folder / form)
            state, target = model.state_dict(), folder / form / "pytorch_model.bin"
            torch.save(state, target, _use_new_zipfile_serialization=False)
        else:
            model.save_pretrained(folder / form, **KINDS[form])


def run(task):
    """Outputs, loss and gradients in float64, with the rotations that were given.

    transformers differentiates in train mode alone, where axial positions would want all tokens:
    dropout is 0, and the positions' own mode stays eval.
    """
    kind = getattr(transformers, task["architecture"])
    settings = {f"{name}_dropout_prob": 0.0 for name in DROPOUTS} | {"classifier_dropout": 0.0}
    model, told = kind.from_pretrained(task["folder"], output_loading_info=True, **settings)
    model.to(torch.float64)  # once loaded: its positions are float32 whatever is asked for
    model.config.use_cache = False
    model.train()
    trunk = getattr(model, "reformer", model)
    trunk.embeddings.position_embeddings.eval()
    with np.load(task["inputs"]) as file:
        inputs = {key: torch.as_tensor(file[key]) for key in file.files}
    with np.load(task["rotations"]) as file:
        rotations = iter([torch.as_tensor(file[f"{i}"]) for i in range(len(file.files))])
    drawn, torch.randn = torch.randn, lambda shape, **options: next(rotations)
    try:
        outputs = model(input_ids=inputs["input_ids"])
    finally:
        torch.randn = drawn
    loss = LOSSES[task["architecture"]](outputs, inputs)
    loss.backward()
    answer = {"loss": loss.detach().numpy()}
    for name in ("logits", "start_logits", "end_logits", "last_hidden_state"):
        if getattr(outputs, name, None) is not None:
            answer[name] = getattr(outputs, name).detach().numpy()
    for name, value in model.named_parameters():
        gradient = torch.zeros_like(value) if value.grad is None else value.grad
        answer[f"grad/{name}"] = gradient.numpy()
    np.savez(task["answer"], **answer)
    loading = {key: list(told[key]) for key in ("missing_keys", "unexpected_keys", "error_msgs")}
    return {"loading": loading}


DROPOUTS = ("hidden", "local_attention_probs", "lsh_attention_probs")


def of_tokens(logits, labels):
    """Mean cross-entropy of the tokens whose label is not -100; transformers' own is float32."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def of_positions(outputs, inputs):
    """The mean of both ends' cross-entropies; positions past the end are ignored."""
    pairs = [(outputs.start_logits, "start_positions"), (outputs.end_logits, "end_positions")]
    tokens = outputs.start_logits.shape[1]
    ends = [(logits, inputs[name].clamp(0, tokens)) for logits, name in pairs]
    return sum(F.cross_entropy(*end, ignore_index=tokens) for end in ends) / 2


LOSSES = {
    "ReformerModel": lambda o, i: ((o.last_hidden_state - i["target"]) ** 2).mean(),
    "ReformerModelWithLMHead": lambda o, i: of_tokens(o.logits[:, :-1], i["labels"][:, 1:]),
    "ReformerForMaskedLM": lambda o, i: of_tokens(o.logits, i["labels"]),
    "ReformerForSequenceClassification": lambda o, i: F.cross_entropy(o.logits, i["labels"]),
    "ReformerForQuestionAnswering": of_positions,
}


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    request = Path(sys.argv[1])
    answers = []
    for task in json.loads(request.read_text()):
        if task["do"] == "make":
            shutil.rmtree(task["folder"], ignore_errors=True)
        answers.append({"make": make, "run": run}[task["do"]](task))
    request.with_suffix(".answer.json").write_text(json.dumps(answers))
