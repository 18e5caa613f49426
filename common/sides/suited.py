"""What the torch side has chosen to suit a model, in a file by which the Paddle side goes.

    suited_torch.json   {"noise": …, "rates": …, "given_gradients": …}, as in a sidecar: how much
                        noise perturbed weights have (case -> level), the factors of step 4's
                        learning rates, its set-ups that take given gradients, and the cases for
                        train mode that need not run, or cannot ("modes")

NumPy only and the same on both sides.
"""

from pathlib import Path

from twincheck.common.logs import entry_kinds as kinds
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.system.errors import UserError
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.json_kinds import check_of
from twincheck.common.system.reasons import Kind

_CHECKS = {
    name: check_of(of)
    for name, of in {
        "noise": dict[str, kinds.Noise],
        "rates": dict[str, dict[str, kinds.Factor]],
        "given_gradients": dict[str, kinds.Given],
        "modes": dict[str, str],
    }.items()
}


class Unsuited(Exception):
    """The float64 run must be made again: float32 has shown that what was chosen does not suit."""


class Suited:
    """The choices of one model's run; empty where the torch side has left none."""

    def __init__(self, folder: Path, new: bool = False):
        """`new` forgets what a former run has left in the folder."""
        self._path = ResultFolder(folder).suited()
        entries = load_json(self._path) if self._path.is_file() and not new else {}
        self._chosen = {name: entries.get(name, {}) for name in _CHECKS}
        for name, fits in _CHECKS.items():
            if not fits(self._chosen[name]):
                said = {"path": str(self._path), "entry": name, "value": Kind.OTHER_VALUES()}
                raise UserError(Kind.SIDECAR_ENTRY_REFUSED(**said))
        # case -> level, because; case -> set-up -> factor, because; case -> values of its
        # parameters, set-ups; case for train mode -> why it does not run, empty where it does
        self.noise, self.rates, self.given, self.modes = self._chosen.values()
        if new:
            write_json(self._path, self._chosen)

    def choose(self, what: str, case: str, chosen: dict | str) -> None:
        """Keep what was chosen for a case, under one of the file's names."""
        self._chosen[what][case or "main"] = chosen
        write_json(self._path, self._chosen)

    def choose_rate(self, case: str, setup: str, factor: float, because: str) -> None:
        """Keep the factor on the learning rates of a set-up, and why it is not 1."""
        of_case = self.rates.get(case or "main", {})
        self.choose("rates", case, of_case | {setup: {"factor": factor, "because": because}})
