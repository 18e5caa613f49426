"""What --json writes of two results that were compared."""

from collections.abc import Sequence
from dataclasses import asdict

from twincheck.common.verdict.row import Row
from twincheck.extras.compared import compare as c
from twincheck.extras.compared import words
from twincheck.extras.compared.compare import Cause, Change, Compared
from twincheck.extras.compared.read import Found, Told
from twincheck.extras.compared.surroundings import Difference

SCHEMA = "twincheck-compared/1"


def document(found: Compared, differing: Sequence[Difference]) -> dict[str, object]:
    """All of it but the rows that agree as before and have the noise that they had."""
    changed = [change for change in found.changes if change.what != c.SAME or change.noise]
    return {
        "schema": SCHEMA,
        "exit_code": found.exit_code,
        "sentence": words.sentence(found),
        "before": _told(found.old),
        "after": _told(found.new),
        "counts": {what: len(found.of(what)) for what in c.CHANGES},
        "surroundings": [{**asdict(one), "of": list(map(_named, one.of))} for one in differing],
        "results": [
            {
                **_named(name),
                "before": _result(found.old.found.get(name)),
                "after": _result(found.new.found.get(name)),
            }
            for name in found.names
        ],
        "findings": list(map(_cause, found.causes)),
        "rows": list(map(_change, changed)),
    }


def refused(error: str) -> dict[str, object]:
    """The same where nothing could be compared."""
    return {"schema": SCHEMA, "exit_code": 2, "error": error}


def _named(name: c.Name) -> dict[str, object]:
    return dict(zip(("step", "other", "model"), name, strict=True))


def _told(told: Told) -> dict[str, object]:
    return {"path": str(told.path), "root": told.root or None}


def _result(found: Found | None) -> dict[str, object] | None:
    if found is None:
        return None
    told = {"verdict": found.verdict, "exit_code": found.exit_code}
    return told | {"guide_passed": found.guide_passed, "rows": len(found.rows)}


def _row(row: Row | None) -> dict[str, object] | None:
    if row is None:
        return None
    names = ("verdict", "gap", "allowed", "noise_ref", "noise_cand", "mean_abs", "max_abs")
    return {name: getattr(row, name) for name in (*names, "origin", "note")}


def _change(change: Change) -> dict[str, object]:
    noise = {**asdict(change.noise), "factor": change.noise.factor} if change.noise else None
    return {
        **_named(change.name),
        "key": change.key,
        "change": change.what,
        "before": _row(change.before),
        "after": _row(change.after),
        "starts": change.starts,
        "noise": noise,
    }


def _cause(cause: Cause) -> dict[str, object]:
    pairs = zip(("before", "after"), (cause.before, cause.after), strict=True)
    said = {when: one and {"sentence": one.sentence, **one.places} for when, one in pairs}
    return {**_named(cause.name), "key": cause.key, "change": cause.what, **said}
