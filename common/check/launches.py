"""The processes of one step: what each side is told, and what became of it."""

import shutil
import traceback
from pathlib import Path

from common.check.reuse import (
    differing_reference,
    find_reference,
    reference_key,
    why_not_reused,
    write_key,
)
from common.logs.result_folder import ResultFolder
from common.logs.sidecar import Sidecar, read_sidecar
from common.pair import sources
from common.pair.case_hooks import ENTRIES_FILE, SAMPLES, TEXT, data_preset, make_data, reads_file
from common.pair.data import TEXT_BYTES, TEXT_COUNT, save_arrays, text
from common.pair.pairs import WORDS, Pair
from common.pair.sentencepieces import MODEL, find_model, load_processor
from common.system.checkout import ROOT
from common.system.errors import UserError
from common.system.files import link_or_copy
from common.system.frameworks import SIDES
from common.system.json_file import load_json, write_json
from common.system.processes import Process, how_it_ended
from common.transplant.operators import SMALLEST
from common.weights import checkpoint


class Twins:
    """The processes of one step."""

    def __init__(self, step, options, pythons, work, on_progress, unfinished):
        self.step = step
        self.options = options
        self.pythons = pythons
        self.work = work
        self.on_progress = on_progress
        self.unfinished = unfinished  # where checkpoints go
        self.brought: set[str] = set()  # models whose torch logs were taken over
        self.notes: dict[str, list[str]] = {}  # model -> what to say of its weights, data and logs
        self.errors: dict[str, tuple[str, str]] = {}  # model -> (sentence, traceback)
        self.data = work / "data"
        self.published: Path | None = None  # what the twins read of a checkpoint

    def bring_weights(self, pairs: list[Pair]) -> list[Pair]:
        """Read the checkpoint that --weights names, if it names one, for every pair.

        Returns the pairs with its configuration; one that it does not fit has an error.
        """
        given = self.options.weights
        if not given or given in WORDS:
            return pairs
        self.published = self.work / checkpoint.FOLDER
        made = []
        for pair in pairs:
            options = self.options
            preset = data_preset(pair, options.preset) if self.step.data else options.preset
            self.on_progress(f"weights of {pair.name}")
            try:
                pair, found = checkpoint.prepare(
                    pair, given, preset, options.train, self.pythons, self.work
                )
                self.notes[pair.name] = found.notes
            except UserError as error:
                text = "".join(traceback.format_exception(error))
                self.errors[pair.name] = (str(error), text)
            made.append(pair)
        return made

    def make_data(self, pair: Pair) -> bool:
        """Write what a pair's make_data gives as files that both sides read; False where it fails.

        Every step but 2 and 5 does without.
        """
        if not self.step.data:
            return True
        folder = self.data / pair.name
        preset = data_preset(pair, self.options.preset)
        try:
            self.tokenizer(folder)
            if reads_file(pair, preset):
                self.read_data(pair, preset, folder)
                return True
            parts = make_data(pair, preset, self.options.seed, self.options.data)
        except UserError as error:
            self.errors[pair.name] = (str(error), "".join(traceback.format_exception(error)))
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
        options = self.options
        model = find_model(options.tokenizer)
        made = sources.prepare(pair, preset, options.data, options.seed, model, self.on_progress)
        folder.mkdir(parents=True, exist_ok=True)
        link_or_copy(made.file, folder / f"{SAMPLES}.npz")
        save_arrays(folder / f"{TEXT}.npz", text(count=TEXT_COUNT, max_bytes=TEXT_BYTES))
        if made.entries:
            write_json(folder / ENTRIES_FILE, made.entries)
        self.notes.setdefault(pair.name, []).extend(made.notes)

    def tokenizer(self, folder: Path) -> None:
        """Put the SentencePiece model of --tokenizer where both sides find it."""
        model = find_model(self.options.tokenizer)
        if model is not None:
            load_processor(model)  # a sentence now, and not from two processes
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(model, folder / MODEL)

    def bring_reference(self, pair: Pair, former: Path) -> None:
        """Take over the torch side's logs, where asked for; else note what they will depend on.

        former  the folder of the last check's logs
        """
        folder = self.work / pair.name
        folder.mkdir()
        notes = self.notes.setdefault(pair.name, [])
        notes += self.unfinished.claim(pair) if self.step.trains else []
        if self.options.reference:
            found = find_reference(self.options.reference.absolute(), self.step, pair)
            notes += filter(None, [differing_reference(found, pair)])
        else:
            data = self.data / pair.name
            key = reference_key(self.step, pair, self.options, self.pythons["torch"], data)
            write_key(folder, key)
            if not self.options.reuse:
                return
            reason = why_not_reused(former, key)
            notes.append(f"torch {f'was run again: {reason}' if reason else 'logs were kept'}")
            if reason:
                return
            found = former
        ResultFolder(found).take_over(folder)
        self.brought.add(pair.name)

    def run_all(self, pairs: list[Pair]) -> dict[str, tuple[str, str]]:
        """Every launch for every model; returns model -> (sentence, traceback) of failures."""
        errors = self.errors
        for launch in self.step.launches:
            left = self._left(pairs, errors)
            if launch.side_by_side and left:
                paddle = self.start(launch.arguments, "paddle", left, threads=1)
                reference = [pair for pair in left if pair.name not in self.brought]
                try:
                    for arguments in filter(None, (launch.arguments, launch.torch_then)):
                        if reference:
                            torch = self.start(arguments, "torch", reference, threads=1)
                            self.finish(torch, "torch", reference, errors)
                except BaseException:
                    paddle.stop()
                    raise
                self.finish(paddle, "paddle", left, errors)
                continue
            for side in SIDES:
                left = self._left(pairs, errors)
                if side == "torch":
                    left = [pair for pair in left if pair.name not in self.brought]
                if left:
                    process = self.start(launch.arguments, side, left, processes=launch.processes)
                    self.finish(process, side, left, errors)
        return errors

    @staticmethod
    def _left(pairs, errors):
        return [pair for pair in pairs if pair.name not in errors]

    def start(
        self,
        arguments,
        side: str,
        pairs,
        threads: int | None = None,
        out: Path | None = None,
        processes: int = 1,
    ) -> Process:
        """Start one side for some models; its logs go to the working folder, or to `out`."""
        options = self.options
        command = [self.pythons[side], "-W", "ignore", "-m"]
        if processes > 1:
            command += self._launcher(side, processes)
            threads = 1
        else:
            command.append(self.step.module(side))
        for pair in pairs:
            command += ["--model", str(pair.name if pair.built_in else pair.folder)]
        command += ["--preset", options.preset, "--seed", str(options.seed)]
        command += ["--device", options.device, "--out", str(out or self.work), "--progress"]
        if options.weights:
            command += ["--weights", options.weights]
        if self.published:
            command += ["--published", str(self.published)]
        if self.step.data:
            command += ["--data", str(self.data)]
        if self.step.trains:
            for name in ("epochs", "steps", "seeds", "checkpoint_every"):
                value = getattr(options, name)
                command += [f"--{name.replace('_', '-')}", str(value)] if value else []
            command += ["--checkpoints", str(self.unfinished.folder)]
            command += ["--resume"] if options.resume else []
        if options.train:
            command.append("--train")
        if side == "paddle" and options.transplant and options.transplant != SMALLEST:
            command += ["--transplant", options.transplant]
        return Process(command + list(arguments), self._show(side), threads, options.device)

    def _launcher(self, side: str, processes: int) -> list[str]:
        """What starts several processes of a side behind `python -m`, the script included."""
        module = self.step.module(side)
        if side == "torch":
            count = ["--nproc-per-node", str(processes)]
            return ["torch.distributed.run", "--standalone", *count, "-m", module]
        script = ROOT.joinpath(*module.split(".")).with_suffix(".py")
        count = ["--nproc_per_node", str(processes), "--log_dir", str(self.work / ".launch")]
        return ["paddle.distributed.launch", *count, str(script)]

    def _show(self, side: str):
        return lambda text: self.on_progress(f"step {self.step.number} {side}: {text}")

    def finish(self, process: Process, side: str, pairs, errors) -> None:
        """Wait for a side; note which models failed, and why."""
        try:
            status = process.wait()
        except BaseException:
            process.stop()
            raise
        for pair in pairs:
            told = _told(self.work / pair.name / f"error_{side}.json")
            if told is not None:
                errors.setdefault(pair.name, told)
        if status != 0 and not any(pair.name in errors for pair in pairs):
            text = "\n".join(process.stderr)
            sentence = f"the {side} twin {how_it_ended(status, process.stderr)}"
            if getattr(self.options, f"{side}_python"):
                sentence += f" (run by {self.pythons[side]})"
            for pair in pairs:
                errors.setdefault(pair.name, (sentence, text))

    def fresh_sides(self, pair: Pair) -> list[str]:
        """Sides whose logs of a pair were made here, not brought."""
        return [side for side in SIDES if side == "paddle" or pair.name not in self.brought]

    def single_step(self, pair: Pair) -> str:
        """Run the Paddle side once more, each module fed with the reference's values.

        Returns why that could not be done; empty where it was.
        """
        errors: dict[str, tuple[str, str]] = {}
        for launch in self.step.launches:
            if launch.single_step:
                arguments = (*launch.arguments, "--single-step")
                process = self.start(arguments, "paddle", [pair])
                self.finish(process, "paddle", [pair], errors)
        (self.work / pair.name / "error_paddle.json").unlink(missing_ok=True)
        return errors[pair.name][0] if errors else ""

    def elapsed_s(self, model: str) -> float:
        """What the twins of a model took, from their logs' sidecars."""
        total = 0.0
        for path in (self.work / model).glob("*.npy"):
            total += (read_sidecar(path) or Sidecar()).elapsed_s
        return total


def _told(path: Path) -> tuple[str, str] | None:
    """What a twin says of its failure: a sentence and the traceback; None where it says nothing."""
    try:
        told = load_json(path)
    except UserError:  # it died before, or while it wrote this, as on a full disk
        return None
    sentence, text = told.get("sentence"), told.get("traceback")
    return (sentence, text) if isinstance(sentence, str) and isinstance(text, str) else None
