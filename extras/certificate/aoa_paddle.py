"""The port of `certificate --aoa`: its statements taken apart, and what comes of them.

    python -m twincheck.extras.certificate.aoa_paddle REQUEST.json

Beside what aoa_torch.py left in the request's folder: paddle.json has the statements and the moves
that Paddle's own grammar makes of them, paddle.npz the logits of the model that holds what marks
say, and what Paddle's own loader and saver make of the same checkpoint.  With `repairs`, texts that
stand for a statement's, only the logits are made anew, for each.  Paddle and NumPy, and the port's
own library.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parents[2])
    from twincheck.common.system.start import begin_side

    begin_side("paddle", __doc__)

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import paddle
from paddle.distributed.flex_checkpoint.aoa import aoa_engine
from paddle.distributed.flex_checkpoint.aoa.lexer import Lexer
from paddle.distributed.flex_checkpoint.aoa.parser import Parser
from paddle.distributed.flex_checkpoint.dcp.sharded_weight import ShardedWeightDesc
from safetensors.numpy import load_file, save_file

from twincheck.common.sides import upcast
from twincheck.common.sides.backend_paddle import side
from twincheck.extras.certificate import Kind
from twincheck.extras.certificate.named import (
    Named,
    configured,
    load_class,
    logits_of,
    told_errors,
)
from twincheck.extras.certificate.statements import Marks, Move, carry


def main(request_file: str) -> None:
    """Leave all that the docstring names in the request's folder."""
    request = json.loads(Path(request_file).read_text())
    upcast.patch(side)
    port = _Port(request)
    if "repairs" in request:
        port.repair(request["repairs"])
    else:
        port.examine()


class _Port:
    def __init__(self, request: Mapping):
        self.folder, self.train = Path(request["folder"]), request["train"]
        self.Class = load_class(request["port"])
        if not hasattr(self.Class, "_gen_aoa_config"):
            raise Named(Kind.CLASS_WITHOUT_STATEMENTS(name=request["port"]))
        self.config = configured(self.Class, request["config"])
        self.model = self.Class(self.config)
        self.shapes = {key: list(value.shape) for key, value in self.model.state_dict().items()}
        self.checkpoint = _checkpoint(self.folder)
        self.marks = Marks({key: value.shape for key, value in self.checkpoint.items()})
        with np.load(self.folder / "reference.npz") as reference:
            self.ids = reference["ids"]
        self.statements = list(self.Class._gen_aoa_config(self.config)["aoa_statements"])

    def examine(self) -> None:
        """Take the statements apart, run the model, and let Paddle load and save."""
        moves, problems = self._taken_apart(self.statements)
        told = {
            "statements": self.statements,
            "moves": [asdict(move) for move in moves],
            "problems": problems,
            "shapes": self.shapes,
            "checkpoint": {key: list(value.shape) for key, value in self.checkpoint.items()},
            "parameters": [name for name, _ in self.model.named_parameters()],
            "linear": [
                f"{name}.weight"
                for name, one in self.model.named_sublayers()
                if isinstance(one, paddle.nn.Linear)
            ],
        }
        arrays, why = self._logits(moves, "")
        told["not_run"] = why and why.as_json()
        loaded, told["not_loaded"] = self._loaded()
        inverse, told["inverse"] = self._inverse()
        saved, told["not_saved"] = self._saved(inverse)
        (self.folder / "paddle.json").write_text(json.dumps(told))
        np.savez(self.folder / "paddle.npz", **arrays, **loaded, **saved)

    def repair(self, repairs: Sequence[Sequence]) -> None:
        """The logits with another text for a statement, for each; what cannot be run has none."""
        arrays = {}
        for number, (statement, text) in enumerate(repairs):
            texts = [*self.statements]
            texts[statement] = text
            moves, problems = self._taken_apart(texts)
            if not problems:
                arrays |= self._logits(moves, f"{number}/")[0]
        np.savez(self.folder / "repairs.npz", **arrays)

    def _taken_apart(self, texts: Sequence[str]) -> tuple[list[Move], dict[int, str]]:
        source = {key: value.shape for key, value in self.checkpoint.items()}
        return take_apart(texts, source, self.shapes)

    def _inverse(self) -> tuple[dict, dict]:
        """The configuration with which Paddle saves, and what its statements are made of."""
        if hasattr(self.Class, "_gen_inv_aoa_config"):
            config = self.Class._gen_inv_aoa_config(self.config)
        else:
            config = {**self.Class._gen_aoa_config(self.config), "aoa_config_reverse": True}
        texts, reverse = list(config["aoa_statements"]), config.get("aoa_config_reverse", False)
        moves, problems = take_apart(texts, self.shapes, None, reverse)
        told = {"statements": texts, "reverse": reverse, "problems": problems}
        return config, {**told, "moves": [asdict(move) for move in moves]}

    def _logits(self, moves: Sequence[Move], prefix: str) -> tuple[dict[str, np.ndarray], str]:
        """The logits in float32 and float64, or why there are none."""
        carried = carry(moves, self.marks.arrays, self.shapes)
        outputs = carried.outputs
        wrong = [key for key, marks in outputs.items() if list(marks.shape) != self.shapes[key]]
        if carried.unwritten or wrong:
            return {}, Kind.RUN_WITHOUT_VALUE(key=(carried.unwritten + wrong)[0])
        state = {key: self.marks.values(m, self.checkpoint) for key, m in outputs.items()}
        logits = {f"{prefix}logits32": self._run(self.model, state)}
        with upcast.upcasting(True), side.default_dtype("float64"):
            wide = self.Class(self.config)
            wide.to(dtype="float64")
            logits[f"{prefix}logits64"] = self._run(wide, state)
        return logits, ""

    def _run(self, model, state: Mapping[str, np.ndarray]) -> np.ndarray:
        own = model.state_dict()
        for key, value in state.items():
            own[key].set_value(value.astype(str(own[key].dtype).removeprefix("paddle.")))
        model.train() if self.train else model.eval()
        with paddle.no_grad():
            return logits_of(model(input_ids=paddle.to_tensor(self.ids))).numpy()

    def _loaded(self) -> tuple[dict[str, np.ndarray], str]:
        """What Paddle's own load_state_dict puts into a new model, or why it does not."""
        model = self.Class(self.config)
        try:
            paddle.distributed.load_state_dict(
                model.sharded_state_dict(),
                path=str(self.folder / "checkpoint"),
                aoa_config=self.Class._gen_aoa_config(self.config),
                safetensors=True,
            )
        except Exception as error:
            return {}, f"{type(error).__name__}: {error}"
        return {f"loaded/{key}": value.numpy() for key, value in model.state_dict().items()}, ""

    def _saved(self, config: dict) -> tuple[dict[str, np.ndarray], str]:
        """What Paddle's own `full` makes of the model that holds what marks say, or why not."""
        try:
            made = dict(self.model.full(aoa_config=config))
        except Exception as error:
            return {}, f"{type(error).__name__}: {error}"
        return {f"saved/{key}": value.numpy() for key, value in made.items()}, ""


def take_apart(
    texts: Sequence[str],
    source: Mapping[str, Sequence[int]],
    target: Mapping[str, Sequence[int]] | None,
    reverse: bool = False,
) -> tuple[list[Move], dict[int, str]]:
    """What Paddle's own macros and parser make of statements, each by itself.

    source, target   key -> shape of what is read, and of what is to come out; None: not known
    Gives the moves, and statement -> why its text cannot be taken apart.
    """
    infos = [None if one is None else _described(one) for one in (source, target)]
    context = aoa_engine.AOAShardInfoContext(*infos, reverse)
    lexer = Lexer(context)
    current, problems = list(enumerate(texts)), {}
    for macro in lexer.macros:
        before, current = current, []
        for number, text in before:
            try:
                made = macro(lexer.tokenize(text), text, context)
            except Exception as error:
                problems[number] = f"{type(error).__name__}: {error}"
                continue
            current += [(number, one) for one in ([made] if isinstance(made, str) else made)]
    moves = []
    for number, text in current:
        try:
            parsed = Parser(lexer.tokenize(text)).parse_program()
        except SyntaxError as error:
            problems[number] = f"{text}: {error}"
            continue
        for one in parsed:
            attributes = {attribute.key: attribute.value for attribute in one.attrs}
            names = [[v.name for v in part] for part in (one.left_vars, one.right_vars)]
            moves.append(Move(*names, attributes, number))
    return moves, problems


def _described(shapes: Mapping[str, Sequence[int]]) -> dict[str, list[ShardedWeightDesc]]:
    """Tensors as Paddle describes them, each in one piece."""
    return {
        key: [ShardedWeightDesc(key, tuple(s), tuple(s), (0,) * len(s), "float32")]
        for key, s in shapes.items()
    }


def _checkpoint(folder: Path) -> dict[str, np.ndarray]:
    """The reference's checkpoint; one of state.npz is written for Paddle's loader to read."""
    path = folder / "checkpoint"
    if not path.is_dir():
        path.mkdir()
        with np.load(folder / "state.npz") as state:
            save_file(dict(state), path / "model.safetensors")
    files = sorted(path.glob("*.safetensors"))
    return {key: value for file in files for key, value in load_file(file).items()}


if __name__ == "__main__":
    sys.exit(told_errors(main, sys.argv[1]))
