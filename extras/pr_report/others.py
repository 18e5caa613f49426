"""What other commands have found: generation, agreement on data, trainers, the certificate."""

from collections import Counter
from collections.abc import Iterator

from twincheck.common.logs.result_folder import (
    AGREEMENT_FILE,
    CERTIFICATE_FILE,
    GENERATION_FILE,
    TRAINERS_FILE,
)
from twincheck.common.verdict.row import FAILING
from twincheck.extras.pr_report.claims import (
    AGREEMENT,
    MOST_ROWS,
    Claim,
    Kind,
    judged_rows,
    loss_table,
    met,
    noted,
    number,
    shape,
)
from twincheck.extras.pr_report.document import Code, Folded, Picture, Say, Table
from twincheck.extras.pr_report.results import Found


def _plain(found: Found, name: str) -> list[dict]:
    return [said for _, said in found.plain[name]]


def _plain_name(said: dict, step: str) -> str:
    more = [
        f"{n} {said[n]}" for n in ("dtype", "preset", "seed", "device") if said.get(n) is not None
    ]
    return ", ".join([step, *more])


def _plain_claim(evidence, said, step, measured, limit, passed) -> Claim:
    red = bool(said["exit_code"])
    why = _said(said) if red else ""
    return Claim(
        evidence, _plain_name(said, step), measured, limit, passed, said["verdict"], red, why
    )


def _said(said: dict) -> str:
    """What a red result of another command says first, in its own words."""
    told = [*said.get("problems", []), (said.get("cause") or {}).get("said", "")]
    told += [one["said"] for one in said.get("itself", []) if one["verdict"] in FAILING]
    wrong = [one for prompt in said.get("prompts", []) for one in prompt["differences"]]
    told += [
        f"token {one['token']}: torch {one['torch']}, paddle {one['paddle']}, margin "
        f"{number(one['margin'])}"
        for one in wrong
        if one["verdict"] in FAILING
    ]
    listed = said.get("disagreements", [])
    told += [one.get("said", "") for one in listed if one["verdict"] in FAILING]
    return next(filter(None, told), "")


def generation_claims(found: Found, kind: Kind) -> Iterator[Claim]:
    for said in _plain(found, GENERATION_FILE):
        share = said["equal"] / said["tokens"] if said["tokens"] else 0.0
        fields = {"same": said["equal"], "of": said["tokens"], "share": f"{100 * share:.2f}"}
        limit = Say("percent", {"value": "100"})
        passed = bool(said["tokens"]) and said["equal"] == said["tokens"]
        measured = Say("same_of", fields)
        yield _plain_claim("generation", said, "generation", measured, limit, passed)


def generation(found: Found, kind: Kind) -> Iterator:
    for said in _plain(found, GENERATION_FILE):
        word = "sampling_said" if said.get("how", {}).get("sample") else "generation_said"
        yield Say(word, {"run": _plain_name(said, "generation")})
        rows, wrong, tops = [], [], []
        for i, prompt in enumerate(said["prompts"]):
            shown = prompt["text"] if prompt.get("text") else shape(prompt["prompt"])
            ids = (shape(prompt[side]) for side in ("torch", "paddle"))
            rows.append(
                (str(i), f"`{_cell(shown)}`", f"{prompt['equal']}/{prompt['tokens']}", *ids)
            )
            wrong += [
                (
                    *(str(i), str(one["token"]), str(one["reference"])),
                    *(str(one["torch"]), str(one["paddle"]), number(one["margin"])),
                    *(number(one["noise"][side]) for side in ("torch", "paddle")),
                    Say("v_" + one["verdict"]),
                )
                for one in prompt["differences"]
            ]
            step = prompt.get("first_step")
            if step:
                ids = (shape(step["top10"][side]) for side in ("torch", "paddle"))
                cosine = "–" if step["cosine"] is None else f"{step['cosine']:.12f}"
                tops.append((str(i), *ids, Say("yes" if step["equal_top10"] else "no"), cosine))
        yield Table("prompt_number prompt same_tokens torch paddle", rows)
        texts = [
            (str(i), *(f"`{_cell(prompt['texts'][side])}`" for side in ("torch", "paddle")))
            for i, prompt in enumerate(said["prompts"])
            if (prompt.get("texts") or {}).get("torch") is not None
        ]
        if texts:
            yield from [Say("texts_said"), Table("prompt_number torch paddle", texts)]
        if wrong:
            columns = "prompt_number token reference torch paddle margin "
            columns += "error_torch error_paddle our_verdict"
            yield from [Say("generation_wrong"), Table(columns, wrong)]
        if tops:
            yield Say("generation_top")
            yield Table("prompt_number torch paddle same cosine", tops)
        itself = [
            (o["side"], o["way"], number(o["gap"]), number(o["allowed"]), Say("v_" + o["verdict"]))
            for o in said["itself"]
        ]
        if itself:
            yield from [Say("itself_said"), Table("side way gap allowed our_verdict", itself)]
        yield from noted("generation", said.get("notes", ()))


def agreement_claims(found: Found, kind: Kind) -> Iterator[Claim]:
    for said in _plain(found, AGREEMENT_FILE):
        worst_one = min((one["top1"]["share"] for one in said["choices"]), default=None)
        measured = "–" if worst_one is None else Say("percent", {"value": f"{100 * worst_one:.4f}"})
        passed = None if worst_one is None else worst_one >= AGREEMENT
        limit = Say("at_least", {"value": "99.8"})
        yield _plain_claim("agreement", said, "agreement", measured, limit, passed)


def agreement(found: Found, kind: Kind) -> Iterator:
    for said in _plain(found, AGREEMENT_FILE):
        data = said["data"]
        fields = {"path": data["path"], "examples": data["examples"], "kind": data["kind"]}
        yield Say("agreement_said", fields | {"sha256": data["sha256"]})
        rows = []
        for one in said["choices"]:
            top5 = one.get("top5") or {}
            shares = (top5.get(n) for n in ("set_share", "order_share"))
            share = one["top1"]["share"]
            rows.append(
                (
                    f"`{one['name']}`",
                    f"{one['top1']['equal']}/{one['decisions']}",
                    f"{100 * share:.4f}%",
                    *("–" if s is None else f"{100 * s:.4f}%" for s in shares),
                    met(share >= AGREEMENT),
                )
            )
        yield Table("output same_top1 share top5_set top5_order limit_met", rows)
        counts = said["counts"]
        columns = " ".join(f"n_{name}" for name in counts)
        yield Table(columns, [tuple(map(str, counts.values()))])
        wrong = [
            (
                *(str(one["example"]), f"`{one['choice']}`", str(one["rank"])),
                *(str(one["torch"]), str(one["paddle"]), number(one["margin"])),
                *(number(one["allowed"]), Say("v_" + one["verdict"])),
            )
            for one in said["disagreements"][:MOST_ROWS]
        ]
        if wrong:
            table = Table("example output rank torch paddle margin allowed our_verdict", wrong)
            count = {"count": len(said["disagreements"]), "shown": len(wrong)}
            yield Folded(Say("disagreements", count), [table])
        yield from noted("agreement", said.get("notes", ()))


def trainers_claims(found: Found, kind: Kind) -> Iterator[Claim]:
    for said in _plain(found, TRAINERS_FILE):
        first = said["first"]
        measured = Say("first_loss", {"step": first["step"], "value": number(first["difference"])})
        limit = Say("by_eye")
        yield _plain_claim("trainers", said, "trainers", measured, limit, None)


def trainers(found: Found, kind: Kind) -> Iterator:
    for said in _plain(found, TRAINERS_FILE):
        rows = []
        for side in ("torch", "paddle"):
            one = said["sides"][side]
            steps = f"{one['first_step']}–{one['last_step']}"
            file = f"`{one['file']}`" if one["file"] else Say("own_training")
            rows.append((side, file, one["format"], str(one["name"]), str(one["logged"]), steps))
        yield from [Say("trainers_said"), Table("side file format name logged steps", rows)]
        compared = said["compared"]
        curve = list(zip(compared["steps"], compared["torch"], compared["paddle"], strict=True))
        yield loss_table(curve)
        yield Picture(Say("curves", {"model": found.model}), compared)
        yield from [Say("trainers_by", {"by": said["by"]}), judged_rows(said["rows"])]
        cause = said.get("cause")
        if cause:
            yield Say("cause", {"kind": cause["kind"], "said": cause["said"]})
        if said["cannot_show"]:
            yield from [Say("cannot_show"), Code("\n".join(said["cannot_show"]))]
        yield from noted("trainers", said.get("notes", ()))


def weights_claims(found: Found, kind: Kind) -> Iterator[Claim]:
    for said in _plain(found, CERTIFICATE_FILE):
        off = _unequal(said, "read_back", "paddle_to_torch")
        measured = Say("entries_off", {"count": off, "of": len(said["rows"])})
        told = said | {"verdict": "IDENTICAL" if said["certified"] else "DIVERGED"}
        limit = Say("difference_zero")
        yield _plain_claim("weights", told, "certificate", measured, limit, said["certified"])


def _unequal(said: dict, *ways: str) -> int:
    """How many entries do not come back with the same bits on one of these ways."""
    return sum(not all(row.get(way) for way in ways) for row in said["rows"])


def weights(found: Found, kind: Kind) -> Iterator:
    loaders = {told for run in found.runs for told in run.sides["paddle"].loader.values()}
    for said in _plain(found, CERTIFICATE_FILE):
        trip = said.get("round_trip")
        word = {None: "trip_not_run", True: "trip_passed", False: "trip_failed"}[trip]
        off = [
            ("way_read_back", len(said["rows"]), _unequal(said, "read_back")),
            ("way_to_torch", len(said["rows"]), _unequal(said, "paddle_to_torch")),
            *((n, len(said[n]), len(said[n])) for n in ("only_torch", "only_paddle")),
        ]
        rows = [(Say(way), str(count), str(wrong)) for way, count, wrong in off]
        yield from [Say("weights_said"), Table("way entries off", rows), Say(word)]
        if said["problems"]:
            yield from [Say("problems"), Code("\n".join(said["problems"]))]
        kinds = Counter((row["kind"], row["change"]) for row in said["rows"])
        lines = [(kind, change, str(count)) for (kind, change), count in kinds.items()]
        yield Table("layer conversion entries", lines)
        yield from noted("certificate", said.get("notes", ()))
    if loaders:
        yield from [Say("loader_said"), Code("\n".join(sorted(loaders)))]


def _cell(text: str) -> str:
    """A text that is no part of a table's or a code's own marks."""
    return text.replace("\n", "⏎").replace("|", "¦").replace("`", "ʼ")
