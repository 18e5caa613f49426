"""A log's sidecar: the .json beside it that says who wrote it, from what and how.

Whoever sends a log writes its sidecar, so that every entry is checked on the way in; and on the way
out too, so that what a worker writes and what a check reads cannot drift apart.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, get_args, get_origin

from twincheck.common.logs import entry_kinds as kinds
from twincheck.common.system.errors import LogError, UserError
from twincheck.common.system.files import LastRead, version_of
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.json_kinds import check_of
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import printable

SCHEMA = 1
# What the numbers 0, 1, … of a layer's setting stand for.
IN_WORDS = {
    "tanh form": ("off", "on"),
    "padding mode": ("zeros", "reflect", "replicate", "circular"),
}


def setting_text(name: str, value: float) -> str:
    """A layer's setting as it is spoken of."""
    return dict(enumerate(IN_WORDS.get(name, ()))).get(value, f"{value:g}")


def note():
    """An entry that is written only where there is something to say."""
    return field(metadata={"note": True})


def _by_types(cls: type) -> type:
    """Give each field what it holds where the sidecar does not say: of its type, or None."""
    for name, of in cls.__annotations__.items():
        metadata = getattr(cls, name, field()).metadata
        base = get_args(of)[0] if get_origin(of) is Annotated else get_origin(of) or of
        absent = base if base in (list, dict, float) else lambda: None
        setattr(cls, name, field(default_factory=absent, metadata=metadata))
    return cls


@dataclass(frozen=True, kw_only=True)
@_by_types
class Sidecar:
    """The record of who made a log, from what and how; None or empty where it does not say.

    The fields are the entries of the JSON, in its order.
    """

    schema: int | None  # the version of this format
    # The stem of the log's name: forward_all, loss_all, train_full, …, or of a pair's: forward, …
    step: str | None
    model: str | None  # the pair's name
    side: str | None  # torch or paddle: the reference's or the candidate's
    framework: str | None  # the framework that the script used
    framework_version: str | None
    framework_file: str | None  # the file that the framework was imported from
    frameworks_loaded: list[str]  # which of torch and paddle the process held when it had finished
    # Which of the two had their compiled code in the process, whatever modules were called.
    framework_kernels: list[str] = note()
    torch_is_paddle: bool | None  # true where Paddle answered to `import torch`
    device: str | None  # cpu or gpu
    dtype: str | None  # float64, or what is judged beside it: float32, bfloat16 or float16
    preset: str | None  # the name of the pair's configuration
    # True for a pair of the workbench's own, whose sides are one text: every probe decides.
    built_in: bool | None
    # --against and --candidate, where they are not torch and paddle: what computed the two sides.
    against: str | None = note()
    candidate: str | None = note()
    seed: int | None  # --seed
    mode: str | None  # --mode: eval, train or both
    # Case -> the mode that it ran in; of one for train mode that did not run, why not.
    modes: dict[str, str]
    weights: str | None  # --weights as it was given, or "initial"
    sources: dict[str, str]  # the pair's Python file -> its SHA-256
    workbench_sha256: str | None  # one hash of the workbench's own files that the log depends on
    inputs_sha256: str | None  # one hash of all inputs
    weights_sha256: str | None  # one hash of all weights, under torch's names
    log_sha256: str | None  # the hash of the log itself
    # One hash of the log's hash and of who made it (`seal`): the two belong together.
    seal: str | None = note()
    flips: list[str]  # keys of the choices that fell otherwise than the recorded ones
    # Key of a choice -> {"margin": the key of its margins, "scores": that of its scores, "places":
    # that of which scores these are, where they are not all}.
    choices: dict[str, dict[str, str]]
    teacher_forced: bool | None  # whether each module was fed the reference's values
    # Prefix of a case's keys -> the length of its batch axis, null where its inputs have none.
    batches: dict[str, kinds.Length | None]
    modules: dict[str, int]  # probed module, by torch's name -> how many parameters it holds
    converted: list[str]  # modules whose weights case.py's `convert` fuses or splits
    places: dict[str, str]  # key -> file:line that computed it
    # Key -> the class of its module, with OWN, CHOICE and IN_PLACE as below.
    classes: dict[str, str]
    # A layer of the framework -> what it was built with, such as its epsilon, as torch counts it.
    settings: dict[str, dict[str, float]] = note()
    made: dict[str, str] = note()  # the same -> file:line that built it
    # Case -> parameter, by this side's own name -> what owns it (steps 1 and 5).
    owners: dict[str, dict[str, kinds.Owner]] = note()
    # The same -> that line and those of the calls that led there, outwards, each with the numbers
    # that the function around it was given.
    handed: dict[str, list[kinds.Handed]] = note()
    # A user's file -> its functions that were called -> their lines that no run of the request ran.
    not_run: dict[str, dict[str, list[int]]] = note()
    idle: dict[str, str] = note()  # dropout whose rate is 0 in training -> file:line
    # Python, NumPy, the platform and the settings that a result's last bits may depend on.
    environment: dict[str, str]
    command: str | None  # how the worker was started
    time: str | None  # when it ended
    elapsed_s: float  # how long this log took to make
    # Case -> where each weight goes (Paddle's side).
    certificate: dict[str, kinds.Layout] = note()
    # Case -> what was proven of the libraries' own loaders, where they carry the weights.
    loader: dict[str, str] = note()
    # Case -> Paddle's names of weights that change their bits on the way to torch and back.
    paddle_to_torch: dict[str, list[str]] = note()
    # Case -> torch's names of embeddings whose padding row is not 0.
    hidden_rows: dict[str, list[str]] = note()
    # Case -> torch's names of weights that came out of the model with other bits.
    read_back: dict[str, list[str]] = note()
    # Of measured noise: prefix of a case's keys and the set-up -> its runs with float32's rounding.
    moved: dict[str, int] = note()
    # Of measured noise: key -> in how many of its runs a number became NaN or infinite.
    lost: dict[str, int] = note()
    # Case -> the random numbers that the model drew by itself and got from the tape.
    draws: dict[str, list[kinds.Passes]] = note()
    # Case -> its dropouts; the site is the label of their numbers, by the reference's names.
    dropouts: dict[str, list[kinds.Passes]] = note()
    # Case -> true where the model drew random numbers that the tape does not know.
    untaped_draws: dict[str, bool] = note()
    # Case -> torch's name of the logits' bias, null where there is none (step 4).
    last_bias: dict[str, str | None] = note()
    # Case -> what checks its gradient without the other side (step 4).
    witness: dict[str, kinds.Witness] = note()
    # Case with perturbed weights -> how much noise they have: 1 is the usual, and why it is less.
    noise: dict[str, kinds.Noise] = note()
    # Case -> optimizer set-up -> the factor on its learning rate, and why it is not 1 (step 4).
    rates: dict[str, dict[str, kinds.Factor]] = note()
    # Case of a large model -> the optimizer set-ups that took given gradients without running it,
    # and how many values its parameters have (step 4).
    given_gradients: dict[str, kinds.Given] = note()
    steps_per_epoch: dict[str, int] = note()  # case -> how many steps an epoch has (step 5)
    optimizer: dict[str, str] = note()  # case -> the optimizer of its training (step 5)
    cases: list[str] = note()  # the cases that ran, where --case left out others
    # The patterns of the only modules that were looked at, as --probe gave them.
    probes: list[str] = note()
    no_probe: bool | None = note()  # whether no module was looked at
    transplanted: list[str] = note()  # operators that torch computed on the Paddle side
    # Of those, operator -> how often Paddle's own result had other bits.
    operators: dict[str, kinds.Tally] = note()
    # file:line of a model -> a cast to float32 or less, or what is made so -> how often it was
    # float64 instead, in a float64 run.
    upcast: dict[str, dict[str, int]] = note()
    # Hash of a table that NumPy has made in float32, which a float64 run therefore has so -> the
    # line that makes a tensor of it; of the candidate, the buffer or attribute rounded likewise.
    tables: dict[str, str] = note()
    # Module -> operator and the types of its floats -> calls, of a run in half precision.
    computed: dict[str, dict[str, int]] = note()
    # Whose arithmetic that was: the framework's own kernels, or what stood in for them.
    kernels: str | None = note()
    # Whether it was the framework's own mixed precision, with weights in float32.
    autocast: bool | None = note()
    # Key of a running variance that was given n / (n - 1), as torch keeps it -> n, what the model
    # itself holds, and what was compared (means over the channels).
    variances: dict[str, kinds.Variance] = note()
    # Module -> operator of Paddle in it that is inexact in float64 -> how far off it is.
    inexact: dict[str, dict[str, float]] = note()
    # Module -> operator of Paddle that computes something else there than its definition -> result
    # or gradient -> how far off it is.
    wrong: dict[str, dict[str, dict[str, float]]] = note()
    exact: bool | None = note()  # whether these were computed exactly
    # Key -> the shape of its tensor, of which the log holds a sample and sums only.
    sums: dict[str, kinds.Shape] = note()
    # Keys of large tensors of booleans, which the log holds in a byte each, not in eight.
    booleans: list[str] = note()
    # Case whose inputs the check has varied -> what was left out of that, and why.
    varied: dict[str, str] = note()
    # Case -> keys of what the model returned, in the order of its outputs (step 1).
    outputs: dict[str, list[str]] = note()
    # Case -> way of generating and prompt -> how far each token's logits are from the plain loop's,
    # or the ids that the library wrote (extras/generation/decoding.py).
    generated: dict[str, dict[str, list[kinds.Number]]] = note()
    # Case -> ways of generating that its model does not have, and why.
    left_out: dict[str, list[str]] = note()
    # Case -> way of generating -> with what error it ended.
    failed: dict[str, dict[str, str]] = note()
    # Of a log of the guide's pair: the full log that its values were selected from, that log's
    # hash, and the pair's key -> the full log's (common/logs/guide_pair.py).
    selected: kinds.Selection = note()
    # Keys of values that modules were not fed: the other side has none, or means something else.
    not_forced: list[str] = note()
    no_float64: str | None = note()  # why there is no float64 log

    def as_json(self) -> dict[str, object]:
        """The entries to write, in the fields' order."""
        entries = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value is not None and (value or not entry.metadata.get("note")):
                entries[entry.name] = value
        return entries

    @property
    def backend(self) -> str:
        """Return the backend that computed the log, one of BACKENDS."""
        asked = self.candidate if self.side == "paddle" else self.against
        return asked or str(self.framework)

    @property
    def sealed(self) -> bool:
        """True where the log's hash and its maker were written together, as workers do."""
        return self.seal is not None and self.seal == seal(self)

    @classmethod
    def from_json(cls, content: Mapping[str, object], name: object) -> "Sidecar":
        """Read a sidecar from a JSON object; unknown entries are passed over, null is nothing.

        Raises UserError for the first entry of another kind than its own, or for another schema.
        """
        entries = {e: value for e, value in content.items() if e in _CHECKS and value is not None}
        for entry, value in entries.items():
            if not _CHECKS[entry](value):
                plain = not isinstance(value, dict | list)
                shown = printable(repr(value)) if plain else Kind.OTHER_VALUES()
                raise UserError(
                    Kind.SIDECAR_ENTRY_REFUSED(path=str(name), entry=entry, value=shown)
                )
        schema = entries.get("schema", SCHEMA)
        if schema != SCHEMA:
            said = {"path": str(name), "found": schema, "known": SCHEMA}
            raise UserError(Kind.SIDECAR_SCHEMA_OTHER(**said))
        return cls(**entries)


_CHECKS = {name: check_of(of) for name, of in Sidecar.__annotations__.items()}


def seal(sidecar: Sidecar) -> str:
    """A SHA-256 of the log's hash and of who made it; another log's hash put in beside breaks it.

    It tells mistakes, not fraud: whoever can write a sidecar can seal it.
    """
    made = (sidecar.framework, sidecar.framework_file, sidecar.command, sidecar.log_sha256)
    return hashlib.sha256(json.dumps(made).encode()).hexdigest()


def together_not_run(
    parts: Iterable[Mapping[str, Mapping[str, Sequence[int]]]],
) -> dict[str, dict[str, list[int]]]:
    """Return file -> function -> lines that none of these has run of those who called it."""
    found: dict[str, dict[str, list[int]]] = {}
    for part in parts:
        for file, functions in part.items():
            former = found.setdefault(file, {})
            for name, lines in functions.items():
                former[name] = sorted({*lines} & {*former.get(name, lines)})
    return found


def places_of_scores(sidecar: Sidecar) -> set[str]:
    """Keys of a log that say which scores it keeps of its choices: no tensors of the model's."""
    return {parts["places"] for parts in sidecar.choices.values() if "places" in parts}


def sidecar_path(log_path: str | os.PathLike) -> Path:
    """Return the path of a log's sidecar: the same stem, .json."""
    return Path(log_path).with_suffix(".json")


def write_sidecar(log_path: str | os.PathLike, sidecar: Sidecar) -> Path:
    """Write who made a log beside it; raises UserError for what read_sidecar would refuse."""
    path = sidecar_path(log_path)
    entries = sidecar.as_json()
    Sidecar.from_json(entries, path)
    write_json(path, entries)
    return path


def note_not_forced(log_path: str | os.PathLike, keys: Iterable[str]) -> None:
    """Add to a log's sidecar which of the reference's values its run was not fed."""
    write_sidecar(log_path, replace(read_sidecar(log_path), not_forced=sorted(keys)))


_read = LastRead()


def read_sidecar(log_path: str | os.PathLike) -> Sidecar | None:
    """Read a log's sidecar; return None where there is none.

    Raises LogError where it cannot be read, or says something of another kind than it should.
    """
    path = sidecar_path(log_path)
    if not os.path.lexists(path):
        return None
    version = None
    with suppress(OSError):  # load_json says what is wrong
        version = version_of(path.stat())
    if version in _read:
        return _read[version]
    try:
        sidecar = Sidecar.from_json(load_json(path), path)
    except UserError as error:
        raise LogError(Kind.SIDECAR_UNREADABLE(error=error.args[0])) from None
    _read.keep(version, sidecar)
    return sidecar


def sidecar_of(log_path: str | os.PathLike) -> Sidecar:
    """Read a log's sidecar; return one that says nothing where there is none."""
    return read_sidecar(log_path) or Sidecar()


# In `classes`, before the class of a model's own modules: the other side need not have them.
OWN = "own"

CHOICE = f"{OWN} choice"  # of a choice that nobody asked for by name

# Behind the class of a module that writes into its input: that tensor's gradient is not logged.
IN_PLACE = "in place"
