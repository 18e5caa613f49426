"""What the guide asks to hand in: its pairs' names in three dialects, and reprod_log's report.

The guides and the sample repositories name the same files in three ways, and so does a bundle:

    nlp       log_reprod/forward_torch.npy    forward_paddle.npy    forward_diff.log
    cv        result/forward_ref.npy          forward_paddle.npy    log/forward_diff.log
    samples   Step1/forward_torch.npy         forward_paddle.npy    forward_diff.log

NumPy only.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import numpy as np

from twincheck.common.logs.guide_pair import STEMS, full_stem, guide_value, has_pair, is_over_torch
from twincheck.common.logs.reader import Log, read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import read_sidecar, sidecar_path
from twincheck.common.system import json_kinds as kinds
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.hashes import file_sha256, same_bits
from twincheck.common.system.words import printable
from twincheck.extras.bundle import Kind, plan

NLP, CV, SAMPLES = "nlp", "cv", "samples"
REPORT = "report"  # beside torch and paddle: which file of a stem


def names(stem: str) -> dict[str, dict[str, str]]:
    """Dialect -> which (torch, paddle, report) -> the file's path; CV has no pair of a training."""
    files = {side: f"{stem}_{side}.npy" for side in SIDES} | {REPORT: f"{stem}_diff.log"}
    folders = {NLP: "log_reprod", SAMPLES: f"Step{STEMS.index(stem) + 1}"}
    found = {d: {w: f"{f}/{n}" for w, n in files.items()} for d, f in folders.items()}
    if stem != "train_align":
        short = "losses" if stem == "bp_align" else stem
        title = "backward" if stem == "bp_align" else stem
        found[CV] = {
            "torch": f"result/{short}_ref.npy",
            "paddle": f"result/{short}_paddle.npy",
            REPORT: f"result/log/{title}_diff.log",
        }
    return found


# ---- reprod_log's report ------------------------------------------------------------------------

_STAMP = r"\[[\d/]{8,10} [\d:]{8}\] root INFO: "
_LINES = re.compile(
    rf"{_STAMP}(?P<key>.*): \n{_STAMP}\tmean diff: check passed: (?P<passed>True|False), "
    r"value: (?P<value>nan|inf|\d+(?:\.\d*)?(?:e[+-]?\d+)?)\n"
)
_END = re.compile(rf"{_STAMP}diff check (?P<word>passed|failed)\n?")

# NumPy adds up in an order that depends on the processor: how far its mean may be another's, as a
# part of it.
_OTHER_ORDER = {2: 2e-3, 4: 1e-5, 8: 1e-12}


def report_problems(text: str, torch: Log, paddle: Log, threshold: float) -> list[str]:
    """List what a report says that the pair of logs does not bear out, one sentence each.

    As reprod_log does it: the mean of |a - b| in the logs' own precision, against the threshold.
    """
    lines = list(_LINES.finditer(text))
    end = _END.fullmatch(text[sum(len(line[0]) for line in lines) :])
    if end is None:
        return [Kind.REPORT_NONE()]
    problems, keys = [], [line["key"] for line in lines]
    common = [key for key in torch if key in paddle]
    if keys != common:
        odd = sorted(set(keys).symmetric_difference(common))
        return [Kind.REPORT_KEYS(key=ascii(odd[0][:80])) if odd else Kind.REPORT_ORDER()]
    all_passed = all(line["passed"] == "True" for line in lines)
    for key, line in zip(keys, lines, strict=True):
        wanted, number = mean_difference(torch[key], paddle[key]), float(line["value"])
        shown, passed = ascii(key[:80]), line["passed"] == "True"
        near = _OTHER_ORDER.get(np.asarray(wanted).dtype.itemsize, 1e-12) * abs(float(wanted))
        same = number == float(wanted) or abs(number - float(wanted)) <= near
        if not same and not (np.isnan(number) and np.isnan(wanted)):
            said = {"key": shown, "said": line["value"][:40], "wanted": f"{wanted}"}
            problems.append(Kind.REPORT_VALUE(**said))
        if passed != (not wanted > threshold):
            said = {"key": shown, "said": "passed" if passed else "failed", "wanted": f"{wanted}"}
            problems.append(Kind.REPORT_PASSED(**said, threshold=threshold))
    if all_passed != (end["word"] == "passed"):
        problems.append(Kind.REPORT_ALL_PASSED())
    return problems


def mean_difference(a: np.ndarray, b: np.ndarray) -> np.floating:
    """The mean of |a - b|, as reprod_log computes it."""
    if a.shape != b.shape and a.T.shape == b.shape:
        a = a.T
    with np.errstate(all="ignore"):
        return np.abs(a - b).mean()


def check_submission(part) -> None:
    """Check a part's pair for the guide, its report, and the same in other dialects."""
    if not has_pair(part.guide):
        return
    dialects = names(part.guide)
    own = {which: f"{part.submission}/{NLP}/{n}" for which, n in dialects["nlp"].items()}
    there = {which for which, name in own.items() if (part.base / name).is_file()}
    for dialect, named in dialects.items():
        for which, name in named.items():
            shown = f"{part.submission}/{dialect}/{name}"
            other = part.base / shown
            if (which in there) != other.is_file():
                part.problems.append(Kind.SUBMISSION_ONE_DIALECT(file=shown))
            elif which in there and other.read_bytes() != (part.base / own[which]).read_bytes():
                part.problems.append(Kind.SUBMISSION_OTHER_FILE(file=shown, other=own[which]))
    if not there.issuperset(SIDES):
        if there or part.about.get("guide_passed") is not None:
            kind = Kind.SUBMISSION_WITHOUT_SIDE if there else Kind.SUBMISSION_WITHOUT_PAIR
            part.problems.append(kind(folder=part.submission, stem=part.guide))
        return
    with ExitStack() as stack:
        logs = {s: stack.enter_context(read_log(part.base / own[s])) for s in SIDES}
        for side in SIDES:
            part.problems += _selection_problems(part, own[side], side, logs[side])
        _check_report(part, own, logs)


def _check_report(part, own: Mapping[str, str], logs: Mapping[str, Log]) -> None:
    """Each line of reprod_log's report, and whether the guide's rule is passed."""
    threshold = part.about.get("threshold")
    number = threshold is not None and kinds.number_or_null(threshold)
    plan.must(number, Kind.SUBMISSION_THRESHOLD)
    common = [key for key in logs["torch"] if key in logs["paddle"]]
    if len(common) < max(map(len, logs.values())):
        part.problems.append(Kind.SUBMISSION_KEYS(file=own["paddle"], other=own["torch"]))
    means = [mean_difference(*(log[key] for log in logs.values())) for key in common]
    passed = bool(means) and all(bool(mean <= threshold) for mean in means)
    part.guide_passed = passed
    if part.about.get("guide_passed") is not passed:
        kind = Kind.SUBMISSION_PASSED if passed else Kind.SUBMISSION_NOT_PASSED
        part.problems.append(kind(file=own["paddle"]))
    path = part.base / own[REPORT]
    if not path.is_file():
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    problems = report_problems(text, logs["torch"], logs["paddle"], threshold)
    part.problems += [Kind.PROBLEM_OF(of=own[REPORT], problem=problem) for problem in problems]
    part.lines += 0 if problems else len(common)


def _selection_problems(part, name: str, side: str, log: Log) -> Iterator[str]:
    """The guide's log holds what its sidecar says that it was selected from."""
    path, beside = part.base / name, str(sidecar_path(name))
    sidecar = read_sidecar(path)
    if sidecar is None:
        yield Kind.MISSING(file=beside)
        return
    if sidecar.log_sha256 != file_sha256(path):
        yield Kind.SELECTED_LOG_OTHER(file=name)
    if not sidecar.sealed:
        yield Kind.SELECTED_EDITED(file=beside)
    if (sidecar.side, sidecar.framework) != (side, side):
        yield Kind.SELECTED_OF_SIDE(file=beside, found=str(sidecar.side), side=side)
    source = sidecar.selected
    if not source:
        yield Kind.SELECTED_FROM_NOTHING(file=beside)
        return
    full = part.sidecars.get(source["log"])
    if full is None or full.log_sha256 != source["sha256"]:
        yield Kind.SELECTED_FROM_ANOTHER(file=beside)
        return
    for entry in ("seed", "preset", "model", "inputs_sha256", "weights_sha256", "framework"):
        if getattr(full, entry) != getattr(sidecar, entry):
            yield Kind.SELECTED_ENTRY(file=beside, entry=entry, log=source["log"])
    if set(log) != set(source["keys"]):
        yield Kind.SELECTED_KEYS(file=name)
        return
    of_torch = ResultFolder(part.folder).log(full_stem(part.guide), SIDES[0])
    whole = [part.folder / source["log"], of_torch]
    if not all(path.is_file() for path in whole):
        return
    with ExitStack() as stack:
        logs = [stack.enter_context(read_log(path)) for path in whole]
        for key, full_key in source["keys"].items():
            needed = logs if is_over_torch(key, full_key) else logs[:1]
            if not all(full_key in one for one in needed):
                continue
            if same_bits(log[key], np.asarray(guide_value(key, full_key, *logs))):
                part.arrays += 1
            else:
                told = {"key": printable(key), "log": f"{part.name}/{source['log']}"}
                yield Kind.SELECTED_OTHER_VALUE(file=name, **told)
