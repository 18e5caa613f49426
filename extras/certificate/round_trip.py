"""Round trips through the libraries' own files: twincheck certificate --round-trip.

    to_load/CASE/…         of the reference, read by the candidate        (library_loader.py)
    to_load/CASE/back/…    saved by the candidate, read by the reference: its own bits?
    to_load/CASE/own/…     marks of the candidate's own, saved by it, read by the reference, which
    to_load/CASE/again/…   saves them; read by the candidate: its own bits?

The candidate saves in the reference's format by its library's own save_pretrained; where that
writes another, the workbench's own conversion stands in, and a note says so.  The parts are run
in this order: save (candidate), read (reference), compare (candidate).
"""

from pathlib import Path

from twincheck.common.pair.pairs import Case
from twincheck.common.sides.library_loader import Carrier, has_loader, layout_of, marked
from twincheck.common.system.errors import UserError
from twincheck.common.system.json_file import write_json
from twincheck.common.system.reasons import reasons_json
from twincheck.common.weights import states as weights
from twincheck.common.weights.marks import PASSES, Marks
from twincheck.common.weights.round_trip import same_bits
from twincheck.extras.certificate import Kind

BACK, OWN, AGAIN = "back", "own", "again"
_OF_REFERENCE = ("*.safetensors", "pytorch_model*.bin")  # what its loader reads
_STATE = "state.npz"  # torch-named, where the library's own folder is of another format


def round_trip(job) -> None:
    """Run one part of the round trip of every case, and leave what was found."""
    if not has_loader(job.pair):
        raise UserError(Kind.ROUND_TRIP_WITHOUT_LOAD(file=str(job.pair.folder / "case.py")))
    trip = _RoundTrip(job)
    for case in job.cases:
        getattr(trip, f"_{job.request.task.part}")(case)
    found = {"problems": trip.problems, "notes": dict.fromkeys(trip.notes)}
    told = {name: reasons_json(reasons) for name, reasons in found.items()}
    write_json(job.files.round_trip(job.request.task.part), told)


class _RoundTrip:
    def __init__(self, job):
        self.job = job
        self.side = job.side
        self.files = job.files
        self.carrier = Carrier(job)
        self.problems: list[str] = []
        self.notes: list[str] = []

    def _names(self, case: Case) -> list[str]:
        """The folders of a case: of one whose configuration another has too, its weights alone."""
        folder = self.files.to_load(case.name)
        kept = [name for name in map(marked, range(PASSES)) if (folder / name).is_dir()]
        return [*kept, "weights"]

    def _save(self, case: Case) -> None:
        """The candidate saves what it has read, and marks of its own."""
        folder = self.files.to_load(case.name)
        for name in self._names(case):
            self._save_one(case, self.carrier.loaded(case, name), folder / BACK / name)
        model = self.carrier.built(case)
        marks = Marks(self.side.owners(model), self.side.state(model))
        for i in range(PASSES):
            model = self.carrier.built(case)
            self.side.load_state(model, marks.state(i))
            self._save_one(case, model, folder / OWN / marked(i))

    def _save_one(self, case: Case, model, folder: Path) -> None:
        self.carrier.save(model, case, folder)
        if any(path for pattern in _OF_REFERENCE for path in folder.glob(pattern)):
            return
        self.notes.append(Kind.ROUND_TRIP_BY_CONVERSION())
        owners = weights.load_owners(self.files.weights(case.start))
        layout = layout_of(self.job, case, owners, self.side.owners(model))
        weights.save_state(folder / _STATE, layout.to_torch(self.side.state(model)))

    def _read(self, case: Case) -> None:
        """The reference reads both, compares what was its own, and saves the other's marks."""
        folder = self.files.to_load(case.name)
        state = self.job.states.load(self.files.weights(case.start), may_be_empty=True)
        owners = weights.load_owners(self.files.weights(case.start))
        names = self._names(case)
        for path in [*(Path(BACK, name) for name in names), *(Path(OWN, n) for n in names[:-1])]:
            self._restore(case, folder / path)
        if len(names) > 1:
            marks = Marks(owners, state)
            loaded = self.carrier.traced(case, marks, owners, BACK)
            self._tell("torch, Paddle, torch", [*loaded.problems, *loaded.departures(marks)])
            for i in range(PASSES):
                model = self.carrier.loaded(case, Path(OWN, marked(i)))
                self.carrier.save(model, case, folder / AGAIN / marked(i))
        if not self.problems:
            found = self.side.state(self.carrier.loaded(case, Path(BACK, names[-1])))
            other = [k for k, v in state.items() if k not in found or not same_bits(found[k], v)]
            problems = [Kind.ROUND_TRIP_OTHER_BITS(key=key) for key in other]
            self._tell("torch, Paddle, torch", problems)

    def _restore(self, case: Case, folder: Path) -> None:
        """Write the folder where the candidate has left a state for want of one."""
        if (folder / _STATE).is_file():
            model = self.carrier.built(case)
            self.side.load_state(model, weights.load_state(folder / _STATE))
            self.carrier.save(model, case, folder)

    def _compare(self, case: Case) -> None:
        """The candidate reads its own marks again."""
        if len(self._names(case)) > 1:
            model = self.carrier.built(case)
            owners = self.side.owners(model)
            marks = Marks(owners, self.side.state(model))
            loaded = self.carrier.traced(case, marks, owners, AGAIN)
            self._tell("Paddle, torch, Paddle", [*loaded.problems, *loaded.departures(marks)])

    def _tell(self, way: str, problems: list[str]) -> None:
        self.problems += [Kind.ROUND_TRIP_PROBLEM(way=way, problem=one) for one in problems]
