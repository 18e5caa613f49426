"""Correct pairs that are hard to judge: a row is a check that must pass.

A folder of faults/pairs, or a built-in model, is judged case by case.  A folder of
faults/users/pairs is a pair of a kind that users bring, each side written as another person would
write it; faults/catalogue/users.toml plants faults in them.  Without a case.py it has
a row in faults/users/cases.toml; without paddle_model.py its port is the reference's own text in
Paddle's words, with the lines of paddle_model.diff written otherwise (faults/checkout.py).
"""

import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from faults.checkout import CHECKS, complete
from faults.fault import HARD, USERS
from faults.portions import Portion
from twincheck.common.system.checkout import ROOT
from twincheck.common.verdict.row import exit_code, worst
from twincheck.extras.shared.jobs import captured

PAIRS = ROOT  # what their folders are below


@dataclass(frozen=True)
class Correct:
    """One check of one correct pair.

    model    built-in name, or the folder of a pair in the checkout
    options  of its check
    """

    model: str
    step: int
    options: tuple[str, ...] = ()

    @property
    def of_users(self) -> bool:
        """Return whether it is of a kind that users bring."""
        return self.model.startswith(USERS)

    @property
    def name(self) -> str:
        """Return its name: the model's folder, and what its options give."""
        words = [Path(self.model).name, *(w for w in self.options if not w.startswith("--"))]
        return ("users/" if self.of_users else "") + " ".join(words)


def _hard(name: str, step: int, preset: str = "default", options: Sequence[str] = ()) -> Correct:
    model = f"{HARD}/{name}" if (ROOT / HARD / name).is_dir() else name
    preset = () if preset == "default" else ("--preset", preset)
    return Correct(model, step, (*preset, *options))


_TRAINED = ("--weights", "trained-like")
_BFLOAT16 = ("--dtype", "bfloat16")
_NEAR_TIES = ("--case", "near_ties", "--seed")  # queries nearly alike: the last bits choose
_HARD = (
    _hard("operators", 4),
    _hard("deep", 4, options=(*_TRAINED, "--seed", "1")),
    _hard("operators", 1),
    _hard("networks", 4),
    _hard("transformer", 4, "backward"),
    _hard("networks", 4, "gauge"),
    _hard("networks", 4, "norms"),
    _hard("casts", 4),
    _hard("casts", 4, "relative"),
    _hard("casts", 4, "one_sided"),
    _hard("choices", 4),
    _hard("transformer", 1),
    _hard("deep", 1, options=(*_TRAINED, "--seed", "2")),
    _hard("deep", 1, options=(*_TRAINED, "--seed", "3")),
    _hard("networks", 1),
    _hard("choices", 1),
    _hard("transformer", 3),
    _hard("networks", 3),
    _hard("choices", 3),
    _hard("halves", 1, "encoder", _BFLOAT16),
    _hard("halves", 1, "vision", _BFLOAT16),
    _hard("halves", 3, options=("--dtype", "float16")),
    _hard("halves", 4, options=_BFLOAT16),
    _hard("casts", 1, "half", _BFLOAT16),
    _hard("casts", 1),
    _hard("casts", 3),
    _hard("decoder", 1),
    _hard("informer", 1, options=(*_NEAR_TIES, "1")),
    _hard("informer", 1, options=(*_NEAR_TIES, "2")),
    _hard("informer", 4, options=(*_NEAR_TIES, "1")),
    _hard("informer", 1, options=_TRAINED),
)


def _users(
    name: str,
    steps: Sequence[int] = (1, 3, 4),
    train: Sequence[int] = (),
    options: Sequence[str] = (),
) -> list[Correct]:
    """Return the checks of a user's pair: `steps` in eval mode, `train` in train mode."""
    model, in_train_mode = f"{USERS}/{name}", (*options, "--mode", "train")
    checks = [Correct(model, step, tuple(options)) for step in steps]
    return checks + [Correct(model, step, in_train_mode) for step in train]


_ALL = (1, 2, 3, 4, 5)  # of pairs with make_data
_OTHERWISE = ("box_losses", "dice_by_class", "router_losses", "straight_through")
_OTHERWISE_WITHOUT_LOSS = (
    *("alibi_slopes", "beam_scores", "bucketed_bias", "crf_scores", "gated_group_norm"),
    *("grouped_routing", "image_positions", "log_mel", "narrow_table", "padded_windows"),
    *("pooled_text", "scattered_graph", "selective_scan", "shared_keys", "sliding_window"),
    "time_embedding",
    "yarn_scales",
)
_USERS = (
    # Inner tensors differ in shape, order, name or number; what comes out does not.
    _users("nhwc_images", train=(1, 4)),
    _users("convnext_linear"),
    _users("vision_transformer"),
    _users("shifted_windows"),
    _users("point_cloud", train=(1, 4)),
    _users("norms_by_hand"),
    _users("causal_convs"),
    _users("packed_lstm"),
    _users("gru_by_hand"),
    _users("text_convs", train=(1, 4)),
    _users("attention_by_framework"),
    _users("attention_module"),
    _users("fused_qkv"),
    _users("encoder_layer"),
    _users("gpt_masks"),
    _users("albert_like"),
    _users("two_towers"),
    _users("twins_batched"),
    _users("wrapped_model"),
    _users("sequential_pieces"),
    _users("shared_names"),
    _users("einsum_capsules"),
    _users("graph_conv", train=(1, 4)),
    _users("graph_attention"),
    _users("expert_mixture"),
    _users("factorization", train=(1,)),
    _users("focal_detector"),
    _users("meant_otherwise", train=(1, 4)),
    # The model casts to float32 inside.
    _users("llama_like"),
    _users("phi_like"),
    _users("gemma_like"),
    _users("t5_like"),
    # Noisy weights or a careless learning rate blow it up.
    _users("deep_residual", train=(1,)),
    _users("deep_transformer", steps=(1, 3)),
    _users("unet", train=(1,)),
    _users("mobile_excite", train=(1, 3)),
    # It draws random numbers by itself.
    _users("variational", train=(1,)),
    _users("drop_path", train=(1, 3, 4)),
    _users("dropout_owners", steps=(1,), train=(1, 4)),
    _users("seq_first", steps=(1,), train=(1,)),
    # A training forward moves buffers.
    _users("moving_codebook", train=(1, 3, 4)),
    _users("moving_centre", train=(1, 3, 4)),
    _users("ema_teacher", steps=(1,), train=(1, 4)),
    _users("fixed_positions"),
    _users("conformer", steps=_ALL),
    _users("plain_resnet", steps=_ALL),
    _users("frozen_norms", steps=_ALL),
    _users("twin_branches", train=(1, 4)),
    # Gradients of gradients, tiny ones, or none on one side.
    _users("gradient_penalty"),
    _users("force_field"),
    _users("frozen_branch"),
    _users("frozen_critic"),
    # The loss is written in another way.
    _users("segmentation", train=(1, 3)),
    _users("many_labels"),
    _users("label_smoothing"),
    # Outputs, dtypes or sizes that are rare.
    _users("upsampling_decoder"),
    _users("fourier_filter"),
    _users("odd_outputs"),
    _users("pointer", steps=_ALL),
    _users("tiny_linear"),
    _users("tiny_argmax", steps=(1,)),
    _users("empty_rows", steps=(1, 3), options=("--allow", "nan")),
    # The port is written another way, in code between modules.
    *(_users(name) for name in _OTHERWISE),
    *(_users(name, steps=(1,)) for name in _OTHERWISE_WITHOUT_LOSS),
)
CORRECT = (*_HARD, *(check for checks in _USERS for check in checks))


def judge_portion(portion: Portion) -> list[list[dict]]:
    """Run one check of several pairs, and cut its report: a list for each, of its cases.

    A dict a case, of a user's pair one for all: name, step, verdict, exit_code (0: right), rows,
    guide_passed, seconds, worst (the row that is told) and sentence (of what was not compared).
    """
    chunk, out = portion.items, portion.folder()
    report, start = out / "rows.json", time.perf_counter()
    command = [portion.python, "-W", "ignore", str(ROOT / CHECKS[chunk[0].step])]
    for one in chunk:
        if "/" in one.model:
            shutil.copytree(PAIRS / one.model, out / one.model)
        command += ["--model", str(out / one.model) if "/" in one.model else one.model]
    complete(out)
    command += [*chunk[0].options, "--out", str(out), "--no-report", "--json", str(report)]
    done = captured(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    if report.is_file():
        document = json.loads(report.read_text())
    else:
        said = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        document = {"rows": [], "errors": {Path(one.model).name: said for one in chunk}}
    shutil.rmtree(out)
    seconds = round((time.perf_counter() - start) / len(chunk), 2)
    return [_cases(one, document, seconds) for one in chunk]


def _cases(one: Correct, document: Mapping, seconds: float) -> list[dict]:
    model, cases = Path(one.model).name, {}
    for row in (row for row in document["rows"] if row["model"] == model):
        case = one.name if one.of_users else f"{one.name}/{row['key'].partition('/')[0]}"
        cases.setdefault(case, []).append(row)
    sentence = document["errors"].get(model, "")
    each = round(seconds / max(1, len(cases)), 2)
    cases = cases or {one.name: []}
    return [_summary(name, one, rows, sentence, each) for name, rows in cases.items()]


def _summary(name: str, one: Correct, rows: list[dict], sentence: str, seconds: float) -> dict:
    """Return what a case's rows come to."""
    verdicts = [row["verdict"] for row in rows]
    pairs = zip(one.options, one.options[1:], strict=False)
    allowed = [word.upper() for flag, word in pairs if flag == "--allow"]
    bad = [row for row in rows if exit_code([row["verdict"]], allowed)]
    told = next((row for row in bad if row["verdict"] != "CARRIED"), bad[0] if bad else None)
    guides = [row["guide_passed"] for row in rows if row["guide_passed"] is not None]
    return {
        "name": name,
        "step": one.step,
        "verdict": "INVALID" if sentence else worst(verdicts),
        "exit_code": 2 if sentence else exit_code(verdicts, allowed),
        "rows": len(rows),
        "guide_passed": all(guides) if guides else None,
        "seconds": seconds,
        "worst": told and {key: told[key] for key in ("key", "verdict", "gap", "allowed", "note")},
        "sentence": sentence,
    }
