"""The report for a pull request: its numbers are the results', both languages have the same ones,
what is red or missing is said first, and results that do not belong together are refused.
"""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from logged import PAIR, write_logs

from twincheck.common.check.options import CheckOptions
from twincheck.common.check.record import write_record
from twincheck.common.check.result import Result
from twincheck.common.check.runner import run_step
from twincheck.common.check_all import all_steps
from twincheck.common.logs.sidecar import read_sidecar, seal, write_sidecar
from twincheck.common.logs.writer import LogWriter
from twincheck.common.pair.pairs import load_pairs
from twincheck.common.system.json_file import load_json, write_json, write_sealed
from twincheck.common.system.reasons import Kind, reasons_json
from twincheck.common.verdict.row import FAILING, claim
from twincheck.extras.pr_report import command as pr_report
from twincheck.extras.pr_report import markdown
from twincheck.extras.pr_report.facts import facts, losses_facts, output_facts
from twincheck.extras.pr_report.results import find
from twincheck.extras.pr_report.words import LANGUAGES, table
from twincheck.extras.shared.sealed import load_sealed

MODEL = "small_cnn"
STEPS = {step.number: step for step in all_steps()}


# ---- results without a framework ----------------------------------------------------------------


def tensors(step: int, rng, off: float = 0.0) -> dict:
    """Return a step's log of a small model; `off` is how far Paddle's logits are off torch's."""
    logits = rng.normal(size=(5, 12))
    runs = tuple(
        np.asarray(logits + off * (side == "paddle"), dtype)
        for side, dtype in zip(("torch", "paddle") * 2, ("f4", "f4", "f8", "f8"), strict=True)
    )
    if step == 1:
        layers = {f"body.{i}": rng.normal(size=(5, 8)) for i in range(3)}
        return layers | {"body.0.conv": rng.normal(size=(5, 8)), "logits": runs}
    if step == 3:
        return {"logits": runs, "loss": np.float64(1.6), "losses/sum": np.float64(8.1)}
    found = {f"grad/body.{i}": rng.normal(size=(5, 12)) for i in range(3)}
    found |= {"grad/body.3": runs, "loss": np.float64(2)}
    for i in range(3):
        found[f"sgd/{i:03d}/lr"] = np.float64(0.1)
        found[f"sgd/{i:03d}/loss"] = np.float64(1.5 / (i + 1))
        found[f"sgd/{i:03d}/weight/body.0"] = rng.normal(size=(5, 8))
    return found


def write_step(base: Path, step: int, off: float = 0.0, **entries) -> Path:
    """One step's logs, judged as --compare-only does, with result.json beside them."""
    folder = base / STEPS[step].name / MODEL
    stem = STEPS[step].judged[0]
    if step == 1:
        entries["outputs"] = {"main": ["logits"]}
    if step == 4:
        seen = {"sgd_worst": "body.0", "sgd_off": 2e-17, "largest_gradient": 1.0, "half": True}
        seen |= {"gradient_norm": 2.0, "largest_weight": 1.0, "directional": 0.5}
        entries["witness"] = {"main": seen}
    write_logs(folder, stem, tensors(step, np.random.default_rng(step), off), **entries)
    judge(base, step)
    return folder


def judge(base: Path, step: int) -> None:
    """Judge what is there; writes result.json."""
    given = CheckOptions(models=(PAIR,), out=base, compare_only=True, no_report=True)
    (result,) = run_step(STEPS[step], given, None)
    assert not result.error, result.error


def retell(base: Path, step: int, but: str = "nothing", **entries) -> None:
    """Let every sidecar of a step (but some) say something else, and judge it again."""
    for path in (base / STEPS[step].name / MODEL).glob("*.npy"):
        if but in path.name:
            continue
        told = replace(read_sidecar(path), **entries)
        write_sidecar(path, replace(told, seal=seal(told)))
    judge(base, step)


def write_training(base: Path) -> None:
    """Step 5 as its check leaves it."""
    folder = base / STEPS[5].name / MODEL
    write_logs(folder, "train_first", {"train/000/loss": np.float64(2.3)})
    loss = np.exp(-np.arange(40) / 10)
    for side, off in (("torch", 0.0), ("paddle", 2e-6)):
        with LogWriter(folder / f"train_full_{side}.npy") as writer:
            writer.add("curve/loss", loss + off * (np.arange(40) > 2))
        told = read_sidecar(folder / f"train_first_{side}.npy")
        told = replace(told, step="train_full", log_sha256=writer.sha256)
        write_sidecar(folder / f"train_full_{side}.npy", replace(told, seal=seal(told)))
    (folder / "train_curves.png").write_bytes(b"\x89PNG a picture")
    result = Result(STEPS[5], MODEL, folder=folder, cases=("",))
    result.rows = [claim("train/drift/epoch_001", 1e-6, 1e-4)]
    write_record(folder, result, CheckOptions(), load_pairs([PAIR])[0])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Steps 1, 3, 4 and 5, all green; tests copy it."""
    base = tmp_path_factory.mktemp("made")
    for step in (1, 3, 4):
        write_step(base, step)
    write_training(base)
    return base


@pytest.fixture
def base(made, tmp_path):
    """A copy that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "results"))


def written(base: Path, kind: str = "formers", lang: str = "en", *more: str) -> tuple[str, int]:
    """The report of all results below a folder, and the exit status."""
    out = base / f"{kind}-{lang}.md"
    status = pr_report.main(["--for", kind, "--lang", lang, str(base), *more, "--out", str(out)])
    return (out.read_text() if out.is_file() else "", status)


# ---- a reviewer's reading -----------------------------------------------------------------------


def read_tables(text: str) -> list[tuple[str, list[str], list[list[str]]]]:
    """(heading, columns, rows) of every table."""
    found, heading, rows = [], "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("## "):
            heading = re.sub(r"^## ([\d]+\. |[一二三四五六七八九十]+、)", "", line)
        if line.startswith("| "):
            rows.append([c.strip() for c in re.split(r"(?<!\\)\|", line.strip()[1:-1])])
        elif rows:
            assert len({len(row) for row in rows}) == 1, rows
            found.append((heading, rows[0], rows[2:]))
            rows = []
    return found


def numbers(text: str) -> list[str]:
    """All figures of a text."""
    return re.findall(r"(?<![\w.])[-+−]?\d+(?:\.\d+)?(?:e[-+]\d+)?(?![\w])", text)


def cells(text: str, heading: str, first: str) -> list[dict[str, str]]:
    """Return the rows of a section's tables that have a cell, by columns."""
    found = [(columns, rows) for name, columns, rows in read_tables(text) if name == heading]
    every = (dict(zip(columns, row, strict=True)) for columns, rows in found for row in rows)
    return [row for row in every if first in row.values()]


# ---- what a report says -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "met"), [("formers", "met"), ("vision", "**NOT met**"), ("contest", "**NOT met**")]
)
def test_its_numbers_are_those_of_the_results(base, kind, met):
    """Mean or largest difference is held against each kind's limit; both sides in their columns."""
    figures = {}
    write_step(base, 1, off=5e-4)
    for path in base.rglob("result.json"):
        said = load_sealed(path)
        figures[said["step"]] = facts(path.parent, said)
    text, status = written(base, kind)
    assert status == 1 and str(base) not in text.replace(PAIR, "")
    (logits,) = figures[1]["outputs"]
    row, *_ = cells(text, "Forward, float32", "`logits`")
    for name in ("mean", "max", "rms"):
        assert row[table()[name][0]] == f"{logits[name]:.2e}"
    assert row[table()["limit_met"][0]] == met
    for key, (torch, paddle) in figures[3]["values"].items():
        (row,) = cells(text, "Loss", f"`{key}`")
        assert (row["PyTorch"], row["Paddle"]) == (f"{torch:.9g}", f"{paddle:.9g}")
    row, *_ = cells(text, "Training", "10")
    assert [float(row["PyTorch"]), float(row["Paddle"])] == pytest.approx(
        figures[5]["training"]["shown"][9][1:], abs=1e-8
    )
    assert row[table()["paddle_less_torch"][0]] == "+0.000002000"
    assert (base / f"{kind}-en.png").read_bytes() == b"\x89PNG a picture"


def test_both_languages_have_the_same_tables_and_numbers(base):
    write_plain(base)
    texts = [written(base, "formers", lang)[0] for lang in LANGUAGES]
    shapes = [[(len(c), len(r)) for _, c, r in read_tables(text)] for text in texts]
    assert shapes[0] == shapes[1] and len(shapes[0]) > 25
    cells = [
        [numbers(c) for _, _, rows in read_tables(text) for row in rows for c in row]
        for text in texts
    ]
    assert cells[0] == cells[1]
    blocks = [re.findall(r"^```.*?^```", text, re.S | re.M) for text in texts]
    told = [[one for one in found if one.startswith("```text")] for found in blocks]
    assert len(told[0]) == len(told[1]) > 0  # what a check said has the report's language
    code = [[one for one in found if not one.startswith("```text")] for found in blocks]
    assert code[0] == code[1] and code[0]
    assert not re.search("[一-鿿]", texts[0])


def test_every_word_is_there_in_both_languages_with_the_same_fields():
    fields = re.compile(r"\{(\w+)\}")
    for name, both in table().items():
        assert len(both) == 2 and all(both), name
        assert set(fields.findall(both[0])) == set(fields.findall(both[1])), name


def test_what_was_said_is_in_the_reports_language(base):
    """A red result's headline, a certificate's problem and note, why losses and a row are red."""
    write_plain(base)
    found = find([base], None)
    told = Kind.SETTING_DIFFERS(setting="epsilon", torch="1e-12", paddle="1e-06")
    ((_, certificate),) = found.plain["certificate.json"]
    ((_, trained),) = found.plain["trainers.json"]
    certificate |= {"problems": [told], "notes": [told], "reasons": reasons_json([told, told])}
    certificate["exit_code"] = 1
    trained["rows"][0] |= {"note": told, "reasons": reasons_json([told]), "verdict": "DIVERGED"}
    trained["exit_code"] = 1
    run = found.runs[0]
    row = run.said["rows"][0]
    row |= {"verdict": "DIVERGED", "note": told, "reasons": reasons_json([told])}
    run.said.update(exit_code=1, headline=told, headline_reasons=reasons_json([told]))
    english, chinese = (markdown.markdown(found, "formers", lang, "x")[0] for lang in LANGUAGES)
    assert english.count(told) >= 5 and told not in chinese
    assert chinese.count("epsilon 在 torch 中为 1e-12") == english.count(told)


def test_what_an_author_let_pass_is_said(base):
    given = CheckOptions(
        models=(PAIR,), out=base, compare_only=True, no_report=True, allow=("precision",)
    )
    run_step(STEPS[1], given, None)
    text, _ = written(base)
    assert "let pass by the author (`--allow precision`): step 1" in text.partition("## ")[0]


@pytest.mark.parametrize(("lang", "said"), [("en", "NOT ALIGNED"), ("zh", "未对齐")])
def test_what_is_red_stands_first_and_whole(base, lang, said):
    write_step(base, 4, off=3e-3)
    text, status = written(base, "formers", lang)
    assert status == 1 and said in text.splitlines()[2]
    assert "DIVERGED" in text.splitlines()[4]
    rows = load_sealed(base / "step4_backward" / MODEL / "result.json")["rows"]
    failing = [row for row in rows if row["verdict"] in FAILING]
    tables = [row for _, _, rows in read_tables(text) for row in rows]
    for row in failing:
        assert any(f"`{row['key']}`" in one and row["verdict"] in one[-1] for one in tables)


@pytest.mark.parametrize("step", [1, 5])
def test_what_is_missing_is_named_with_its_command(base, step):
    shutil.rmtree(base / STEPS[step].name)
    text, status = written(base)
    name = {1: "Forward, float32", 5: "Training"}[step]
    assert status == 0 and not cells(text, "Summary", name)
    (row,) = cells(text, "What was not checked", name)
    assert f"twincheck {STEPS[step].command} " in row["command"]


# ---- other commands' results --------------------------------------------------------------------


def write_plain(base: Path, generation: str = "ROUNDING", share: float = 0.999) -> None:
    """Write what generation, agreement, trainers and the certificate leave."""
    red = int(generation == "DIVERGED")
    top = {"top10": {"torch": [3, 1], "paddle": [3, 1]}, "equal_top10": True, "cosine": 1.0}
    wrong = {"token": 1, "position": 3, "reference": 8, "torch": 8, "paddle": 7, "margin": 1e-3}
    wrong |= {"paddle_float64": 7, "noise": {"torch": 1e-7, "paddle": 1e-7}, "verdict": "DIVERGED"}
    prompt = {"prompt": [1, 2], "text": "a | `b`\nc", "torch": [5, 8], "paddle": [5, 8 - red]}
    prompt |= {
        "texts": {"torch": "e|h", "paddle": "eh"},
        "equal": 2 - red,
        "tokens": 2,
        "differences": [wrong] * red,
        "first_step": top,
    }
    itself = {"side": "paddle", "way": "cache", "verdict": "ROUNDING", "gap": 1e-9, "allowed": 1e-8}
    folder = base / "step5_train" / MODEL
    told = {"model": MODEL, "dtype": "float32", "preset": "default", "seed": 0, "device": "cpu"}
    more = {"verdict": generation, "exit_code": red, "equal": 2 - red, "tokens": 2, "notes": []}
    write_json(folder / "generation.json", told | more | {"prompts": [prompt], "itself": [itself]})
    side = {"file": "log.csv", "format": "csv", "name": "loss", "logged": 2, "first_step": 1}
    side |= {"last_step": 2}
    curve = {"steps": [1, 2], "torch": [2.5, 2.25], "paddle": [2.5, 2.125]}
    row = {"key": "train/first", "verdict": "CLOSE", "gap": 0.0, "allowed": 1e-6}
    trainers = {"verdict": "CLOSE", "exit_code": 0, "compared": curve}
    trainers |= {"first": {"step": 1, "difference": 0.0}, "rows": [row], "notes": []}
    trainers |= {"sides": {"torch": side, "paddle": side | {"file": None}}, "cannot_show": ["all"]}
    write_json(folder / "trainers.json", told | trainers)
    top5 = {"k": 5, "set_share": 0.99, "order_share": 0.98}
    choice = {"name": "logits", "decisions": 1000, "top5": top5}
    choice["top1"] = {"equal": round(1000 * share), "share": share}
    counts = {"disagreements": 1, "FLIP": 1, "DIVERGED": 0, "INVALID": 0, "unjudged": 0}
    odd = {"example": 7, "choice": "logits", "rank": 1, "torch": 3, "paddle": 4, "margin": 1e-7}
    odd |= {"allowed": 2e-7, "verdict": "FLIP"}
    agreement = {"verdict": "FLIP", "exit_code": 0, "choices": [choice], "counts": counts}
    data = {"path": "images.npz", "kind": "npz", "examples": 1000, "sha256": "3" * 64}
    agreement |= {"data": data, "disagreements": [odd], "notes": [], "versions": {"torch": "1.0"}}
    (base / "step2_metric" / MODEL).mkdir(parents=True, exist_ok=True)
    write_json(base / "step2_metric" / MODEL / "agreement.json", told | agreement)
    entry = {"kind": "Linear", "change": "transposed", "read_back": True, "paddle_to_torch": True}
    certificate = {"certified": True, "exit_code": 0, "rows": [entry] * 3, "round_trip": True}
    certificate |= {"only_torch": [], "only_paddle": [], "problems": [], "notes": []}
    write_json(base / "certificate.json", {"model": MODEL, **certificate})


def test_other_commands_results_have_their_tables(base):
    write_plain(base)
    text, status = written(base)
    assert status == 0
    rows = {row[0]: row for row in read_tables(text)[0][2]}
    assert rows["Generation"][2:5] == ["2/2 (100.00%)", "100%", "met"]
    assert rows["Agreement on a data set"][2:5] == ["99.9000%", "≥ 99.8%", "met"]
    assert rows["Conversion of weights, round trip"][2].startswith("0 of 3")
    assert rows["Training beside another trainer"][5] == "CLOSE"
    losses = next(r for h, c, r in read_tables(text) if "2.125" in str(r))
    assert losses[1] == ["2", "2.25", "2.125", "-0.125000000"]


def test_a_red_generation_and_a_missed_limit_stand_in_the_first_lines(base):
    write_plain(base, generation="DIVERGED", share=0.997)
    text, status = written(base)
    head = text.partition("## ")[0]
    assert status == 1 and "NOT ALIGNED" in text.splitlines()[2]
    assert "**RED**, Generation" in head and "Agreement on a data set" in head
    assert "limit ≥ 99.8%; our verdict is FLIP" in head


def test_half_precision_says_that_paddle_was_emulated(base, tmp_path):
    half = tmp_path / "half"
    write_step(half, 1)
    retell(half, 1, but="fp64", dtype="bfloat16")
    text, _ = written(base, "formers", "en", str(half))
    rows = [row for _, columns, rows in read_tables(text) if "kernels" in columns for row in rows]
    assert {(row[1], row[9]) for row in rows if row[0] == "1"} == {
        ("float32", "own"),
        ("bfloat16", "PyTorch own, Paddle **emulated**"),
    }
    assert "## 4. Forward and backward, half precision" in text


# ---- what is refused ----------------------------------------------------------------------------


def _edited(base):
    path = base / "step1_forward" / MODEL / "result.json"
    path.write_text(path.read_text().replace('"verdict": "ROUNDING"', '"verdict": "IDENTICAL"', 1))


def _other_log(base):
    folder = base / "step1_forward" / MODEL
    shutil.copyfile(folder / "forward_all_torch.npy", folder / "forward_all_paddle.npy")


def _twice(base):
    shutil.copytree(base / "step1_forward", base / "again")


def _gone_log(base):
    (base / "step4_backward" / MODEL / "bp_align_all_paddle.json").unlink()


def _all_changed(base):
    """All of one state, but not of the files that are here now."""
    shutil.rmtree(base / "step5_train")
    for step in (1, 3, 4):
        retell(base, step, sources={"case.py": "4" * 64})


def _changed(**entries):
    return lambda base: retell(base, 3, **entries)


REFUSED = {
    "edited": (_edited, "result.json: refused: it is torn, or was edited"),
    "another log": (_other_log, "forward_all_paddle.npy is not the file that result.json tells of"),
    "twice": (_twice, "are two results of the same run"),
    "a log is gone": (_gone_log, "bp_align_all_paddle.json is not the file that result.json"),
    "another version": (_changed(framework_version="9.9"), "framework is another in"),
    "other weights": (_changed(weights_sha256="4" * 64), "the weights are others"),
    "other code": (_changed(sources={"torch_model.py": "5" * 64}), "torch_model.py of the pair is"),
    "changed files": (_all_changed, "is stale: case.py"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_results_that_do_not_belong_together_are_refused(base, capsys, monkeypatch, what):
    monkeypatch.setattr("twincheck.common.check.result.changed_sources", lambda *given: [])
    change, said = REFUSED[what]
    change(base)
    text, status = written(base)
    error = " ".join(capsys.readouterr().err.split())
    assert status == 2 and text == "" and said in error and error.count("error:") == 1


def test_what_became_of_another_models_logs_is_not_asked(base):
    shutil.copytree(base / "step1_forward" / MODEL, base / "step1_forward" / "other")
    path = base / "step1_forward" / "other" / "result.json"
    said = load_sealed(path) | {"model": "other"}
    write_sealed(path, json.dumps({name: said[name] for name in said if name != "seal"}))
    (path.parent / "forward_all_torch.json").write_text("run again")
    assert written(base, "formers", "en", "--model", MODEL)[1] == 0


def test_what_another_command_made_of_other_files_is_refused(base, capsys, monkeypatch):
    for room in ("common.check.result", "extras.pr_report.results"):
        monkeypatch.setattr(f"twincheck.{room}.changed_sources", lambda *given: [])
    _all_changed(base)
    (base / "step5_train" / MODEL).mkdir(parents=True)
    write_plain(base)
    assert written(base)[1] == 0
    path = base / "step5_train" / MODEL / "generation.json"
    write_json(path, load_json(path) | {"sources": {"paddle": {"case.py": "5" * 64}}})
    assert written(base)[1] == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"case.py of the pair is another file in {path} than in" in told


def test_results_of_two_states_of_the_workbench_are_refused(base, capsys, monkeypatch):
    """One step's logs are of the files that are here, another's are not."""
    ran = []
    monkeypatch.setattr(
        "twincheck.extras.pr_report.results.workbench_sha256",
        lambda pair, side, script: ran.append(script) or "6" * 64,
    )
    shared = "twincheck.extras.generation.generate"
    command = f"python -m step1_forward.torch.forward {shared} request_torch.json"
    retell(base, 3, workbench_sha256="6" * 64, command=command)
    assert written(base)[1] == 0  # the others do not say
    assert set(ran) == {shared}, "the files are those of the script that ran"
    command = "python -m step4_backward.torch.backward request_torch.json"
    retell(base, 4, workbench_sha256="7" * 64, command=command)
    assert written(base)[1] == 2
    assert "other files of the workbench" in " ".join(capsys.readouterr().err.split())


def test_two_models_or_none_are_refused(base, tmp_path, capsys):
    assert written(tmp_path / "results", "formers", "en", "--model", "bert") == ("", 2)
    assert "no result of bert; there are results of small_cnn" in capsys.readouterr().err.replace(
        "\n", " "
    )
    write_plain(base)
    path = base / "certificate.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model": "bert"}))
    assert written(base)[1] == 2
    assert "results of 2 models (bert, small_cnn)" in capsys.readouterr().err.replace("\n", " ")
    assert written(base, "formers", "en", "--model", MODEL)[1] == 0
    (tmp_path / "empty").mkdir()
    assert written(tmp_path / "empty")[1] == 2


# ---- figures ------------------------------------------------------------------------------------


def test_figures_of_an_output():
    torch = np.array([[[0.0, 2.0, 1.0]], [[3.0, 4.0, 9.0]]], np.float32)
    paddle = torch + np.array([0.0, 0.5, -0.25], np.float32)
    said = output_facts(torch, paddle)
    assert (said["max"], said["mean"]) == (0.5, 0.25) and said["shape"] == [2, 1, 3]
    assert said["rms"] == pytest.approx(np.sqrt(0.3125 / 3))
    assert said["next_ids"] == [[1, 2, 0]] * 2 and said["positions"] == said["same_top1"] == 2
    assert said["first"][1][:3] == [0.0, 2.5, 0.75]
    turned = output_facts(torch, torch[..., ::-1])
    assert (turned["same_top1"], turned["same_top"], turned["next_ids"][1]) == (1, 0, [1, 0, 2])
    assert output_facts(torch, np.full_like(torch, np.nan))["max"] is None
    assert output_facts(torch.astype(int), torch.astype(int)) == {}


def test_figures_of_two_trainings():
    said = losses_facts(np.array([2.0, 1.0, 0.5, 0.25]), np.array([2.0, 1.0, 0.75, 0.125]))
    assert (said["equal_first"], said["mean_abs"], said["largest"]) == (2, 0.09375, 0.25)
    assert losses_facts(np.array([1.0, np.nan]), np.array([1.0, np.inf]))["largest"] is None
    assert said["shown"][2] == [3, 0.5, 0.75]
