"""The reference of `certificate --aoa`: its checkpoint, what it computes, and what of it matters.

    python -m twincheck.extras.certificate.aoa_torch REQUEST.json

REQUEST names the class, its configuration, a seed and a folder.  The folder then holds checkpoint/
(what the class's own save_pretrained writes) or state.npz (where it has none), and reference.npz:
the ids, the logits in float32 and float64 and, for each tensor, whether each of its elements has a
gradient in float64 that is more than rounding.  torch and NumPy, and the reference's own library.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[2])
    from twincheck.common.system.start import begin_side

    begin_side("torch", __doc__)

import json

import numpy as np
import torch

from twincheck.common.sides import upcast
from twincheck.common.sides.backend_torch import side
from twincheck.extras.certificate.named import configured, load_class, logits_of, told_errors

NOISE = 0.1  # added to every parameter: biases begin as 0 and gains as 1, and a swap would not show


def main(request_file: str) -> None:
    """Leave all that the docstring names in the request's folder."""
    request = json.loads(Path(request_file).read_text())
    folder = Path(request["folder"])
    upcast.patch(side)
    Class = load_class(request["reference"])
    config = configured(Class, request["config"])
    config._attn_implementation = "eager"  # written out, as Paddle's is on a CPU
    torch.manual_seed(request["seed"])
    model = Class(config).train(request["train"])
    random = np.random.default_rng(request["seed"])
    with torch.no_grad():
        for parameter in model.parameters():
            noise = random.normal(0, NOISE, tuple(parameter.shape)).astype(np.float32)
            parameter += torch.from_numpy(noise)
    state = {key: value.detach().numpy() for key, value in model.state_dict().items()}
    np.savez(folder / "state.npz", **state)
    if hasattr(model, "save_pretrained"):
        model.save_pretrained(folder / "checkpoint")
    vocabulary = config.vocab_size
    ids = random.permutation(vocabulary)[: min(vocabulary, 1024) // 2 * 2].reshape(2, -1)
    found = {"ids": ids}
    with torch.no_grad():
        found["logits32"] = logits_of(model(input_ids=torch.from_numpy(ids))).numpy()
    with upcast.upcasting(True), side.default_dtype("float64"):
        wide = Class(config).train(request["train"]).double()
        wide.load_state_dict({k: torch.from_numpy(v).double() for k, v in state.items()})
        logits = logits_of(wide(input_ids=torch.from_numpy(ids)))
        found["logits64"] = logits.detach().numpy()
        weights = torch.from_numpy(random.normal(size=tuple(logits.shape)))
        (logits * weights).sum().backward()
    found |= matters(wide, logits.numel())
    linear = (torch.nn.Linear,)
    owners = {f"{name}.weight" for name, one in model.named_modules() if isinstance(one, linear)}
    (folder / "torch.json").write_text(json.dumps({"linear": sorted(owners)}))
    np.savez(folder / "reference.npz", **found)


def matters(model, terms: int) -> dict[str, np.ndarray]:
    """For each parameter, which of its elements have an effect: a gradient that is not rounding.

    terms   how many numbers were added up, in float64: their rounding is no effect (a bias of keys
            adds the same to all scores of a softmax)
    """
    moved = {
        key: torch.zeros_like(p) if p.grad is None else p.grad.abs()
        for key, p in model.named_parameters(remove_duplicate=False)
    }
    largest = max(float(gradient.max()) for gradient in moved.values())
    rounding = np.finfo(np.float64).eps * terms * largest
    return {f"matters/{key}": (gradient > rounding).numpy() for key, gradient in moved.items()}


if __name__ == "__main__":
    sys.exit(told_errors(main, sys.argv[1]))
