"""What marks, names and the run prove of each statement.  NumPy only."""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from twincheck.extras.certificate import Kind
from twincheck.extras.certificate.statements import Carried, Marks, Move, carry

PROVEN, WRONG, OPEN = Kind.PROVEN(), Kind.WRONG(), Kind.OPEN()


class Proof:
    """The statements of a class, both ways, and what is known of each.

    port       what aoa_paddle.py has told
    reference  reference.npz of aoa_torch.py
    state      the reference's own state: key -> values
    linear     the reference's keys that a Linear layer owns, which Paddle's stores transposed
    """

    def __init__(
        self,
        port: Mapping,
        reference: Mapping[str, np.ndarray],
        state: Mapping[str, np.ndarray],
        linear: set[str],
    ):
        self.port, self.reference, self.state = port, reference, state
        self.linear = linear & set(port["linear"])
        self.marks = Marks(port["checkpoint"])
        self.moves = [Move(**move) for move in port["moves"]]
        self.carried = carry(self.moves, self.marks.arrays, port["shapes"])
        self.unread, self.unwritten = self.carried.unread, self.carried.unwritten
        self.problems: list[str] = []
        self.names = self._names()
        self.wrong_keys = self._look()

    def _names(self) -> dict[str, str]:
        """A name of either side -> the checkpoint's key, where names say which that is."""
        names = {}
        for key, value in self.state.items():
            stored = key if key in self.marks.arrays else self._same_values(value)
            if stored:
                names[key] = stored
        names |= {key: key for key in self.marks.arrays}
        return names | {key.removeprefix("model."): stored for key, stored in names.items()}

    def _same_values(self, value: np.ndarray) -> str | None:
        """The key under which a tied tensor was saved."""
        own = [k for k, v in self.state.items() if v.shape == value.shape and (v == value).all()]
        return next((key for key in own if key in self.marks.arrays), None)

    def _stored(self, key: str) -> str | None:
        return self.names.get(key) or self.names.get(key.removeprefix("model."))

    def _look(self) -> dict[str, str]:
        """The model's keys whose marks are not where names and kinds of layers want them."""
        wrong = {}
        for key, marks in self.carried.outputs.items():
            shape = self.port["shapes"][key]
            if list(marks.shape) != shape:
                wrong[key] = Kind.SHAPE_OTHER(got=str(list(marks.shape)), shape=str(shape))
            elif len(np.unique(marks)) < marks.size:
                wrong[key] = Kind.ELEMENT_TWICE()
            stored = self._stored(key)
            if stored is None:
                continue
            expected = marks.T if key in self.linear and marks.ndim == 2 else marks
            if not np.array_equal(expected, self.marks.arrays[stored]):
                wrong.setdefault(key, self.marks.told(expected, stored))
        for key in self.carried.left_out & set(self.port["parameters"]):
            self.problems.append(Kind.PARAMETER_LEFT(key=key))
        return wrong

    def forward(self, aligned: bool) -> list[dict]:
        """A row for each statement that loads; `aligned` says whether the run agrees."""
        rows = [
            {"way": Kind.LOAD(), "statement": text, "verdict": PROVEN, "why": ""}
            for text in self.port["statements"]
        ]
        for number, row in enumerate(rows):
            row |= self._of_statement(number, aligned)
        self._unused()
        own = [key for key, by in self.carried.by.items() if not by and key in self.wrong_keys]
        self.problems += [
            Kind.PARAMETER_UNWRITTEN(key=key, problem=self.wrong_keys[key]) for key in own
        ]
        return rows

    def _of_statement(self, number: int, aligned: bool) -> dict:
        problem = _problem(self.port["problems"], self.carried, self.moves, number)
        if problem:
            return {"verdict": WRONG, "why": problem}
        keys = self._written(number)
        if not keys:
            leaves = any(m.left == ["_"] for m in self.moves if m.statement == number)
            if leaves:
                return {"verdict": PROVEN, "why": Kind.PROVEN_LEAVES()}
            return {"verdict": WRONG, "why": Kind.WRONG_WRITES_NOTHING()}
        bad = [key for key in keys if key in self.wrong_keys]
        if bad and not (aligned and self._matter(bad)):
            why = Kind.SAID_OF(name=bad[0], said=self.wrong_keys[bad[0]])
            return {"verdict": WRONG, "why": why}
        if aligned and self._matter(keys):
            return {"verdict": PROVEN, "why": Kind.PROVEN_BY_RUN()}
        if all(self._stored(key) for key in keys):
            return {"verdict": PROVEN, "why": Kind.PROVEN_BY_NAMES()}
        return {"verdict": OPEN, "why": Kind.OPEN_TO_RUN() if aligned else Kind.OPEN_TO_NAMES()}

    def _written(self, number: int) -> list[str]:
        """The model's keys that a statement writes."""
        return [key for key, by in self.carried.by.items() if number in by]

    def is_shown(self, number: int) -> bool:
        """Whether a run that agrees would show that a statement is right."""
        return self._matter(self._written(number))

    def _matter(self, keys: Sequence[str]) -> bool:
        """Whether every element of some keys of the model has an effect on the logits."""
        matters = {
            stored: self.reference[f"matters/{key}"]
            for key, stored in self.names.items()
            if f"matters/{key}" in self.reference
        }
        arrays = self.marks.arrays.items()
        whole = {key: matters.get(key, np.zeros(a.shape, bool)) for key, a in arrays}
        return all(self.marks.values(self.carried.outputs[key], whole).all() for key in keys)

    def _unused(self) -> None:
        """Elements of keys that were read, and reach no parameter."""
        used = np.zeros(self.marks.starts[-1], bool)
        for marks in self.carried.outputs.values():
            used[marks.reshape(-1)] = True
        for key, marks in self.marks.arrays.items():
            lost = int((~used[marks]).sum())
            if lost and key not in self.unread:
                told = {"lost": lost, "count": marks.size, "key": key}
                self.problems.append(Kind.ELEMENTS_NOWHERE(**told))

    def backward(self) -> list[dict]:
        """A row for each statement that saves: what comes back must be the checkpoint."""
        told = self.port["inverse"]
        moves = [Move(**move) for move in told["moves"]]
        # What the model holds: marks, and below 0 what the checkpoint did not write.
        held = {
            key: self.carried.outputs.get(key, np.full(shape, -1))
            for key, shape in self.port["shapes"].items()
        }
        back = self.back = carry(moves, held, None, told["reverse"])
        wrong = self._lost(back)
        rows = []
        for number, text in enumerate(told["statements"]):
            why = _problem(told["problems"], back, moves, number)
            keys = [key for key, by in back.by.items() if number in by]
            bad = next((key for key in keys if key in wrong), None)
            if not why and bad:
                why = Kind.SAID_OF(name=bad, said=wrong[bad])
            elif not why and not keys and number not in back.removed.values():
                why = Kind.WRONG_SAVES_NOTHING()
            verdict = WRONG if why else PROVEN
            rows.append({"way": Kind.SAVE(), "statement": text, "verdict": verdict, "why": why})
        by_statement = {key for key, by in back.by.items() if by}
        alone = {key: why for key, why in wrong.items() if key not in by_statement}
        self.problems += [Kind.SAVED_PROBLEM(key=k, problem=why) for k, why in alone.items()]
        return rows

    def _lost(self, back: Carried) -> dict[str, str]:
        """The saved keys that are not the checkpoint's own, and its keys that are not saved."""
        wrong = {}
        for key, marks in back.outputs.items():
            stored = self.names.get(key) if key in self.state or key in self.marks.arrays else None
            if stored is None:
                if (np.asarray(marks) >= 0).any():
                    wrong[key] = Kind.SAVED_UNKNOWN_KEY()
            elif not np.array_equal(marks, self.marks.arrays[stored]):
                marks = np.asarray(marks)
                unknown = bool((marks < 0).any())
                said = Kind.SAVED_NEVER_LOADED() if unknown else self.marks.told(marks, stored)
                wrong[key] = said
        saved = {self.names.get(key) for key in back.outputs}
        wrong |= {k: Kind.SAVED_NOT() for k in self.marks.arrays if k not in saved}
        return wrong

    def by_paddle(self, found: Mapping[str, np.ndarray]) -> list[str]:
        """Where Paddle's own loader and saver make something else than the statements say.

        found   paddle.npz of aoa_paddle.py; call `backward` before
        """
        stored = {key: self.state[name] for name, key in self.names.items() if name in self.state}
        if stored.keys() != self.marks.arrays.keys():
            return [Kind.CHECKPOINT_KEYS()]
        problems = []
        for name, call in (("not_loaded", "load_state_dict"), ("not_saved", "full()")):
            if self.port[name]:
                error = self.port[name].splitlines()[0]
                problems.append(Kind.PADDLE_FAILS(call=call, error=error))
        for key, marks in self.carried.outputs.items():
            made = found.get(f"loaded/{key}")
            if made is not None and not _same(made, self.marks.values(marks, stored)):
                problems.append(Kind.PADDLE_LOADS_OTHER(key=key))
        if self.port["not_saved"]:
            return problems
        saved = {key[6:] for key in found if key.startswith("saved/")}
        for key in sorted(saved - self.back.outputs.keys()):
            problems.append(Kind.PADDLE_SAVES_OTHER(key=key))
        for key, marks in self.back.outputs.items():
            made = found.get(f"saved/{key}")
            known = bool((np.asarray(marks) >= 0).all())
            if made is None or (known and not _same(made, self.marks.values(marks, stored))):
                problems.append(Kind.PADDLE_SAVES_OTHER(key=key))
        return problems


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and np.array_equal(one, other)


def _problem(
    taken_apart: Mapping[str, str], carried: Carried, moves: Sequence[Move], number: int
) -> str:
    """Why a statement cannot be carried out; empty where it can."""
    if not any(move.statement == number for move in moves) and str(number) not in taken_apart:
        return Kind.WRONG_NO_KEY()
    return taken_apart.get(str(number)) or carried.problems.get(number, "")


def repairs_of(text: str) -> list[str]:
    """Other texts for a statement: two names exchanged, transposed or not, along another axis."""
    left, _, rest = text.partition("->")
    names = [name.strip() for name in left.split(",")]
    other = []
    for a, b in combinations(range(len(names)), 2):
        swapped = [*names]
        swapped[a], swapped[b] = swapped[b], swapped[a]
        other.append(f"{', '.join(swapped)} -> {rest.strip()}")
    turned = [name.removesuffix("^T") if name.endswith("^T") else f"{name}^T" for name in names]
    other.append(f"{', '.join(turned)} -> {rest.strip()}")
    for one, another in (("0", "1"), ("1", "0")):
        if re.search(rf"axis\s*=\s*{one}", text):
            other.append(re.sub(rf"axis\s*=\s*{one}", f"axis={another}", text))
    return other
