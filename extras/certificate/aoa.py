"""`certificate --aoa CLASS`: the statements that carry a published checkpoint into a Paddle class.

CLASS is a published one (LlamaForCausalLM …: published.py), or module:Class or file.py:Class of
your own, whose reference and configuration --reference CLASS and --config FILE.json then name.
A small reference is built, with noise on every parameter, and its checkpoint saved.  Then each
statement of `_gen_aoa_config`, and of `_gen_inv_aoa_config`, which saves, is proven:

    by marks       every element of the checkpoint has a number, which goes through the statements:
                   each is used, each parameter written, and the inverse brings each back
    by the run     the model that holds what the marks say gives the reference's logits; where it
                   does not, names and kinds of layers, and then other texts, show which is wrong
    by Paddle      its own load_state_dict and full() make the same of the same checkpoint
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.markup import escape
from rich.table import Table

from twincheck.common.report import terminal as report
from twincheck.common.system.checkout import PATH
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import in_language
from twincheck.common.system.files import write_text
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.interpreters import find_interpreter
from twincheck.common.system.processes import environment, how_it_ended
from twincheck.common.system.reasons import read_reason
from twincheck.common.verdict.judge import judge_logs
from twincheck.extras.certificate import Kind, published
from twincheck.extras.certificate.proof import OPEN, PROVEN, WRONG, Proof, repairs_of

_PATIENCE_S = 600  # for a side's process; a small model takes seconds


@dataclass
class Certificate:
    """What was found of a class's statements."""

    name: str
    statements: list[dict] = field(default_factory=list)  # one a statement, of both directions
    unread: list[str] = field(default_factory=list)  # keys of the checkpoint
    unwritten: list[str] = field(default_factory=list)  # parameters of the model
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    run: str = ""  # the verdict on the logits

    @property
    def exit_code(self) -> int:
        """0 if every statement is proven and nothing else is wrong, 1 otherwise."""
        wrong = any(one["verdict"] != PROVEN for one in self.statements)
        return int(wrong or bool(self.unread or self.unwritten or self.problems))


def certify_statements(options) -> int:
    """Prove the statements of the class that the options name; returns the exit status."""
    torch, paddle, settings = _asked(options)
    own = {"torch": options.torch_python, "paddle": options.paddle_python}
    pythons = {s: find_interpreter(s, own[s], environment(), PATH) for s in SIDES}
    with tempfile.TemporaryDirectory(prefix="statements-") as name, report.progress() as told:
        work = _Work(Path(name), pythons, told)
        train = options.aoa in published.TRAIN
        work.request = {
            **{"folder": name, "reference": torch, "port": paddle, "config": settings},
            **{"seed": options.seed or 0, "train": train},
        }
        certificate = _certificate(options.aoa, work)
    if train:
        certificate.notes.append(Kind.IN_TRAINING_MODE())
    _show(certificate)
    if options.json:
        told = {**vars(certificate), "exit_code": certificate.exit_code}
        write_text(options.json, json.dumps(told, indent=1))
    return certificate.exit_code


def _asked(options) -> tuple[str, str, dict]:
    """The classes of both sides, and their configuration."""
    if options.aoa in published.SETTINGS:
        settings = published.settings_of(options.aoa)
        names = published.named(options.aoa)
    elif ":" in options.aoa and options.reference and options.config:
        settings, names = {}, (options.reference, options.aoa)
    elif ":" in options.aoa:
        raise UserError(Kind.AOA_OWN_CLASS(name=options.aoa))
    else:
        raise UserError(Kind.AOA_WHICH_CLASS(name=options.aoa, known=[*published.SETTINGS]))
    if options.config:
        try:
            settings |= json.loads(Path(options.config).read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError) as error:
            raise UserError(Kind.CONFIG_UNREADABLE(path=options.config, error=str(error))) from None
    if not isinstance(settings.get("vocab_size"), int):
        raise UserError(Kind.CONFIG_WITHOUT_SIZE(path=str(options.config)))
    return options.reference or names[0], names[1], settings


@dataclass
class _Work:
    """The sides' programs, in a folder."""

    folder: Path
    pythons: Mapping
    told: object
    request: dict = field(default_factory=dict)

    def run(self, side: str, **more: object) -> None:
        """Run a side's program; raises UserError where it fails."""
        path = self.folder / f"{side}-request.json"
        path.write_text(json.dumps({**self.request, **more}))
        self.told(f"{side}: {self.request['reference' if side == 'torch' else 'port']}")
        python = self.pythons[side]
        module = f"twincheck.extras.certificate.aoa_{side}"
        try:
            done = subprocess.run(
                [python.path, "-W", "ignore", "-m", module, str(path)],
                env=environment() | dict(python.variables),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE_S,
            )
        except subprocess.TimeoutExpired:
            raise UserError(Kind.SIDE_ENDLESS(side=side, seconds=_PATIENCE_S)) from None
        if done.returncode:
            error = path.with_suffix(".error")
            if error.exists():
                reason = read_reason(json.loads(error.read_text())["sentence"])
                raise UserError(Kind.SIDE_FAILED(side=side, reason=reason))
            ended = how_it_ended(done.returncode, done.stderr.splitlines())
            raise UserError(Kind.SIDE_ENDED(side=side, ended=ended))

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """What a side has left in a file of the folder."""
        with np.load(self.folder / name) as file:
            return dict(file)

    def verdict(self, logits: Mapping[str, np.ndarray], reference: Mapping, prefix: str = ""):
        """The row on the logits; None where there are none."""
        if f"{prefix}logits64" not in logits:
            return None
        told = [{"logits": one[f"{p}logits{bits}"]} for bits in (32, 64)
                for one, p in ((reference, ""), (logits, prefix))]  # fmt: skip
        return judge_logs(*told)


def _certificate(name: str, work: _Work) -> Certificate:
    for side in SIDES:
        work.run(side)
    port = json.loads((work.folder / "paddle.json").read_text())
    reference, found = work.arrays("reference.npz"), work.arrays("paddle.npz")
    linear = json.loads((work.folder / "torch.json").read_text())["linear"]
    proof = Proof(port, reference, work.arrays("state.npz"), set(linear))
    judged = work.verdict(found, reference)
    aligned = judged is not None and judged.exit_code == 0
    certificate = Certificate(name, run=judged.verdict if judged else "NOT RUN")
    if judged is None:
        certificate.problems.append(Kind.RUN_NOT_THERE(reason=read_reason(port["not_run"])))
    elif not aligned:
        certificate.problems.append(Kind.RUN_DIFFERS(verdict=judged.verdict))
    rows = proof.forward(aligned)
    if judged is not None and not aligned and all(r["verdict"] == OPEN for r in _not(rows)):
        _repair(work, proof, rows, reference)
    certificate.statements = rows + proof.backward()
    certificate.unread, certificate.unwritten = proof.unread, proof.unwritten
    certificate.problems += proof.problems + proof.by_paddle(found)
    return certificate


def _not(rows: Sequence[dict]) -> list[dict]:
    return [row for row in rows if row["verdict"] != PROVEN]


def _repair(work: _Work, proof: Proof, rows: list[dict], reference: Mapping) -> None:
    """Try other texts for the statements that names leave open, until the run agrees.

    Where it does, the statement is wrong, and the run shows that the others are right.
    """
    repairs = [(n, text) for n, row in enumerate(rows) if row["verdict"] == OPEN
               for text in repairs_of(row["statement"])]  # fmt: skip
    if not repairs:
        return
    work.run("paddle", repairs=repairs)
    logits = work.arrays("repairs.npz")
    for number, (statement, text) in enumerate(repairs):
        judged = work.verdict(logits, reference, f"{number}/")
        if judged is not None and judged.exit_code == 0:
            rows[statement] |= {"verdict": WRONG, "why": Kind.WRONG_BY_REPAIR(statement=text)}
            for n in [n for n, row in enumerate(rows) if row["verdict"] == OPEN]:
                if proof.is_shown(n):
                    rows[n] |= {"verdict": PROVEN, "why": Kind.PROVEN_BY_REPAIR()}
            return


def _show(certificate: Certificate) -> None:
    """The table, what nobody read or wrote, and the result in one sentence."""
    table = Table(title=Kind.STATEMENTS(name=certificate.name), title_justify="left")
    for heading in (Kind.COLUMN_WAY, Kind.COLUMN_STATEMENT, Kind.COLUMN_VERDICT, Kind.COLUMN_WHY):
        table.add_column(heading(), overflow="fold")
    for row in certificate.statements:
        colour = "green" if row["verdict"] == PROVEN else "red"
        text = re.sub(r"\s+", " ", row["statement"])
        verdict = f"[{colour}]{in_language(row['verdict'])}[/]"
        table.add_row(row["way"], escape(text), verdict, escape(in_language(row["why"])))
    report.show_table(table)
    for note in certificate.notes:
        report.say(Kind.SAID_OF(name=certificate.name, said=note))
    for key in certificate.unread:
        report.say(Kind.KEY_UNREAD(name=certificate.name, key=key))
    for key in certificate.unwritten:
        report.say(Kind.KEY_UNWRITTEN(name=certificate.name, key=key))
    for problem in certificate.problems:
        report.say(Kind.PROBLEM_OF(name=certificate.name, problem=problem))
    told = {"name": certificate.name, "count": len(certificate.statements)}
    if certificate.exit_code:
        others = len(certificate.unread + certificate.unwritten + certificate.problems)
        wrong = len(_not(certificate.statements))
        report.say(Kind.STATEMENTS_NOT_CERTIFIED(**told, wrong=wrong, others=others))
    else:
        report.say(Kind.STATEMENTS_CERTIFIED(**told, run=certificate.run))
