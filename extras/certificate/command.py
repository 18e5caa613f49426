"""Certify that the Paddle model holds the torch model's weights, all of them.

    twincheck certificate --model NAME|FOLDER [--preset NAME] [--weights PATH] [--json FILE]
        [--round-trip]

Both sides run step 1 once.  The table has a line an entry: torch key, Paddle key, kind of layer,
what is done to the values (transposed, rows of a fused weight, convert), further names of the same
tensor, and what was found:

    read back   the values, taken out of the loaded Paddle model and converted to torch, have the
                same bits; so have the Paddle model's own initial values on a way to torch and back
    probe       the layer's inputs and outputs agree, in its place in the model

Below it stands what one side alone has, or ties alone.  Weights are `perturbed` unless
--weights says otherwise: as initialised, biases are 0, gains 1 and running statistics 0 and 1, and
swapped ones would not show.

--round-trip: where the libraries' own loaders carry the weights (case.py's `load`), what the Paddle
library has read it saves too, in the reference's format, and the reference must read its own bits
out of that; and the other way round, Paddle, torch, Paddle.  Both ways are proven by marks.

The certificate is kept in step1_forward/log/certificate/MODEL/certificate.json.

Exit status: 0 certified, 1 not, 2 it could not be found out.
"""

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from twincheck.common.check.options import CheckOptions, Parser
from twincheck.common.logs.result_folder import CERTIFICATE_FILE, ResultFolder
from twincheck.common.logs.sidecar import Sidecar, sidecar_of
from twincheck.common.pair.pairs import EVAL, Pair, is_checkpoint, load_pairs, python_for
from twincheck.common.pair.request import RunRequest
from twincheck.common.pair.task import ROUND_TRIP, RoundTrip, TeacherForced
from twincheck.common.pair.worker_process import Failure, WorkerProcess
from twincheck.common.report import terminal as report
from twincheck.common.system.checkout import for_logs
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import in_language, of_pairs
from twincheck.common.system.files import write_text
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.program import guarded
from twincheck.common.system.reasons import read_reason, reasons_json
from twincheck.common.system.run_kind import RunKind
from twincheck.common.verdict.judge import judge_logs
from twincheck.common.verdict.row import HARMLESS, Row, exit_code, worst
from twincheck.common.weights.checkpoint import FOLDER, Checkpoint, prepare
from twincheck.common.weights.layout import BIASED, UNBIASED
from twincheck.common.weights.loaded import LOADED
from twincheck.extras.certificate import Kind
from twincheck.extras.shared.made_by import made_by

# Where each certificate is kept, for `twincheck pr-report`.
OUT = for_logs() / "step1_forward" / "log" / "certificate"
NOT_REACHED = Kind.NOT_REACHED()
_VARIANCES = {UNBIASED: Kind.VARIANCE_UNBIASED, BIASED: Kind.VARIANCE_BIASED}


@dataclass
class Certificate:
    """The pairing of one model's entries, and what was measured of each."""

    model: str
    rows: list[dict] = field(default_factory=list)  # one a Paddle tensor
    only_torch: list[str] = field(default_factory=list)
    only_paddle: list[str] = field(default_factory=list)
    without_partner: dict[str, str] = field(default_factory=dict)  # key -> why it needs none
    problems: list[str] = field(default_factory=list)  # sentences
    notes: list[str] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)  # key of a checkpoint -> why passed over
    filled: dict[str, str] = field(default_factory=dict)  # key -> its name in the checkpoint
    round_trip: bool | None = None  # whether both ways gave the same bits; None: not gone
    made_by: dict[str, object] = field(default_factory=dict)  # what the sides' sidecars say

    @property
    def exit_code(self) -> int:
        """0 certified, 1 not; no entry at all is 2."""
        if not (self.rows or self.only_torch or self.only_paddle or self.problems):
            return 2
        return 1 if self.problems or self.only_torch or self.only_paddle else 0

    def as_json(self) -> dict[str, object]:
        """Everything, for --json."""
        told = {name: value for name, value in vars(self).items() if name != "made_by"}
        told |= {"certified": self.exit_code == 0, "exit_code": self.exit_code}
        told["reasons"] = reasons_json([*self.problems, *self.notes])
        return {**told, **self.made_by}


@of_pairs()
def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module's docstring.  Returns the exit status."""
    parser = Parser(__doc__, "certificate")
    parser.take("model", "preset", "device", "seed").take_other(
        "weights", default="perturbed", help=Kind.OPTION_WEIGHTS()
    )
    parser.add_argument("--round-trip", action="store_true", help=Kind.OPTION_ROUND_TRIP())
    options = parser.take("torch-python", "paddle-python", "json", "debug").parse_args(arguments)
    return guarded(options.debug, lambda: _certify(options))


def _certify(options) -> int:
    asked = CheckOptions.of(options)
    run = replace(asked.run, mode=EVAL)  # weights are the same in both
    pairs = load_pairs(asked.models)
    for pair in pairs:
        pair.config(run.preset)
    folder = tempfile.TemporaryDirectory(prefix="certificate-")
    with folder as name, report.progress() as on_progress:
        certificates = certify(
            pairs, run, asked.pythons, Path(name), on_progress, options.round_trip
        )
    for certificate in certificates:
        show(certificate)
        path = OUT / certificate.model / CERTIFICATE_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"schema": 1, **certificate.as_json()})
    if options.json:
        text = json.dumps([certificate.as_json() for certificate in certificates], indent=1)
        write_text(options.json, text)
    return max(certificate.exit_code for certificate in certificates)


def certify(
    pairs: list[Pair],
    run: RunRequest,
    pythons: Mapping[str, str | None],
    work: Path,
    on_progress,
    round_trip: bool = False,
) -> list[Certificate]:
    """Run step 1 of both sides for the pairs, into `work`, and certify each.

    run          the request to both sides, but for the model
    pythons      side -> the Python that the user named for it, or None
    on_progress  called with what is running
    round_trip   also go both ways through the libraries' own files
    Raises UserError where a side fails for another reason than that the weights do not match.
    """
    pythons = {side: python_for(side, pythons[side], pairs) for side in SIDES}
    checkpoints = {}
    if is_checkpoint(run.weights):
        for i, pair in enumerate(pairs):
            read = prepare(pair, run.weights, run.preset, False, pythons, work)
            pairs[i], checkpoints[pair.name] = read
        run = replace(run, published=str(work / FOLDER))
    keep = "all" if round_trip else run.keep  # the folders of large models are read again
    run = replace(run, certify=True, progress=True, keep=keep)
    with _started("torch", pythons, run, on_progress) as torch:
        errors = _ask(torch, pairs, run, work)
    certificates = []
    off: list[Pair] = []  # pairs with values that differ: each of their modules is run by itself
    with _started("paddle", pythons, run, on_progress) as paddle:
        errors |= _ask(paddle, [pair for pair in pairs if pair.name not in errors], run, work)
        for pair in pairs:
            certificate = Certificate(pair.name)
            if pair.name in checkpoints:
                read_checkpoint(certificate, checkpoints[pair.name])
            certificates.append(certificate)
            failure = errors.get(pair.name)
            if failure and failure.certificate:
                read_layout(certificate, {"": failure.certificate})
            elif failure:
                raise UserError(Kind.SAID_OF(name=pair.name, said=failure.reason))
            elif not all(row.verdict in HARMLESS for row in _judged(work / pair.name)):
                off.append(pair)
        for exact in (False, True):  # without these, less is explained
            _ask(paddle, off, replace(run, task=TeacherForced(exact=exact)), work)
        if round_trip:
            loaded = [pair for pair in pairs if pair.name not in errors]
            _go_both_ways(paddle, loaded, pythons, run, work, on_progress)
    for pair, certificate in zip(pairs, certificates, strict=True):
        if pair.name not in errors:
            _read_logs(certificate, work / pair.name)
            if round_trip:
                _read_round_trip(certificate, work / pair.name)
    return certificates


def _go_both_ways(
    paddle: WorkerProcess,
    pairs: list[Pair],
    pythons: Mapping[str, str],
    run: RunRequest,
    work: Path,
    on_progress,
) -> None:
    """Let the sides save and read by turns; raises UserError where one cannot."""

    def ask(worker: WorkerProcess, part: str) -> None:
        for name, failure in _ask(worker, pairs, replace(run, task=RoundTrip(part)), work).items():
            raise UserError(Kind.SAID_OF(name=name, said=failure.reason))

    ask(paddle, "save")
    with _started("torch", pythons, run, on_progress) as torch:
        ask(torch, "read")
    ask(paddle, "compare")


def _read_round_trip(certificate: Certificate, folder: Path) -> None:
    """Take over what the sides found on both ways."""
    whole = True
    for part in ROUND_TRIP:
        found = load_json(ResultFolder(folder).round_trip(part))
        certificate.problems += map(read_reason, found["problems"])
        for note in map(read_reason, found["notes"]):
            _add(certificate.notes, note)
        whole &= not found["problems"]
    certificate.round_trip = whole
    if whole:
        certificate.notes.append(Kind.ROUND_TRIP_WHOLE())


def read_checkpoint(certificate: Certificate, checkpoint: Checkpoint) -> None:
    """Take over what was read of a checkpoint, passed over and filled in."""
    certificate.notes += checkpoint.notes
    certificate.ignored = checkpoint.ignored
    certificate.filled = checkpoint.filled


def _read_logs(certificate: Certificate, folder: Path) -> None:
    sidecars = {
        (side, run): sidecar_of(ResultFolder(folder).log("forward_all", side, run))
        for side in SIDES
        for run in (RunKind.PLAIN, RunKind.FLOAT64)
    }
    read_layout(certificate, sidecars["paddle", RunKind.PLAIN].certificate)
    told = {side: sidecars[side, RunKind.PLAIN] for side in SIDES}
    certificate.made_by = {
        **made_by(told),
        **{name: getattr(told["torch"], name) for name in ("preset", "seed", "weights")},
        "time": told["paddle"].time,
    }
    for told in sidecars["paddle", RunKind.PLAIN].loader.values():
        _add(certificate.notes, told)
    _read_back(certificate, sidecars)
    _read_probes(certificate, _judged(folder), sidecars["torch", RunKind.PLAIN])


def _started(side: str, pythons: Mapping[str, str], run: RunRequest, on_progress) -> WorkerProcess:
    return WorkerProcess(
        pythons[side], f"twincheck.step1_forward.{side}.forward", on_progress, run.device
    )


def _ask(
    worker: WorkerProcess, pairs: list[Pair], run: RunRequest, work: Path
) -> dict[str, Failure]:
    """Run step 1 of a side for some pairs; model -> why it failed."""
    for pair in pairs:
        worker.ask(replace(run, model=pair.model), work / pair.name / "request.json")
    failures = {pair.name: worker.failure() for pair in pairs}
    return {name: failure for name, failure in failures.items() if failure is not None}


def _judged(folder: Path) -> list[Row]:
    """The rows of step 1's logs in a folder."""
    return judge_logs(**ResultFolder(folder).judged_logs("forward_all")).rows


# ---- reading what the workers left ---------------------------------------------------------------


def read_layout(certificate: Certificate, cases: Mapping[str, dict]) -> None:
    """Take over every case's pairing, each line once."""
    rows: dict[tuple[str, str], dict] = {}
    for layout in cases.values():
        for row in layout["rows"]:
            if row["variance"]:
                _add(certificate.notes, _VARIANCES[row["variance"]](key=row["torch_key"]))
            rows.setdefault((row["torch_key"], row["paddle_key"]), row)
            if row["parameter_in_torch_alone"]:
                _add(certificate.problems, Kind.NO_PARAMETER(key=row["paddle_key"]))
            padding = dict(zip(SIDES, map(str, row["padding"]), strict=True))
            if padding["torch"] != padding["paddle"]:
                other = Kind.PADDING_OTHER(key=row["torch_key"], **padding)
                _add(certificate.problems, other)
        for name in ("only_torch", "only_paddle", "problems"):
            for sentence in layout[name]:
                _add(getattr(certificate, name), sentence)
        certificate.without_partner |= layout["without_partner"]
    certificate.rows = list(rows.values())


def _read_back(certificate: Certificate, sidecars: Mapping[tuple[str, str], Sidecar]) -> None:
    """Take over which entries came out of the loaded models with the same bits."""
    changed: set[str] = set()
    for (side, _), sidecar in sidecars.items():
        if not sidecar.read_back:
            raise UserError(Kind.READ_BACK_UNTOLD(model=certificate.model, side=side))
        for keys in sidecar.read_back.values():
            changed.update(keys)
    paddle = sidecars["paddle", RunKind.PLAIN]
    one_way = {key for keys in paddle.paddle_to_torch.values() for key in keys}
    for keys in paddle.hidden_rows.values():
        for key in keys:
            _add(certificate.problems, Kind.PADDING_ROW_HIDDEN(key=key))
    take_back(certificate, changed, one_way, Kind.READ_BACK_OTHER)


def take_back(certificate: Certificate, changed: set[str], one_way: set[str], other: Kind) -> None:
    """Take over which entries did not come back, and which do not survive the way to torch.

    changed   keys of torch; `other` says of one that its bits are others
    one_way   keys of Paddle
    """
    for row in certificate.rows:
        row["read_back"] = changed.isdisjoint([*row["torch_keys"], *row["also_in_torch"]])
        row["paddle_to_torch"] = row["paddle_key"] not in one_way
    certificate.problems += [other(key=key) for key in sorted(changed)]
    certificate.problems += [Kind.ONE_WAY(key=key) for key in sorted(one_way)]


def _read_probes(certificate: Certificate, rows: list[Row], sidecar: Sidecar) -> None:
    """Take over the worst verdict at each entry's layer; the root's rows are the outputs."""
    prefixes = sorted(sidecar.batches, key=len, reverse=True)
    sites = {row["probe"] for row in certificate.rows} - {""}
    rows_at: dict[str, list[Row]] = {}  # probe -> its rows
    for row in rows:
        prefix = next((p for p in prefixes if row.key.startswith(p)), "")
        rows_at.setdefault(_site(row.key[len(prefix) :], sites), []).append(row)
    for row in certificate.rows:
        probed = rows_at.get(row["probe"], [])
        row["probe_verdict"] = worst([r.verdict for r in probed]) if probed else NOT_REACHED
        row["probe_rows"] = len(probed)
    bad = [row for row in rows if exit_code([row.verdict])]
    first = next((row for row in bad if row.verdict != "CARRIED"), bad[0] if bad else None)
    if first is not None:
        differ = Kind.VALUES_DIFFER(count=len(bad), key=first.key, verdict=first.verdict)
        certificate.problems.append(differ)
    unseen = sorted({r["probe"] for r in certificate.rows if r["probe_verdict"] == NOT_REACHED})
    if unseen:
        certificate.notes.append(Kind.PROBES_NOT_REACHED(probes=unseen))


def _site(key: str, sites: set[str]) -> str:
    """The probe that a row belongs to; the root where it is none of `sites`."""
    name = re.split("[:#@]", key)[0]
    while name not in sites and "/" in name:
        name = name.rpartition("/")[0]
    return name if name in sites else ""


def _add(sentences: list[str], sentence: str) -> None:
    if sentence not in sentences:
        sentences.append(sentence)


# ---- showing it ---------------------------------------------------------------------------------


_HEADINGS = ("torch", "Paddle", Kind.COLUMN_LAYER(), Kind.COLUMN_VALUES(),
             Kind.COLUMN_ALSO_CALLED(), Kind.COLUMN_READ_BACK(), Kind.COLUMN_PROBE())  # fmt: skip


def show(certificate: Certificate) -> None:
    """The table, then notes, problems and the summary."""
    table = Table(title=Kind.CERTIFICATE(model=certificate.model), title_justify="left")
    for heading in _HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in certificate.rows:
        paddle_key = "=" if row["paddle_key"] == row["torch_key"] else row["paddle_key"]
        further = dict.fromkeys([*row["also_in_torch"], *row["also_in_paddle"]])
        others = [_on_sides(key, row) for key in further]
        back = row.get("read_back", False) and row.get("paddle_to_torch", False)
        verdict = row.get("probe_verdict", "–")
        table.add_row(
            escape(row["torch_key"]),
            escape(paddle_key),
            row["kind"] if row["parameter"] else Kind.BUFFER(layer=row["kind"]),
            escape(row["change"]),
            escape(", ".join(others)) or "–",
            Kind.SAME_BITS() if back else _red(Kind.OTHER_BITS()) if "read_back" in row else "–",
            f"[{report.COLOURS.get(verdict, 'yellow')}]{in_language(verdict)}[/]",
        )
    for side, keys in (("torch", certificate.only_torch), ("Paddle", certificate.only_paddle)):
        for key in keys:
            cells = [escape(key), _red(Kind.NO_PARTNER())]
            table.add_row(*(cells if side == "torch" else cells[::-1]), "", "", "", "", "")
    for key, reason in certificate.without_partner.items():
        table.add_row(escape(key), "–", "", Kind.NEEDS_NO_PARTNER(reason=reason), "", "", "")
    for key, reason in certificate.ignored.items():
        passed = escape(in_language(Kind.PASSED_OVER(reason=reason)))
        table.add_row(escape(key), "–", "", passed, "", "", "")
    report.show_table(table)
    for note in certificate.notes:
        report.say(Kind.SAID_OF(name=certificate.model, said=note))
    for problem in certificate.problems:
        report.say(Kind.PROBLEM_OF(name=certificate.model, problem=problem))
    report.say(Kind.SAID_OF(name=certificate.model, said=summary(certificate)))


def _red(reason: str) -> str:
    """A cell of a table."""
    return f"[red]{in_language(reason)}[/red]"


def _on_sides(key: str, row: Mapping[str, list[str]]) -> str:
    """A further name of a tensor, with the side where one side alone has it."""
    if key not in row["also_in_paddle"]:
        return f"{key} (torch)"
    return key if key in row["also_in_torch"] else f"{key} (Paddle)"


def summary(certificate: Certificate) -> str:
    """The result in one sentence."""
    if certificate.exit_code:
        alone = len(certificate.only_torch) + len(certificate.only_paddle)
        return Kind.NOT_CERTIFIED(problems=len(certificate.problems), alone=alone)
    rows = certificate.rows
    parts = {
        Kind.COUNT_TRANSPOSED: sum(row["transposed"] for row in rows),
        Kind.COUNT_CUT: sum(
            "rows" in row["change"] or row["change"] in ("convert", LOADED) for row in rows
        ),
        Kind.COUNT_TIED: sum(bool(row["also_in_torch"]) for row in rows),
        Kind.COUNT_BUFFERS: sum(not row["parameter"] for row in rows),
    }
    counts = [kind(count=count) for kind, count in parts.items() if count]
    counts = Kind.COUNTS(counts=counts) if counts else ""
    tried = {row["probe"] for row in rows if row.get("probe_verdict", NOT_REACHED) != NOT_REACHED}
    probed = Kind.LAYERS_PROBED(count=len(tried))
    tried = probed if "probe_verdict" in rows[0] else Kind.NO_LAYER_TRIED()
    return Kind.CERTIFIED(entries=len(rows), counts=counts, tried=tried)
