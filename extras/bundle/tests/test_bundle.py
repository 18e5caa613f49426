"""A bundle that was tampered with is found out, however it was, and nothing of it is executed.

Each kind is tried twice where that makes sense: as it comes, and by an attacker who makes every
hash, count and summary of the manifest fit again.  What is then no contradiction any more is listed
as such: there the root alone tells.
"""

import json
import os
import re
import shutil
import struct
import warnings
import zipfile

import numpy as np
import pytest
from builders import printed, python
from forged import gadgets, write_pickled
from logged import PAIR as SMALL

from twincheck.common import judge_again
from twincheck.extras.bundle import Kind, command, verify
from twincheck.extras.bundle import write as writing
from twincheck.extras.bundle.submission import report_problems
from twincheck.extras.bundle.tests.bundled import (
    BACKWARD,
    FORWARD,
    Forgery,
    make_bundle,
    seed_everywhere,
)
from twincheck.extras.bundle.verification import verify_bundle
from twincheck.extras.shared.archive import MANIFEST, Archive, ArchiveError

NLP, CV, SAMPLES = (f"submission/small_cnn/{name}" for name in ("nlp/log_reprod", "cv", "samples"))
LOG = f"{FORWARD}/forward_all_paddle_fp64.npy"
REPORT = f"{NLP}/forward_diff.log"
REPORTS = (REPORT, f"{CV}/result/log/forward_diff.log", f"{SAMPLES}/Step1/forward_diff.log")
PAIR = (
    f"{NLP}/forward_paddle.npy",
    f"{CV}/result/forward_paddle.npy",
    f"{SAMPLES}/Step1/forward_paddle.npy",
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle whose first part is not whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "PART_BYTES", 40_000)
        return make_bundle(tmp_path_factory.mktemp("results"))


@pytest.fixture
def forgery(bundle):
    return Forgery(bundle)


# ---- what it holds ------------------------------------------------------------------------------


def test_a_bundle_as_it_was_written_is_verified(bundle, capsys):
    found = verify_bundle(bundle)
    assert found.problems == []
    assert (found.rows, found.derived, found.lines, found.arrays) == (67, 42, 7, 14)
    said = printed(capsys, 0, verify.main([str(bundle), "--root", found.root])).out
    assert "intact; " in said and found.root in said
    assert "67 rows, 42 derived again" in said
    assert "not derived again, 23 rows: their tensors are not inside" in said


def test_the_same_results_make_the_same_bytes(bundle, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "PART_BYTES", 40_000)
        other = make_bundle(tmp_path)
    with Archive(bundle) as one, Archive(other) as two:
        assert list(one.entries) == list(two.entries)
        odd = [name for name in one.entries if one.read(name) != two.read(name)]
    assert odd == []
    assert bundle.read_bytes() == other.read_bytes()


def test_all_steps_together_leave_one(bundle, tmp_path, capsys):
    shutil.copytree(bundle.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / bundle.name).unlink()
    said = printed(capsys, 1, judge_again.main(["--model", SMALL, "--out", str(tmp_path)])).out
    found = verify_bundle(tmp_path / bundle.name)
    assert found.problems == [] and f"root: {found.root}" in said.splitlines()
    held, former = (Forgery(path).files for path in (tmp_path / bundle.name, bundle))
    rows = [name for name in former if name.endswith("/rows.jsonl")]
    assert len(rows) == 2 and all(held[name] == former[name] for name in rows)


def test_rows_in_doubt_are_inside(forgery):
    inside = {(r["key"], r["why"]) for r in forgery.lines(f"{FORWARD}/inside.jsonl")}
    assert {
        ("body.wrong", "not green"),
        ("choice", "not green"),
        ("logits", "the guide's"),
    } < inside
    whys = {r["why"] for r in forgery.lines(f"{BACKWARD}/inside.jsonl")}
    assert whys == {"the guide's", "most used", "largest of its kind", "sample"}


def test_neither_framework_nor_another_library_is_imported(bundle):
    code = (
        "import sys\nfrom twincheck.extras.bundle import verify\n"
        f"status = verify.main([{str(bundle)!r}])\n"
        "names = ('torch', 'paddle', 'reprod_log', 'pandas', 'rich', 'scipy', 'jinja2', 'sklearn',"
        " 'matplotlib', 'twincheck.common.check', 'twincheck.common.report',"
        " 'twincheck.common.pair', 'twincheck.common.sides')\n"
        "print([n for n in names if n in sys.modules])\n"
        "print(sorted({n.partition('.')[0] for n in sys.modules if n.startswith('numpy')}))\n"
        "sys.exit(status)\n"
    )
    assert python("-c", code).splitlines()[-2:] == ["[]", "['numpy']"]


# ---- what contradicts itself --------------------------------------------------------------------

SIDECAR = LOG.replace(".npy", ".json")
ROWS, INSIDE, MADE = (f"{FORWARD}/{name}.jsonl" for name in ("rows", "inside", "made"))
SCALES = f"{BACKWARD}/scales.json"
TAMPERED = {}  # what was done to it -> how, of a Forgery and a folder


def tampering(how):
    """One that is more than a line."""
    TAMPERED[how.__name__] = how


def in_all_dialects(old, new):
    """A change of the report, in all dialects."""

    def change(f, _):
        for name in REPORTS:
            forged = re.sub(old, new, f.files[name], count=1)
            assert forged != f.files[name]
            f.files[name] = forged

    return change


def made_of(key, **own):
    """A record of what was made of a tensor."""
    return [{"stem": "forward_all", "key": key, "own": own}]


def edited_scale(change):
    """S of a group of gradients, as `change` makes it."""

    def edit(f, _):
        scales = json.loads(f.files[SCALES])
        scales["bp_align_all"]["grad"] = change(*scales["bp_align_all"]["grad"])
        f.files[SCALES] = json.dumps(scales).encode()

    return edit


def put(f, name, content):
    f.files[name] = content


TAMPERED |= {
    "edited report line": in_all_dialects(rb"value: [^\n]*", b"value: 1e-09"),
    # A number of a row whose tensors are inside; then of one whose are not: its numbers contradict
    # each other.
    "edited metric": lambda f, _: f.edit_row(FORWARD, "logits", max_abs=1.25e-9),
    "edited metric without tensors": lambda f, _: f.edit_row(
        FORWARD, f.part(FORWARD)["left_out"][0]["key"], max_abs=1e-30
    ),
    "flip made green": lambda f, _: f.edit_row(
        FORWARD, "choice", verdict="IDENTICAL", max_abs=0.0, mean_abs=0.0, note="", reasons=[]
    ),
    "row added": lambda f, _: f.change_lines(  # of a tensor that nobody logged
        ROWS, lambda rows: [*rows, rows[0] | {"key": "body.more"}]
    ),
    "row twice": lambda f, _: f.change_lines(ROWS, lambda rows: [*rows, rows[0]]),
    "row without numbers": lambda f, _: f.edit_row(FORWARD, "logits", gap="1e-16"),
    "endless number": lambda f, _: f.edit_row(FORWARD, "logits", gap=10**400),
    "other seed": lambda f, _: f.edit_json(SIDECAR, seed=1),
    "other maker": lambda f, _: f.edit_json(SIDECAR, framework="torch", side="torch"),
    # What is inside was taken from another log.
    "other log hash": lambda f, _: f.edit_json(SIDECAR, log_sha256="4" * 64),
    # What was made of a tensor that agrees anyhow.
    "other neighbours": lambda f, _: f.put_lines(MADE, made_of("logits", gap=1e-3)),
    # How far a side's gradient is from what an SGD step of its own shows.
    "other witness": lambda f, _: f.edit_row(
        BACKWARD, "main/witness/sgd_step/paddle", gap=1e-17, verdict="ROUNDING"
    ),
    "witness made up": lambda f, _: f.change_lines(
        f"{BACKWARD}/rows.jsonl",
        lambda rows: [*rows, rows[-1] | {"key": "other/witness/sgd_step/paddle"}],
    ),
    "guide passed": lambda f, _: f.part(FORWARD).update(guide_passed=False),
    # As if other gradients were far larger, and of a tensor that is said not to be inside.
    "edited scale": edited_scale(lambda scale, *rest: [1e6 * scale, *rest]),
    # Another log of the guide's pair, in one dialect; a report that one dialect has not.
    "one dialect": lambda f, _: put(f, PAIR[1], f.files[PAIR[1].replace("paddle", "ref")]),
    "missing dialect": lambda f, _: f.files.pop(REPORTS[2]),
    "missing file": lambda f, _: f.files.pop(SIDECAR),
    # Nested beyond reason.
    "deep JSON": lambda f, _: put(f, f"{FORWARD}/scales.json", b'{"a":' + b"[" * 100_000),
}


@tampering
def flipped_bit(f, scratch):
    """One bit in a tensor that is inside."""
    content = bytearray(f.files[LOG])
    content[len(content) - 64] ^= 0x10
    f.files[LOG] = bytes(content)


@tampering
def edited_verdict(f, scratch):
    """A verdict, and the row with it: numbers, note and origin as if nothing were."""
    good = next(row for row in f.lines(ROWS) if row["key"] == "logits")
    told = ("verdict", "gap", "allowed", "max_abs", "mean_abs", "guide_passed", "note", "origin")
    f.edit_row(FORWARD, "body.wrong", **{name: good[name] for name in told})


@tampering
def row_left_out(f, scratch):
    """A row that is wrong, with what is inside of it."""
    for name in (ROWS, INSIDE):
        f.change_lines(name, lambda lines: [r for r in lines if r["key"] != "body.wrong"])


@tampering
def copied_over(f, scratch):
    """Torch's logs as Paddle's."""
    for suffix in ("", "_fp64"):
        torch = f.files[f"{FORWARD}/forward_all_torch{suffix}.npy"]
        f.files[f"{FORWARD}/forward_all_paddle{suffix}.npy"] = torch


@tampering
def nan_put_in(f, scratch):
    """NaN in a tensor."""

    def change(tensors):
        tensors["logits"][0, 0] = np.nan
        return tensors

    f.edit_log(LOG, change, scratch)


@tampering
def renamed_key(f, scratch):
    """A tensor under another key, as if it had never been logged."""

    def change(tensors):
        return {key.replace("body.wrong", "body.other"): v for key, v in tensors.items()}

    for side in ("torch", "paddle"):
        for suffix in ("", "_fp64"):
            f.edit_log(f"{FORWARD}/forward_all_{side}{suffix}.npy", change, scratch)


@tampering
def settled(f, scratch):
    """A wrong row as if all rows together had made it INSIDE."""
    row = next(r for r in f.lines(ROWS) if r["key"] == "body.wrong")
    f.edit_row(
        FORWARD,
        "body.wrong",
        verdict="INSIDE",
        origin=False,
        excuse="other values",
        excuses=["INSIDE_VALUES"],
    )
    own = {name: row[name] for name in ("verdict", "origin", "excuse", "excuses")}
    f.put_lines(MADE, made_of("body.wrong", **own))


@tampering
def sample_by_hand(f, scratch):
    """A sample that somebody has picked: what the hash draws first is not inside."""
    records = f.lines(f"{BACKWARD}/inside.jsonl")
    first = next(i for i, record in enumerate(records) if record["why"] == "sample")
    f.put_lines(f"{BACKWARD}/inside.jsonl", records[:first] + records[first + 1 :])


@tampering
def doubtful_row_taken_out(f, scratch):
    """The tensors of a wrong row are no longer inside."""
    f.change_lines(INSIDE, lambda records: records[1:])


@tampering
def replaced_pair(f, scratch):
    """Another log of the guide's pair, in all dialects."""

    def change(tensors):
        return {key: values + values.dtype.type(1e-8) for key, values in tensors.items()}

    for name in PAIR:
        f.edit_log(name, change, scratch)


def code_in(names, gadget):
    """Logs that run a command when they are unpickled."""

    def change(f, scratch):
        stream = gadgets(f"touch '{scratch / 'executed'}'")[gadget]
        for name in names:
            f.files[name] = write_pickled(scratch / "log.npy", stream).read_bytes()

    return change


TAMPERED["code in a log"] = code_in([LOG], "value, protocol 4")
TAMPERED["code in the submission"] = code_in(PAIR, "instead of the dict")


@pytest.mark.slow
@pytest.mark.parametrize("rehashed", [False, True], ids=["as it is", "every hash fits again"])
@pytest.mark.parametrize("kind", TAMPERED)
def test_tampering_is_found(forgery, tmp_path, kind, rehashed):
    TAMPERED[kind](forgery, tmp_path)
    found = verify_bundle(forgery.write(tmp_path / "forged.zip", rehashed))
    assert found.problems, f"not found: {kind}"
    assert all(len(problem) < 1000 and "\n" not in problem for problem in found.problems)
    assert str(tmp_path) not in str(found.problems) and "/tmp" not in str(found.problems)
    assert not (tmp_path / "executed").exists()


OTHER_COMMAND = ["twincheck step1 other"]
# Nothing inside a bundle speaks against these, once every hash fits: README of the bundle.
SILENT = {
    "edited commit": lambda f: f.manifest.update(commit={"id": "0" * 40, "changed": False}),
    "edited page": lambda f: put(f, "reports/report.html", b"<!doctype html><title>Well</title>"),
    "extra file": lambda f: put(f, "reports/more.html", b"<!doctype html>"),
    "other command": lambda f: f.manifest.update(commands=OTHER_COMMAND),
    "seed everywhere": seed_everywhere,
}


@pytest.mark.parametrize("kind", SILENT)
def test_what_only_the_root_tells(bundle, forgery, tmp_path, kind, capsys):
    """As it comes it is found.  Where the attacker makes all fit, it is another root."""
    SILENT[kind](forgery)
    if kind in ("edited commit", "other command"):  # of a manifest that is not finished anew
        content = bundle.read_bytes()
        sha256 = json.dumps(Forgery(bundle).manifest["commit"]["id"]).encode()
        assert content.count(sha256) == 1
        (tmp_path / "bare.zip").write_bytes(
            content.replace(sha256, b'"' + b"0" * (len(sha256) - 2) + b'"')
        )
        with pytest.raises(ArchiveError, match="CRC"):
            verify_bundle(tmp_path / "bare.zip")
    else:
        assert verify_bundle(forgery.write(tmp_path / "bare.zip", False)).problems
    path = forgery.write(tmp_path / "forged.zip", True)
    found = verify_bundle(path)
    assert found.problems == [], "then the bundle's README must say so no longer"
    root = verify_bundle(bundle).root
    assert found.root != root
    assert verify.main([str(path), "--root", root]) == 1
    assert "this is another bundle" in capsys.readouterr().out


def test_of_a_changed_bundle_the_files_are_named_and_nothing_else_is_judged(
    forgery, tmp_path, capsys
):
    """A log with one flipped byte, under the author's own manifest: no row of it is wrong."""
    forgery.files[LOG] = forgery.files[LOG][:-1] + bytes([forgery.files[LOG][-1] ^ 1])
    path = forgery.write(tmp_path / "flipped.zip", False)
    out = printed(capsys, 1, verify.main([str(path), "--json", str(tmp_path / "found.json")])).out
    said = out.splitlines()
    assert said[0] == f"{path}: CHANGED since it was written"
    assert said[1] == f"  {LOG} is not the file that {MANIFEST} describes"
    assert said[2].startswith("Nothing else of it was judged") and len(said) == 3
    told = json.loads((tmp_path / "found.json").read_text())
    assert told["changed"] is True and told["verdicts"] == [] and len(told["problems"]) == 1


def test_every_byte_counts(bundle, tmp_path):
    """A changed bit is found wherever it is: in headers, packed data, names, manifest, comment."""
    content = bundle.read_bytes()
    with Archive(bundle) as archive:
        first = sorted(info.header_offset for info in archive.entries.values())
    rng = np.random.default_rng(0)
    places = [*range(first[1] - 4, first[1] + 34, 2), *rng.integers(0, len(content), 30)]
    places += [len(content) - n for n in (1, 30, 64, 66, 70, 86, 90, 140)]
    for place in map(int, places):
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        path = tmp_path / "changed.zip"
        path.write_bytes(changed)
        try:
            assert verify_bundle(path).problems, place
        except ArchiveError:
            pass


# ---- what is not even unpacked ------------------------------------------------------------------


def raw(path, entries, packed=zipfile.ZIP_DEFLATED):
    """An archive of (name or ZipInfo, content), as any program may write it."""
    with zipfile.ZipFile(path, "w", packed) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that is there already
        for name, content in entries:
            archive.writestr(name, content)
        archive.writestr(MANIFEST, json.dumps({"schema": 1, "parts": [], "files": {}}))
    return path


def info(name: str, mode: int = 0o100644) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.create_system, entry.external_attr = 3, mode << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


REFUSED = {
    "a symbolic link": ([(info("evidence/link", 0o120777), "/etc/passwd")], "symbolic link"),
    "a folder": ([("evidence/", "")], "not a plain file"),
    "a path that climbs": ([("evidence/../../escaped", "x")], "may lead outside"),
    "a device": ([("evidence/con.npy", "x")], "may lead outside"),
    "a path from the root": ([("/evidence/rows", "x")], "may lead outside"),
    "an option": ([("-rf", "x")], "may lead outside"),
    "a name that looks like another": ([("evidence/rows\u202elnosj", "x")], "may lead outside"),
    "a name twice but for its case": ([("a/b", "x"), ("A/b", "y")], "one name twice"),
    "a file in a file": ([("a", "x"), ("a/b", "y")], "lies in a file"),
    "a bomb": ([("evidence/zeros", bytes(1 << 24))], "would unpack to"),
    "another form": ([("evidence/plain", "x")], "not as a bundle has it"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_archive_that_is_no_bundle_is_not_unpacked(tmp_path, monkeypatch, kind):
    entries, said = REFUSED[kind]
    path = raw(tmp_path / "forged.zip", entries)
    monkeypatch.setattr(Archive, "unpack", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(ArchiveError, match=said):
        verify_bundle(path)
    assert not os.path.lexists("/tmp/escaped") and not (tmp_path.parent / "escaped").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content[:-200], "no bundle"),
        (lambda content: content + b"more", "no bundle|belong to no file"),
        (lambda content: b"more" + content, "header|no bundle"),
        (lambda content: _with_flag(content), "encrypted"),
        (lambda content: _longer(content), "would unpack to|header"),
    ],
    ids=["cut", "appended", "prepended", "encrypted", "bomb's size"],
)
def test_a_damaged_file_is_refused(bundle, tmp_path, capsys, change, said):
    path = tmp_path / "damaged.zip"
    path.write_bytes(change(bundle.read_bytes()))
    with pytest.raises(ArchiveError, match=said):
        verify_bundle(path)
    captured = printed(capsys, 2, verify.main([str(path)]))
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    assert captured.out == ""


def _central(content: bytes) -> int:
    """Return where the first file's entry in the directory is."""
    return struct.unpack_from("<I", content, content.rindex(b"PK\5\6") + 16)[0]


def _with_flag(content: bytes) -> bytes:
    place = _central(content) + 8
    return content[:place] + b"\1\0" + content[place + 2 :]


def _longer(content: bytes) -> bytes:
    place = _central(content) + 24
    return content[:place] + struct.pack("<I", 1 << 31) + content[place + 4 :]


def test_too_many_files_are_refused(bundle, monkeypatch):
    monkeypatch.setattr("twincheck.extras.shared.archive.MAX_FILES", 10)
    with pytest.raises(ArchiveError, match="more than 10"):
        verify_bundle(bundle)


def test_a_link_to_a_bundle_is_not_followed(bundle, tmp_path):
    (tmp_path / "link.zip").symlink_to(bundle)
    with pytest.raises(ArchiveError, match="symbolic link"):
        verify_bundle(tmp_path / "link.zip")


@pytest.mark.parametrize("text", ["", "diff check passed\n", "x\n" * 3])
def test_what_is_no_report(text):
    assert report_problems(text, {}, {}, 1e-6) == [Kind.REPORT_NONE()]


def test_where_no_results_are_is_one_sentence(tmp_path, capsys):
    said = printed(capsys, 2, command.main(["--from", str(tmp_path)])).err
    assert "no results of all: run a check first" in said and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
