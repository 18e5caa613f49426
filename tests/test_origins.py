"""Several faults at once: every origin is listed, with its lines, and nothing else is."""

import runpy
from types import SimpleNamespace

import pytest
from ported import SEVERAL_FAULTS as PAIR

from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.judge import judge_folder

OF_PAIR = SimpleNamespace(**runpy.run_path(PAIR / "case.py"))
PLANTED = OF_PAIR.PLANTED
# What each planted fault makes an origin of, forward and, in step 4 alone, backward.
FORWARD = {
    **{fault: set(keys) for fault, keys in OF_PAIR.FORWARD.items()},
    "nan": {"blocks.0/1/rest/1"},
    "detached": set(),
    "selu": {"blocks.0"},  # CONSTANT
}
BACKWARD = {
    "norm": {"grad_of/blocks.1.norm:in/0", "grad/blocks.1.norm.weight"},
    "dict": {"grad_of/blocks.2.mix"},
    "tuple": {"grad_of/blocks.0:in/0"},
    "nan": {"grad_of/blocks.0:in/0"},
    "between": {"grad_of/blocks.2/1/rest/1"},
    "second_call": {"grad/twice.bias"},
    "bias": {"grad/head.bias"},
    "end": {"grad_of/head"},
    "detached": {"grad_of/blocks.2.mix"},
    "selu": {"grad_of/blocks.0.mix"},
}


@pytest.fixture(scope="module")
def reports(checkout):
    """Step -> (finished process, report): one run of all cases each."""
    return {step: checkout.rows(step, "--model", str(PAIR), "--no-report") for step in (1, 4)}


def origins(report, case):
    """The rows of a case, below its name, that are named as origins; witnesses are claims."""
    return {
        row["key"].removeprefix(f"{case}/")
        for row in report["rows"]
        if row["key"].startswith(f"{case}/") and row["origin"] and "/witness/" not in row["key"]
    }


@pytest.mark.parametrize("case", PLANTED)
@pytest.mark.parametrize("step", [1, 4])
def test_every_origin_is_listed_and_nothing_else(reports, step, case):
    done, report = reports[step]
    assert done.returncode == 1, done.stdout + done.stderr
    wanted = set().union(*(FORWARD[fault] for fault in PLANTED[case]))
    if step == 4:
        wanted |= set().union(*(BACKWARD[fault] for fault in PLANTED[case]))
    assert origins(report, case) == wanted


@pytest.mark.parametrize("step", [1, 4])
def test_the_pair_without_a_fault_is_aligned(reports, step):
    rows = [row for row in reports[step][1]["rows"] if row["key"].startswith("none/")]
    assert rows and {row["verdict"] for row in rows} <= {"IDENTICAL", "ROUNDING"}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("step", "stem"), [(1, "forward_all"), (4, "bp_align_all")])
def test_no_word_of_a_sentence_decides(reports, checkout, monkeypatch, step, stem, strict):
    """Rows have the same verdicts, origins and reasons if each template is another text."""

    def facts():
        judged = judge_folder(checkout.logs(step, PAIR.name), [stem], strict=strict)[stem]
        words = {"note": "", "excuse": "", "measure": ""}
        rows = [row.as_json() | words for row in judged.rows]
        return rows, judged.needs, judged.first_diverged, judged.exit_code

    with_words = facts()
    assert {"DIVERGED", "CARRIED", "INVALID", "CONSTANT"} <= {r["verdict"] for r in with_words[0]}
    for kind in Kind:
        monkeypatch.setattr(kind, "template", "xx")
    assert facts() == with_words


def test_a_fault_below_a_constant_fails(reports):
    rows = {row["key"]: row for row in reports[1][1]["rows"]}
    assert rows["below_a_constant/blocks.0"]["verdict"] == "CONSTANT"
    assert rows["below_a_constant/blocks.2/1/low"]["verdict"] == "DIVERGED"
    assert rows["below_a_constant/logits"]["verdict"] == "CARRIED"


def test_what_a_residual_stream_brings_is_carried(reports):
    rows = {row["key"]: row for row in reports[1][1]["rows"]}
    row = rows["between_and_bias/twice:in/0"]
    assert row["verdict"] == "CARRIED" and "code around the modules" in row["note"]


def line_of(side, text):
    """The number of the only line of that side's model that holds `text`."""
    lines = (PAIR / f"{side}_model.py").read_text().splitlines()
    found = [i for i, line in enumerate(lines, 1) if text in line]
    assert len(found) == 1, found
    return found[0]


def test_file_and_line_of_both_sides(reports):
    """Of code in between the call; of a user's module its forward; of a framework's layer whose
    setting differs the line that builds it."""
    lines = [line.split(maxsplit=1) for line in reports[1][0].stdout.splitlines()]
    for side in ("torch", "paddle"):
        path = PAIR / f"{side}_model.py"
        shown = {words[-1] for words in lines if words[:1] == [side]}
        built = line_of(side, "self.norm = nn.LayerNorm(")
        called = line_of(side, "self.mix(self.norm(x))")
        between = line_of(side, "y, more = block(x)")
        own = [n for n in range(1, 40) if f"{path}:{n}" in shown]
        assert f"{path}:{built}" in shown and f"{path}:{between}" in shown, shown
        forward = [n for n in own if built < n < called]
        assert len(forward) == 1, "def forward of Block"
