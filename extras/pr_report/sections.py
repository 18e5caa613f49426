"""What a report for a pull request says, in no language yet: sections of sentences and tables.

Each section reads results and computes nothing; one without a result is left out, and stands in
`not_checked` instead.  The words are in words.toml; `Say` names one of them.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence

from twincheck.common.logs.result_folder import (
    AGREEMENT_FILE,
    CERTIFICATE_FILE,
    GENERATION_FILE,
    RESULT_FILE,
    TRAINERS_FILE,
)
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.door import for_others
from twincheck.common.system.hashes import file_sha256
from twincheck.extras.pr_report import forward, others, steps
from twincheck.extras.pr_report.claims import EVIDENCE, KINDS, Claim, Kind, claim, met, run_name
from twincheck.extras.pr_report.document import Code, Say, Section, Table
from twincheck.extras.pr_report.results import Found, Run


def sections(found: Found, kind: str) -> list:
    """Status first, then the sections of the kind's order that there are results for."""
    limits = KINDS[kind]
    claims = [claim for name in EVIDENCE for claim in _EVIDENCE[name][1](found, limits)]
    claims += _others(found, claims)
    told = [*_status(found, claims), _summary(claims), _environment(found)]
    for name in limits.order:
        section = _guide if name == "guide" else _EVIDENCE[name][0]
        blocks = list(section(found, limits))
        if blocks:
            told.append(Section(name, blocks))
    return [*told, _commands(found), _not_checked(found, claims), _trust(found)]


def _others(found: Found, claims: Sequence[Claim]) -> Iterator[Claim]:
    """Results that no section is about: none is left out, least of all a red one."""
    told = {claim.run for claim in claims}
    for run in found.runs:
        if run_name(run) not in told:
            measured = Say("rows_count", {"count": len(run.said["rows"])})
            yield claim("other", run, measured, "–", None)


def is_red(found: Found) -> bool:
    """True where any result is red, whether or not a table shows it."""
    plain = [said for told in found.plain.values() for _, said in told]
    return any(run.red for run in found.runs) or any(said["exit_code"] for said in plain)


def _status(found: Found, claims: Sequence[Claim]) -> list:
    red = {one.run: one for one in reversed(claims) if one.red}  # of a run the first of its lines
    missed = [one for one in claims if one.met is False and not one.red]
    missing = _missing(found, claims)
    counts = {"count": len(red), "all": len({one.run for one in claims})}
    lines: list = [Say("red" if is_red(found) else "green", counts)]
    for run, one in sorted(red.items()):
        shown = [Say(other.evidence) for other in claims if other.run == run]
        fields = {"evidence": shown, "run": run, "verdict": one.verdict}
        lines.append(Say("red_line", fields | {"said": one.said or "–"}))
    for one in missed:
        fields = {"evidence": Say(one.evidence), "run": one.run, "limit": one.limit}
        lines.append(Say("missed", fields | {"measured": one.measured, "verdict": one.verdict}))
    allowed = [run for run in found.runs if run.said["allow"]]
    for run in allowed:
        words = ", ".join(run.said["allow"])
        lines.append(Say("let_pass", {"run": run_name(run), "words": words}))
    if missing:
        names = [Say(name) for name in missing]
        lines.append(Say("missing", {"count": len(missing), "names": names}))
    lines += [Say("unjudged", {"folder": folder}) for folder in found.unjudged]
    lines += [Say(note) for note in found.notes]
    return lines


def _summary(claims: Sequence[Claim]) -> Section:
    rows = [
        (Say(c.evidence), f"`{c.run}`", c.measured, c.limit, met(c.met), Say("v_" + c.verdict))
        for c in sorted(claims, key=lambda claim: not claim.red)
    ]
    table = Table("evidence result measured their_limit limit_met our_verdict", rows)
    return Section("summary", [table, Say("verdicts"), Say("limits")])


def _missing(found: Found, claims: Sequence[Claim]) -> list[str]:
    there = {claim.evidence for claim in claims}
    shapes = [row["shape"] for run in found.runs for row in run.said["outputs"].values()]
    if shapes and all(len(shape) < 3 for shape in shapes):  # as a classifier's: it writes nothing
        there.add("generation")
    return [name for name in EVIDENCE if name not in there]


# ---- models, weights, versions


def _environment(found: Found) -> Section:
    blocks: list = [Say("pair", {"model": found.model, "pair": found.pair})]
    if found.runs:
        first = found.runs[0].sides
        rows = [
            (Say("framework"), *(f"{s.framework} {s.framework_version}" for s in first.values()))
        ]
        names = dict.fromkeys(n for s in first.values() for n in s.environment if n != "executable")
        rows += [(n, *(s.environment.get(n, "–") for s in first.values())) for n in names]
        sources = [
            ", ".join(f"{n} `{h[:12]}`" for n, h in s.sources.items()) for s in first.values()
        ]
        rows.append((Say("sources"), *(one or "–" for one in sources)))
        blocks.append(Table("item torch paddle", rows))
        rows = []
        for run in found.runs:
            one = run.sides["torch"]
            rows.append(
                (
                    f"{run.step} {run.other}".strip(),
                    *(run.dtype, ", ".join(run.modes) or "–", one.preset or "–", str(run.seed)),
                    one.weights or "–",
                    f"`{(one.weights_sha256 or '–')[:16]}`",
                    f"`{(one.inputs_sha256 or '–')[:16]}`",
                    "/".join(str(s.device) for s in run.sides.values()),
                    _kernels(run),
                    (one.time or "–")[:16].replace("T", " "),
                )
            )
        columns = "step dtype modes preset seed weights_from weights_hash inputs_hash device "
        blocks.append(Table(columns + "kernels time", rows))
        if any(run.dtype in ("bfloat16", "float16") for run in found.runs):
            blocks.append(Say("kernels_said"))
    rows = [
        (
            name.removesuffix(".json"),
            *(_told(said, n) for n in ("dtype", "preset", "seed", "weights")),
            f"`{str(said.get('weights_sha256') or '–')[:16]}`",
            _told(said, "device"),
            ", ".join(f"{side} {v}" for side, v in said.get("versions", {}).items()) or "–",
            str(said.get("time") or "–")[:16].replace("T", " "),
        )
        for name, told in found.plain.items()
        for _, said in told
    ]
    if rows:
        columns = "result dtype preset seed weights_from weights_hash device framework time"
        blocks += [Say("others_said"), Table(columns, rows)]
    return Section("environment", blocks)


def _told(said: dict, name: str) -> str:
    return "–" if said.get(name) is None else str(said[name])


def _kernels(run: Run) -> Say:
    half = run.dtype in ("bfloat16", "float16")
    return Say("emulated" if half and run.sides["paddle"].device != "gpu" else "real_kernels")


# ---- what is missing


def _guide(found: Found, kind: Kind) -> list:
    rows = []
    for run in found.of(1) + found.of(2) + found.of(3) + found.of(4) + found.of(5):
        (said,) = run.said["guide"] or ({},)
        if said.get("report"):
            passed = (said["reprod_log"], said["guide_passed"], said["guide_all_passed"])
            limit = f"{run.said['guide_threshold']:g}"
            rows.append((f"`{run_name(run)}`", f"`{said['report']}`", limit, *map(_word, passed)))
    if not rows:
        return []
    table = Table("result diff_log limit_mean reprod_log guide_keys guide_tensors", rows)
    return [Say("guide_said"), table]


def _word(passed: bool | None) -> object:
    return "–" if passed is None else Say("passed" if passed else "failed")


def _commands(found: Found) -> Section:
    commands = dict.fromkeys(run.said["command"] for run in found.runs)
    for name, command in _MAKERS.items():
        if found.plain.get(name):
            commands[_command(command, found)] = None
    return Section("commands", [Say("commands_said"), Code("\n".join(commands), "sh")])


_MAKERS = {
    GENERATION_FILE: ("check-generate",),
    AGREEMENT_FILE: ("step2", "--agree", "DATA"),
    TRAINERS_FILE: ("step5", "--torch-losses", "FILE", "--paddle-losses", "FILE"),
    CERTIFICATE_FILE: ("certificate", "--round-trip"),
}


def _command(command: Sequence[str], found: Found) -> str:
    """A command for this pair, with the Pythons that its other checks were given."""
    folder, words = ROOT / found.pair, list(command)
    words[1:1] = [folder if folder.is_dir() else found.pair]
    if not any(run.sides["paddle"].loader for run in found.runs):
        words = [word for word in words if word != "--round-trip"]  # without `load` the usual
    for run in found.runs:
        told = shlex.split(run.said["command"])
        for option in ("--torch-python", "--paddle-python"):
            if option in told and option not in words:
                words += [option, told[told.index(option) + 1]]
    return for_others(*words)


def _not_checked(found: Found, claims: Sequence[Claim]) -> Section:
    rows = [
        (Say(name), f"`{_command(_EVIDENCE[name][2], found)}`") for name in _missing(found, claims)
    ]
    blocks: list = [Say("not_checked_said" if rows else "all_checked")]
    if rows:
        blocks.append(Table("evidence command", rows))
    narrow = [run for run in found.runs if {"cases", "probes", "no_probe"} & set(run.said["asked"])]
    for run in narrow:
        blocks.append(Say("narrow", {"run": run_name(run)}))
    return Section("not_checked", [*blocks, Say("not_shown")])


def _trust(found: Found) -> Section:
    rows = []
    for run in found.runs:
        hashes = run.said["files"]
        rows += [
            (f"`{run_name(run)}`", f"`{name}`", f"`{hashes[name]}`")
            for stem in run.said["judged"]
            for name in (f"{stem}_torch.npy", f"{stem}_paddle.npy")
            if name in hashes
        ]
        content = file_sha256(run.path / RESULT_FILE)
        rows.append((f"`{run_name(run)}`", "`result.json`", f"`{content}`"))
    blocks: list = [Say("trust_said"), Table("result file sha256", rows)]
    blocks += [Say("bundle", bundle) for bundle in found.bundles]
    return Section("trust", blocks)


# Evidence -> its section, its lines of the summary, and the command that makes its result.
_EVIDENCE: dict[str, tuple[Callable, Callable, tuple[str, ...]]] = {
    "forward": (forward.forward, forward.forward_claims, ("step1",)),
    "half": (forward.half, forward.half_claims, ("step1", "--dtype", "bfloat16", "--out", "bf16")),
    "top": (forward.top, forward.top_claims, ("step1",)),
    "unit": (forward.unit, forward.unit_claims, ("step1",)),
    "generation": (others.generation, others.generation_claims, _MAKERS[GENERATION_FILE]),
    "agreement": (others.agreement, others.agreement_claims, _MAKERS[AGREEMENT_FILE]),
    "trainers": (others.trainers, others.trainers_claims, _MAKERS[TRAINERS_FILE]),
    "weights": (others.weights, others.weights_claims, _MAKERS[CERTIFICATE_FILE]),
    "metric": (steps.metric, steps.step_claims(2, "metric"), ("step2",)),
    "loss": (steps.loss, steps.step_claims(3, "loss"), ("step3",)),
    "gradients": (steps.gradients, steps.step_claims(4, "gradients"), ("step4",)),
    "optimizer": (steps.optimizer, steps.optimizer_claims, ("step4",)),
    "training": (steps.training, steps.training_claims, ("step5",)),
}
