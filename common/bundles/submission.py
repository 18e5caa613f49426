"""What the guide asks to hand in: its pairs' names in three dialects, and reprod_log's report.

The guides and the sample repositories name the same files in three ways, and so does a bundle:

    nlp       log_reprod/forward_torch.npy    forward_paddle.npy    forward_diff.log
    cv        result/forward_ref.npy          forward_paddle.npy    log/forward_diff.log
    samples   Step1/forward_torch.npy         forward_paddle.npy    forward_diff.log

NumPy only.
"""

import re

import numpy as np

from common.logs.guide_pair import STEMS
from common.logs.reader import Log
from common.system.frameworks import SIDES

NLP, CV, SAMPLES = "nlp", "cv", "samples"
REPORT = "report"  # beside torch and paddle: which file of a stem


def names(stem: str) -> dict[str, dict[str, str]]:
    """Dialect -> which (torch, paddle, report) -> the file's path; CV has no pair of a training."""
    files = {side: f"{stem}_{side}.npy" for side in SIDES} | {REPORT: f"{stem}_diff.log"}
    folders = {NLP: "log_reprod", SAMPLES: f"Step{STEMS.index(stem) + 1}"}
    found = {
        dialect: {which: f"{folder}/{name}" for which, name in files.items()}
        for dialect, folder in folders.items()
    }
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
_KEY = re.compile(rf"{_STAMP}(?P<key>.*): ")
_MEAN = re.compile(
    rf"{_STAMP}\tmean diff: check passed: (?P<passed>True|False), value: (?P<value>\S+)"
)
_END = re.compile(rf"{_STAMP}diff check (?P<word>passed|failed)")

# NumPy adds up in an order that depends on the processor: how far its mean may be another's, as a
# part of it.
_OTHER_ORDER = {2: 2e-3, 4: 1e-5, 8: 1e-12}


class NoReport(ValueError):
    """A text that is no report of reprod_log's, in one sentence."""


def read_report(text: str) -> tuple[dict[str, tuple[bool, str]], bool]:
    """Key -> whether it passed and its value as printed; whether all passed.  Raises NoReport."""
    lines = text.split("\n")
    if lines[-1:] == [""]:
        lines.pop()
    if not lines or not (end := _END.fullmatch(lines[-1])):
        raise NoReport("its last line is not reprod_log's")
    found: dict[str, tuple[bool, str]] = {}
    if len(lines) % 2 == 0:
        raise NoReport(f"it has {len(lines)} lines, which are no two of each key and one more")
    for number in range(0, len(lines) - 1, 2):
        key, mean = _KEY.fullmatch(lines[number]), _MEAN.fullmatch(lines[number + 1])
        if not key or not mean:
            raise NoReport(f"lines {number + 1} and {number + 2} are not as reprod_log writes them")
        if key["key"] in found:
            raise NoReport(f"it has {ascii(key['key'][:80])} twice")
        found[key["key"]] = mean["passed"] == "True", mean["value"]
    return found, end["word"] == "passed"


def report_problems(text: str, torch: Log, paddle: Log, threshold: float) -> list[str]:
    """What a report says that the pair of logs does not bear out, one sentence each.

    As reprod_log does it: the mean of |a - b| in the logs' own precision, against the threshold.
    """
    try:
        lines, all_passed = read_report(text)
    except NoReport as error:
        return [str(error)]
    problems = []
    common = [key for key in torch if key in paddle]
    if list(lines) != common:
        odd = sorted(set(lines).symmetric_difference(common)) or ["their order"]
        return [f"it does not report on the keys of the two logs, as {ascii(odd[0][:80])} shows"]
    for key, (passed, value) in lines.items():
        wanted = mean_difference(torch[key], paddle[key])
        shown = ascii(key[:80])
        try:
            number = float(value)
        except ValueError:
            problems.append(f"{shown}: {ascii(value[:40])} is no number")
            continue
        near = _OTHER_ORDER.get(np.asarray(wanted).dtype.itemsize, 1e-12) * abs(float(wanted))
        same = number == float(wanted) or abs(number - float(wanted)) <= near
        if not same and not (np.isnan(number) and np.isnan(wanted)):
            problems.append(f"{shown}: it says {value[:40]}, and the logs give {wanted}")
        if passed != (not wanted > threshold):
            said = "passed" if passed else "failed"
            problems.append(f"{shown}: it says {said}, and {wanted} against {threshold:g} is not")
    if all_passed != all(passed for passed, _ in lines.values()):
        problems.append("its last line is not what its other lines come to")
    return problems


def mean_difference(a: np.ndarray, b: np.ndarray) -> np.floating:
    """The mean of |a - b|, as reprod_log computes it."""
    if a.shape != b.shape and a.T.shape == b.shape:
        a = a.T
    with np.errstate(all="ignore"):
        return np.abs(a - b).mean()
