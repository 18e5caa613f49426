"""The scores of trainings beside the verdict on the port, and the published number."""

import re
from pathlib import Path

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.case_hooks import best_score
from twincheck.common.report.scores import figure, what_hides, what_is_scored
from twincheck.common.report.sentences import what_is_wrong
from twincheck.common.report.terminal import guide_word
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.row import first_bad_row, worst
from twincheck.step5_train.equivalence import reached, sentence
from twincheck.step5_train.trained import final_scores, guide_scores, preset_of, settings_of


def answered(folder: Path, pair) -> tuple[dict[str, object], list[str]]:
    """Return what says nothing about the port: what its scores can show, the published number."""
    scores = guide_scores(folder)
    found = what_is_scored(folder, pair, scores, "train_full")
    answers, notes = number_reached(folder, pair)
    return answers | {"scored_by_step_5": found}, list(filter(None, [*notes, what_hides(found)]))


def number_reached(folder: Path, pair) -> tuple[dict[str, object], list[str]]:
    """Answer whether each side reaches the published number."""
    preset = preset_of(folder, pair)
    target = getattr(pair.case, "TARGETS", {}).get(preset)
    if target is None:
        return {}, [Kind.NUMBER_UNKNOWN(preset=preset)]
    scores = {}
    for side in SIDES:
        with read_log(ResultFolder(folder).log("train_full", side)) as log:
            scores[side] = final_scores(log)
            samples = int(log["test_samples"])
    kind = best_score(settings_of(folder, pair), dict.fromkeys(scores["torch"], 0.0))[0]
    answers = reached(target, scores, kind, samples)
    return {"targets": answers}, list(dict.fromkeys(map(sentence, answers)))


# What a row of step 5 is about -> how its key begins.
_FIRST = ("train/0", "trained/", "init/")
_SEED = re.compile(r"^seed_\d+/")


def decided(result, folder: Path) -> dict[str, dict[str, str]]:
    """Return what was found of a training, each by itself: name -> {verdict, said}."""
    first = [row for row in result.rows if _SEED.sub("", row.key).startswith(_FIRST)]
    whole = [row for row in result.rows if row not in first]
    answers = result.answers.get("targets", [])
    known = {answer["reached"] for answer in answers}
    reached_word = "not comparable" if None in known else "reached" if all(known) else "not reached"
    reached_word = reached_word if answers else "none known"
    scores = guide_scores(folder)
    told = [(s.name, figure(s.torch), figure(s.paddle)) for s in scores]
    told = [Kind.SCORE_OF_SIDES(score=s, torch=torch, paddle=paddle) for s, torch, paddle in told]
    ran = len({row.key for row in first if row.key.endswith("/loss")})
    parts = sum(row.key.startswith("train/drift/") for row in whole)
    seeds = max([row.size for row in whole if row.key.startswith("seeds/")], default=1)
    counted = Kind.SEEDS_SOME(count=seeds) if seeds > 1 else Kind.SEED_ONE()
    same = Kind.TRAINED_THE_SAME(count=ran)
    alike = Kind.TRAINED_ALIKE(count=parts, seeds=counted)
    found = {}
    for name, rows, said in ("first steps", first, same), ("whole training", whole, alike):
        off = first_bad_row(rows)
        if off is not None:
            why = list(off.reasons) or [what_is_wrong(off)]
            said = Kind.ROW_NOTED(key=off.key, reasons=why)
        found[name] = {"verdict": worst([row.verdict for row in rows]), "said": said}
    scored = Kind.LISTED(parts=told)
    found["the guide's rule"] = {"verdict": guide_word(result.guide_passed), "said": scored}
    sentences = Kind.TEXT(text=list(dict.fromkeys(map(sentence, answers))))
    return found | {"the published number": {"verdict": reached_word, "said": sentences}}
