"""What the workers of a step are given, brought into the working folder: weights, data, logs."""

import shutil
import traceback
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from twincheck.common.check.options import CheckOptions
from twincheck.common.check.reuse import (
    differing_reference,
    find_reference,
    reference_key,
    why_not_reused,
)
from twincheck.common.check.steps import Step
from twincheck.common.check.unfinished import Unfinished
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair import sources
from twincheck.common.pair.case_hooks import (
    ENTRIES_FILE,
    SAMPLES,
    SOURCE_FILE,
    TEXT,
    data_preset,
    make_data,
    reads_file,
)
from twincheck.common.pair.data import TEXT_BYTES, TEXT_COUNT, save_arrays, text
from twincheck.common.pair.pairs import TRAIN, Pair, chosen_cases, is_checkpoint
from twincheck.common.pair.sentencepieces import MODEL, find_model, load_processor
from twincheck.common.pair.worker_process import Failure
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import link_or_copy
from twincheck.common.system.json_file import write_json
from twincheck.common.system.reasons import Kind
from twincheck.common.weights import checkpoint


@dataclass
class Inputs:
    """The inputs of one step's workers, for every model; what cannot be brought is an error."""

    step: Step
    options: CheckOptions
    pythons: dict[str, str]  # side -> the Python that runs it
    work: Path
    on_progress: Callable[..., None]  # takes a text, and the share of the work that is done
    unfinished: Unfinished  # where checkpoints of trainings go
    brought: set[str] = field(default_factory=set)  # models whose torch logs were taken over
    # Model -> what to say of its weights, data and logs.
    notes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    errors: dict[str, Failure] = field(default_factory=dict)  # model -> why it cannot be run
    published: Path | None = None  # what the workers read of a checkpoint

    @property
    def data(self) -> Path:
        """The folder in which each model's data have a folder."""
        return self.work / "data"

    def bring(self, pairs: list[Pair], base: Path) -> list[Pair]:
        """Bring everything for every pair; returns the pairs with their checkpoint's configuration.

        base    where the last check's results are
        """
        pairs = self.bring_weights(pairs)
        run = self.options.run
        for pair in pairs if run.cases else ():
            cases = pair.cases(run.preset, run.weights, run.modes, self.step.decodes)
            chosen_cases(cases, run.cases)
        for pair in pairs:
            if pair.hides_built_in:
                self.notes[pair.name].append(Kind.BUILT_IN_HIDDEN(folder=str(pair.folder)))
            if pair.name not in self.errors and self.make_data(pair):
                self.bring_reference(pair, base / pair.name)
        return pairs

    def bring_weights(self, pairs: list[Pair]) -> list[Pair]:
        """Read the checkpoint that --weights names, if it names one, for every pair."""
        run = self.options.run
        if not is_checkpoint(run.weights):
            return pairs
        self.published = self.work / checkpoint.FOLDER
        configured = []
        for pair in pairs:
            preset = data_preset(pair, run.preset) if self.step.data else run.preset
            self.on_progress(Kind.READING_WEIGHTS(model=pair.name))
            try:
                pair, contents = checkpoint.prepare(
                    *(pair, run.weights, preset, run.modes == TRAIN, self.pythons, self.work),
                )
                self.notes[pair.name] = contents.notes
            except UserError as error:
                self.errors[pair.name] = _failure(error)
            configured.append(pair)
        return configured

    def make_data(self, pair: Pair) -> bool:
        """Write what a pair's make_data gives as files that both sides read; False where it fails.

        Every step but 2 and 5 does without.
        """
        if not self.step.data:
            return True
        folder = self.data / pair.name
        preset = data_preset(pair, self.options.run.preset)
        try:
            self.tokenizer(pair, preset, folder)
            if reads_file(pair, preset):
                self.read_data(pair, preset, folder)
                return True
            parts = make_data(pair, preset, self.options.run.seed, self.options.data)
        except UserError as error:
            self.errors[pair.name] = _failure(error)
            return False
        files: dict[str, dict] = {}
        for part, arrays in parts.items():
            stem, prefix = (TEXT, "") if part == TEXT else (SAMPLES, f"{part}/")
            files.setdefault(stem, {}).update({f"{prefix}{k}": v for k, v in arrays.items()})
        for stem, arrays in files.items():
            save_arrays(folder / f"{stem}.npz", arrays)
        return True

    def read_data(self, pair: Pair, preset: str, folder: Path) -> None:
        """Put the data of a preset that reads a file into `folder`, and step 2's texts."""
        data, seed = self.options.data, self.options.run.seed
        model = find_model(self.options.tokenizer)
        made = sources.prepare(pair, preset, data, seed, model, self.on_progress)
        folder.mkdir(parents=True, exist_ok=True)
        link_or_copy(made.file, folder / f"{SAMPLES}.npz")
        settings = sources.source_settings(pair, preset)
        if sources.source_of(settings).has_text:
            save_arrays(folder / f"{TEXT}.npz", text(count=TEXT_COUNT, max_bytes=TEXT_BYTES))
        origin = data or sources.default_file(settings)
        if origin:  # for a third opinion on what was read
            write_json(folder / SOURCE_FILE, {"path": str(origin.absolute())})
        if made.entries:
            write_json(folder / ENTRIES_FILE, made.entries)
        self.notes[pair.name] += made.notes

    def tokenizer(self, pair: Pair, preset: str, folder: Path) -> None:
        """Put the SentencePiece model of --tokenizer where both sides find it."""
        cuts_text = reads_file(pair, preset) and sources.takes_tokenizer(pair, preset)
        model = find_model(self.options.tokenizer)
        if model is not None:
            if not (self.step.tokenizes or cuts_text or self.options.shared):
                raise UserError(Kind.TOKENIZER_WITHOUT_TEXT(preset=preset, model=pair.name))
            load_processor(model)  # a sentence now, and not from two processes
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(model, folder / MODEL)

    def bring_reference(self, pair: Pair, former: Path) -> None:
        """Take over the torch side's logs, where asked for; else note what they will depend on.

        former  the folder of the last check's logs
        """
        folder = self.work / pair.name
        folder.mkdir()
        notes = self.notes[pair.name]
        notes += self.unfinished.claim(pair) if self.step.trains else []
        if self.options.reference:
            found = find_reference(self.options.reference.absolute(), self.step, pair)
            notes += filter(None, [differing_reference(found, pair)])
        else:
            data = self.data / pair.name
            key = reference_key(self.step, pair, self.options.run, self.pythons["torch"], data)
            write_json(ResultFolder(folder).reference_key(), key)
            if not self.options.reuse:
                return
            if why := why_not_reused(former, key):
                notes.append(Kind.TORCH_RUN_AGAIN(why=why))
                return
            notes.append(Kind.TORCH_LOGS_KEPT())
            found = former
        ResultFolder(found).take_over(folder)
        self.brought.add(pair.name)


def _failure(error: UserError) -> Failure:
    return Failure(str(error), "".join(traceback.format_exception(error)))
