"""examples/gallery: its files, its stored results against the findings, its pages, resuming."""

import subprocess
from dataclasses import replace

import pytest
from builders import ended
from checkout import Checkout

from twincheck.common.system.checkout import ROOT
from twincheck.common.system.processes import environment
from twincheck.examples.gallery import __main__ as gallery
from twincheck.examples.gallery import environments, page, run
from twincheck.examples.gallery.run import Check, Gallery, Outcome, Result
from twincheck.examples.gallery.table import HERE, Finding, read_findings, read_lines

LINES, FINDINGS = read_lines(), read_findings()
RESULTS = [run.read_result(gallery.RESULTS / f"{line.name}.json") for line in LINES]
STORED = [result for result in RESULTS if result is not None]


def folder_with(tmp_path, **files):
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/")
        path = path.with_suffix(".toml" if "pairs" not in name else ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def outcome(status, **more):
    verdict = ("ROUNDING", "DIVERGED", "INVALID")[status]
    first = {"first": "fc", "said": "it starts at fc", "reshaped": "pool"} if status == 1 else {}
    return Outcome("", [Check(1, False, status, verdict, {verdict: 1}, **first)], 2.0, 3.0, **more)


def result(name, status=0, **more):
    return Result(name, "key", name, {"torch": "torch 1", "paddle": "p 1"}, [], "", outcome(status))


# ---- the files -----------------------------------------------------------------------------------


def test_a_line_has_what_the_last_star_says_behind_its_own(tmp_path):
    folder = folder_with(
        tmp_path,
        pairs__vision="# x\n* --torch-python {tv} --input x=float32:2,3\na --torch t:A\n\n"
        "* --seed 1\nb --torch t:B  # a comment\n",
        by_hand__b='why = "names"\n[[edit]]\nfile = "case.py"\nnew = "RENAME = {}"\n',
    )
    first, second = read_lines(folder)
    assert (first.name, first.family, first.environments) == ("a", "vision", ("tv",))
    assert first.command(lambda name: f"/{name}/python", None)[:4] == [
        *("--torch", "t:A", "--torch-python", "/tv/python")
    ]
    assert second.words == ("--torch", "t:B", "--seed", "1")
    assert (first.by_hand.kinds, second.by_hand.kinds) == ((), ("RENAME",))


def test_the_files_name_each_other():
    names = [line.name for line in LINES]
    assert len(names) == len(set(names))
    assert {path.stem for path in (HERE / "by_hand").iterdir()} <= set(names)
    assert all(edit.side == "pair" for line in LINES for edit in line.by_hand.edits)
    for name in {name for line in LINES for name in line.environments}:
        pins = environments.versions(name)
        assert "numpy" in pins and {"torch", "paddlepaddle"} & set(pins), name


# ---- what is stored ------------------------------------------------------------------------------


def test_every_red_pair_has_a_finding_and_every_finding_a_pair():
    assert page.without_a_cause(STORED, FINDINGS) == []
    names = {line.name for line in LINES}
    assert [f.name for f in FINDINGS if not set(f.pairs) <= names] == []


def test_what_was_mended_is_green():
    mended = [one for one in STORED if one.mended is not None]
    assert [(one.name, one.mended.verdict) for one in mended if one.mended.status != 0] == []


def test_findings_say_where_and_are_shown_by_a_green_pair_or_a_program():
    green = {one.name for one in STORED if one.mended is not None and one.mended.status == 0}
    for finding in FINDINGS:
        assert finding.pairs and finding.kind in page.KINDS, finding.name
        assert {mend.side for mend in finding.mends} <= {"torch", "paddle", "pair"}, finding.name
        assert finding.cause.endswith("."), finding.name
        if finding.kind == "theirs":
            shown = finding.changes and set(finding.pairs) <= green
            assert finding.torch and finding.paddle, finding.name
            assert shown or finding.script.is_file(), finding.name
        if finding.kind == "default":
            assert finding.arguments or finding.mends, finding.name
        if finding.kind == "ours":
            file, _, name = finding.test.partition("::")
            assert finding.commit and f"def {name}" in (ROOT / file).read_text(), finding.name


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", [f.script for f in FINDINGS if f.script.is_file() and not f.program], ids=str
)
def test_a_program_shows_what_its_finding_says(script):
    """The programs here need the two frameworks alone."""
    command = [*Checkout.interpreter, "-W", "ignore", str(script)]
    more = {"env": environment(), "timeout": 120}  # a worker's, as the warm interpreters have it
    done = ended(1, subprocess.run(command, capture_output=True, text=True, **more))
    assert done.stdout and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("template", list(page.PAGES))
def test_the_pages_are_those_of_the_stored_results(template):
    """`twincheck gallery --page` writes them."""
    written = page.PAGES[template].read_text(encoding="utf-8")
    assert written == page.render(template, LINES, STORED, FINDINGS)


# ---- running -------------------------------------------------------------------------------------


def test_a_gallery_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    lines = read_lines(folder_with(tmp_path, pairs__f="a --torch x\nb --torch x\nc --torch x\n"))
    monkeypatch.setattr(gallery, "RESULTS", tmp_path / "stored")
    ran = []

    def outcome_of(self, line, *_):
        ran.append(line.name)
        if line.name == "b" and len(ran) < 3:
            raise KeyboardInterrupt
        return outcome(0)

    monkeypatch.setattr(Gallery, "_outcome", outcome_of)
    with pytest.raises(KeyboardInterrupt):
        gallery.run_all(Gallery(tmp_path / "cache"), lines, 1)
    gallery.run_all(Gallery(tmp_path / "cache"), lines, 1)
    assert sorted(ran) == ["a", "b", "b", "c"] and len(gallery.stored(lines)) == 3
    changed = [replace(lines[0], words=("--torch", "y")), *lines[1:]]
    gallery.run_all(Gallery(tmp_path / "cache"), changed, 1)
    assert ran[4:] == ["a"]


def test_a_mend_is_tried_where_its_pair_is_red_and_nowhere_else(tmp_path, monkeypatch):
    lines = read_lines(folder_with(tmp_path, pairs__f="a --torch x\nb --torch x\n"))
    finding = Finding("f", ("a", "b"), "default", "x", arguments="--paddle-set e=1")

    def outcome_of(self, line, words, edits, label):
        return outcome(1 if line.name == "a" and "e=1" not in words else 0)

    monkeypatch.setattr(Gallery, "_outcome", outcome_of)
    a, b = (Gallery(tmp_path, (finding,)).run(line) for line in lines)
    assert (a.as_published.status, a.mended.status, b.mended) == (1, 0, None)
    assert run.read_result(tmp_path / "results" / "a.json") == a
