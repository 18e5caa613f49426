"""Judge a result folder: its judged logs by the rule, the guide's pair by the guide's rule."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from common.logs.guide_pair import has_pair
from common.logs.reader import read_log
from common.logs.result_folder import ResultFolder
from common.system.frameworks import SIDES
from common.verdict.comparisons import Memo
from common.verdict.judge import Judgement, judge_logs
from common.verdict.tensor import judge_tensor


def judge_folder(
    folder: Path,
    stems: Sequence[str],
    step: object = "",
    model: str = "",
    until_off: bool = False,
    strict: bool = False,
    allow_nan: bool = False,
    memos: dict[str, Memo] | None = None,
    until_asked: bool = False,
) -> dict[str, Judgement]:
    """Stem -> the verdicts of its logs; the torch and paddle float32 logs of each must be there.

    until_off, until_asked, strict, allow_nan  as for judge_logs
    memos  stem -> what was made of its logs when fewer were there; takes what is made
    Raises LogError for a file that is no log.
    """
    judgements = {}
    for stem in stems:
        judgements[stem] = judge_logs(
            **ResultFolder(folder).judged_logs(stem),
            step=step,
            model=model,
            until_off=until_off,
            strict=strict,
            allow_nan=allow_nan,
            until_asked=until_asked,
            memo=None if memos is None else memos.setdefault(stem, Memo()),
        )
    return judgements


def pair_passed(folder: Path, stem: str, threshold: float) -> bool | None:
    """The guide's rule on the pair that it asks for; None where there is no such pair."""
    logs = [ResultFolder(folder).log(stem, side) for side in SIDES]
    if not (has_pair(stem) and all(log.is_file() for log in logs)):
        return None
    with read_log(logs[0]) as ref, read_log(logs[1]) as cand:
        if set(ref) != set(cand) or not len(ref):
            return False
        means = [judge_tensor(key, ref[key], cand[key]).mean_abs for key in ref]
    return all(mean is not None and mean <= threshold for mean in means)


def guide_passed(
    folder: Path, stem: str, threshold: float, judgements: Mapping[str, Judgement]
) -> bool | None:
    """The guide's rule on every tensor of a log; None where nothing was compared.

    judgements  of this folder: the log may be among them
    """
    if stem in judgements:
        return judgements[stem].guide_passed
    logs = [ResultFolder(folder).log(stem, side) for side in SIDES]
    means = [row.mean_abs for row in judge_logs(*logs).rows]
    return bool(means) and all(mean is not None and mean < threshold for mean in means)
