"""What the torch side has chosen to suit a model, in a file by which the Paddle side goes.

    suited_torch.json   {"noise": …, "rates": …, "given_gradients": …}, as in a sidecar: how much
                        noise perturbed weights have (case -> level), the factors of step 4's
                        learning rates, its set-ups that take given gradients, and the cases for
                        train mode that need not run, or cannot ("modes")

NumPy only and the same on both sides.
"""

from collections.abc import Sequence
from pathlib import Path

from common.logs import entry_kinds as kinds
from common.logs.result_folder import ResultFolder
from common.system.errors import UserError
from common.system.json_file import load_json, write_json

_KINDS = {
    "noise": kinds.NOISES,
    "rates": kinds.FACTORS,
    "given_gradients": kinds.GIVEN,
    "modes": kinds.NAMED_TEXTS,
}


class Unsuited(Exception):
    """The float64 run must be made again: float32 has shown that what was chosen does not suit."""


class Suited:
    """The choices of one model's run; empty where the torch side has left none."""

    def __init__(self, folder: Path, new: bool = False):
        """`new` forgets what a former run has left in the folder."""
        self._path = ResultFolder(folder).suited()
        entries = load_json(self._path) if self._path.is_file() and not new else {}
        for name, kind in _KINDS.items():
            if not kind.fits(entries.get(name, {})):
                raise UserError(f"{self._path}: refused: its {name} is not {kind.name}")
        self.noise: dict[str, dict] = entries.get("noise", {})  # case -> level, because
        self.rates: dict[str, dict] = entries.get("rates", {})  # case -> set-up -> factor, because
        # case -> values of its parameters, set-ups
        self.given: dict[str, dict] = entries.get("given_gradients", {})
        # case for train mode -> why it does not run; empty where it does
        self.modes: dict[str, str] = entries.get("modes", {})
        if new:
            self._write()

    def choose_noise(self, case: str, level: float, because: str) -> None:
        """Keep how much noise a case's weights have, and why it is not the usual."""
        self.noise[case or "main"] = {"level": level, "because": because}
        self._write()

    def choose_rate(self, case: str, setup: str, factor: float, because: str) -> None:
        """Keep the factor on the learning rates of a set-up, and why it is not 1."""
        self.rates.setdefault(case or "main", {})[setup] = {"factor": factor, "because": because}
        self._write()

    def choose_given(self, case: str, values: int, setups: Sequence[str]) -> None:
        """Keep which set-ups take given gradients, and how many values the parameters have."""
        self.given[case or "main"] = {"values": values, "setups": list(setups)}
        self._write()

    def choose_mode(self, case: str, why_not: str) -> None:
        """Keep why a case for train mode does not run; empty where it does."""
        self.modes[case] = why_not
        self._write()

    def factor(self, case: str, setup: str) -> float | None:
        """The factor that was chosen; None where none was."""
        return self.rates.get(case or "main", {}).get(setup, {}).get("factor")

    def _write(self) -> None:
        chosen = {"noise": self.noise, "rates": self.rates, "given_gradients": self.given}
        chosen["modes"] = self.modes
        write_json(self._path, chosen)
