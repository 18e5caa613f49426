"""A bundle that was tampered with is found out, however it was, and nothing of it is executed.

Each kind is tried twice where that makes sense: as it comes, and by an attacker who makes every
hash, count and summary of the manifest fit again.  What is then no contradiction any more is listed
as such: there the root alone tells, or --rerun.
"""

import json
import os
import re
import struct
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
from bundled import BACKWARD, FORWARD, Forgery, make_bundle
from forged import gadgets, write_pickled

from common import bundle as command
from common import verify
from common.bundles import write as writing
from common.bundles.archive import MANIFEST, Archive, ArchiveError, is_safe
from common.bundles.check import verify_bundle
from common.bundles.submission import NoReport, read_report
from common.check.bundle import bundle_results
from common.check.options import CheckOptions
from common.check.runner import run_step
from common.check_all import all_steps
from common.pair.request import RunRequest
from common.system.checkout import ROOT

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
    assert verify.main([str(bundle), "--root", found.root]) == 0
    said = capsys.readouterr().out
    assert "verified" in said and found.root in said
    assert "67 rows, 42 of them derived again" in said
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
        "import sys\nfrom common import verify\n"
        f"status = verify.main([{str(bundle)!r}])\n"
        "names = ('torch', 'paddle', 'reprod_log', 'pandas', 'rich', 'scipy', 'jinja2', 'sklearn',"
        " 'matplotlib', 'common.check', 'common.report', 'common.pair', 'common.sides')\n"
        "print([n for n in names if n in sys.modules])\n"
        "print(sorted({n.partition('.')[0] for n in sys.modules if n.startswith('numpy')}))\n"
        "sys.exit(status)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["[]", "['numpy']"]


# ---- what contradicts itself --------------------------------------------------------------------


def flipped_bit(forgery, scratch):
    """One bit in a tensor that is inside."""
    content = bytearray(forgery.files[LOG])
    content[len(content) - 64] ^= 0x10
    forgery.files[LOG] = bytes(content)


def edited_report_line(forgery, scratch):
    """A line of reprod_log's report, in all dialects."""
    for name in REPORTS:
        head, _, tail = forgery.files[name].partition(b"value: ")
        forgery.files[name] = head + b"value: 1e-09\n" + tail.partition(b"\n")[2]


def edited_last_line(forgery, scratch):
    """Its last line, in all dialects."""
    for name in REPORTS:
        forgery.files[name] = forgery.files[name].replace(b"check passed\n", b"check failed\n")


def a_line_less(forgery, scratch):
    """A key of the report, in all dialects."""
    for name in REPORTS:
        lines = forgery.files[name].splitlines(keepends=True)
        forgery.files[name] = b"".join(lines[2:])


def swapped_files(forgery, scratch):
    """The two sides' float64 logs."""
    other = LOG.replace("paddle", "torch")
    forgery.files[LOG], forgery.files[other] = forgery.files[other], forgery.files[LOG]


def swapped_pair(forgery, scratch):
    """The two sides' logs of the guide's pair, with all dialects and sidecars."""
    for name in list(forgery.files):
        if name.startswith("submission/") and "forward_paddle" in name:
            for torch in (name.replace("paddle", "torch"), name.replace("paddle", "ref")):
                if torch in forgery.files:
                    pair = forgery.files[name], forgery.files[torch]
                    forgery.files[torch], forgery.files[name] = pair


def edited_metric(forgery, scratch):
    """A number of a row whose tensors are inside."""
    forgery.edit_row(FORWARD, "logits", max_abs=1.25e-9)


def edited_metric_without_tensors(forgery, scratch):
    """One of a row whose tensors are not: its numbers contradict each other."""
    left_out = forgery.part(FORWARD)["left_out"][0]["key"]
    forgery.edit_row(FORWARD, left_out, max_abs=1e-30)


def edited_verdict(forgery, scratch):
    """A verdict, and the row with it: numbers, note and origin as if nothing were."""
    rows = forgery.lines(f"{FORWARD}/rows.jsonl")
    good = next(row for row in rows if row["key"] == "logits")
    told = ("verdict", "gap", "allowed", "max_abs", "mean_abs", "guide_passed", "note", "origin")
    forgery.edit_row(FORWARD, "body.wrong", **{name: good[name] for name in told})


def flip_made_green(forgery, scratch):
    """A FLIP as if both sides had chosen alike."""
    forgery.edit_row(FORWARD, "choice", verdict="IDENTICAL", max_abs=0.0, mean_abs=0.0, note="")


def row_left_out(forgery, scratch):
    """A row that is wrong, with what is inside of it."""
    for name in ("rows", "inside"):
        lines = forgery.lines(f"{FORWARD}/{name}.jsonl")
        kept = [line for line in lines if line["key"] != "body.wrong"]
        forgery.put_lines(f"{FORWARD}/{name}.jsonl", kept)
    forgery.part(FORWARD)["inside"] -= 1


def row_added(forgery, scratch):
    """A row of a tensor that nobody logged."""
    rows = forgery.lines(f"{FORWARD}/rows.jsonl")
    forgery.put_lines(f"{FORWARD}/rows.jsonl", [*rows, rows[0] | {"key": "body.more"}])


def row_twice(forgery, scratch):
    """A row twice."""
    rows = forgery.lines(f"{FORWARD}/rows.jsonl")
    forgery.put_lines(f"{FORWARD}/rows.jsonl", [*rows, rows[0]])


def row_without_numbers(forgery, scratch):
    """A row with a text for a number."""
    forgery.edit_row(FORWARD, "logits", gap="1e-16")


def other_seed(forgery, scratch):
    """Another seed in one sidecar."""
    forgery.edit_json(LOG.replace(".npy", ".json"), seed=1)


def other_inputs(forgery, scratch):
    """The hash of other inputs in one sidecar."""
    forgery.edit_json(LOG.replace(".npy", ".json"), inputs_sha256="3" * 64)


def other_maker(forgery, scratch):
    """Paddle's log said to be made by torch."""
    forgery.edit_json(LOG.replace(".npy", ".json"), framework="torch", side="torch")


def other_log_hash(forgery, scratch):
    """The hash of another log in a sidecar: what is inside was taken from another."""
    forgery.edit_json(LOG.replace(".npy", ".json"), log_sha256="4" * 64)


def other_environment(forgery, scratch):
    """The manifest's environments."""
    forgery.manifest["environments"][0]["version"] = "2.0"


def other_seeds(forgery, scratch):
    """The manifest's seeds."""
    forgery.manifest["seeds"] = [7]


def copied_over(forgery, scratch):
    """Torch's logs as Paddle's."""
    for suffix in ("", "_fp64"):
        torch = forgery.files[f"{FORWARD}/forward_all_torch{suffix}.npy"]
        forgery.files[f"{FORWARD}/forward_all_paddle{suffix}.npy"] = torch


def nan_put_in(forgery, scratch):
    """NaN in a tensor."""

    def change(tensors):
        tensors["logits"][0, 0] = np.nan
        return tensors

    forgery.edit_log(LOG, change, scratch)


def renamed_key(forgery, scratch):
    """A tensor under another key, as if it had never been logged."""

    def change(tensors):
        return {key.replace("body.wrong", "body.other"): v for key, v in tensors.items()}

    for side in ("torch", "paddle"):
        for suffix in ("", "_fp64"):
            forgery.edit_log(f"{FORWARD}/forward_all_{side}{suffix}.npy", change, scratch)


def edited_context(forgery, scratch):
    """What was made of a wrong tensor, as if another had brought what is off."""
    made = {"own": {"verdict": "ROUNDING", "origin": False}}
    record = {"stem": "forward_all", "key": "body.wrong", **made}
    forgery.put_lines(f"{FORWARD}/made.jsonl", [record])
    forgery.edit_row(FORWARD, "body.wrong", verdict="CONSTANT", origin=False)


def other_neighbours(forgery, scratch):
    """What was made of a tensor that agrees anyhow."""
    record = {"stem": "forward_all", "key": "logits", "own": {"gap": 1e-3}}
    forgery.put_lines(f"{FORWARD}/made.jsonl", [record])


def other_witness(forgery, scratch):
    """How far a side's gradient is from what an SGD step of its own shows."""
    forgery.edit_row(BACKWARD, "main/witness/sgd_step/paddle", gap=1e-17, verdict="ROUNDING")


def witness_made_up(forgery, scratch):
    """A witness that no sidecar knows."""
    rows = forgery.lines(f"{BACKWARD}/rows.jsonl")
    other = rows[-1] | {"key": "other/witness/sgd_step/paddle"}
    forgery.put_lines(f"{BACKWARD}/rows.jsonl", [*rows, other])


def every_tensor_passed(forgery, scratch):
    """That every tensor passes the guide's rule."""
    forgery.part(FORWARD)["guide_all_passed"] = True


def edited_scale(forgery, scratch):
    """S of a group of gradients, as if others were far larger."""
    name = f"{BACKWARD}/scales.json"
    scales = json.loads(forgery.files[name])
    scales["bp_align_all"]["grad"][0] *= 1e6
    forgery.files[name] = json.dumps(scales).encode()


def scale_of_nothing(forgery, scratch):
    """The same, and of a tensor that is said not to be inside."""
    name = f"{BACKWARD}/scales.json"
    scales = json.loads(forgery.files[name])
    scales["bp_align_all"]["grad"] = [1e300, None]
    forgery.files[name] = json.dumps(scales).encode()


def infinite_scale(forgery, scratch):
    """S as a number that JSON can write and no float can hold."""
    name = f"{BACKWARD}/scales.json"
    content = forgery.files[name]
    forgery.files[name] = re.sub(rb'"grad":\[[^,]*', b'"grad":[1e999', content)
    assert forgery.files[name] != content


def endless_number(forgery, scratch):
    """A whole number of four hundred digits in a row."""
    forgery.edit_row(FORWARD, "logits", gap=10**400)


def settled(forgery, scratch):
    """A wrong row as if all rows together had made it INSIDE."""
    row = next(r for r in forgery.lines(f"{FORWARD}/rows.jsonl") if r["key"] == "body.wrong")
    forgery.edit_row(FORWARD, "body.wrong", verdict="INSIDE", origin=False, excuse="other values")
    own = {name: row[name] for name in ("verdict", "origin", "excuse")}
    record = {"stem": "forward_all", "key": "body.wrong", "own": own}
    forgery.put_lines(f"{FORWARD}/made.jsonl", [record])


def sample_by_hand(forgery, scratch):
    """A sample that somebody has picked: what the hash draws first is not inside."""
    records = forgery.lines(f"{BACKWARD}/inside.jsonl")
    first = next(i for i, record in enumerate(records) if record["why"] == "sample")
    forgery.put_lines(f"{BACKWARD}/inside.jsonl", records[:first] + records[first + 1 :])
    forgery.part(BACKWARD)["inside"] -= 1


def doubtful_row_taken_out(forgery, scratch):
    """The tensors of a wrong row are no longer inside."""
    records = forgery.lines(f"{FORWARD}/inside.jsonl")
    forgery.put_lines(f"{FORWARD}/inside.jsonl", records[1:])
    forgery.part(FORWARD)["inside"] -= 1


def replaced_pair(forgery, scratch):
    """Another log of the guide's pair, in all dialects."""

    def change(tensors):
        return {key: values + values.dtype.type(1e-8) for key, values in tensors.items()}

    for name in PAIR:
        forgery.edit_log(name, change, scratch)


def one_dialect(forgery, scratch):
    """Another log of the guide's pair, in one dialect."""
    forgery.files[PAIR[1]] = forgery.files[PAIR[1].replace("paddle", "ref")]


def missing_dialect(forgery, scratch):
    """A report that one dialect has not."""
    del forgery.files[REPORTS[2]]


def guide_passed(forgery, scratch):
    """Whether the guide's rule is passed."""
    forgery.part(FORWARD)["guide_passed"] = False


def summary(forgery, scratch):
    """How many rows have their tensors inside."""
    forgery.part(FORWARD)["inside"] += 1


def missing_file(forgery, scratch):
    """A sidecar is not there."""
    del forgery.files[LOG.replace(".npy", ".json")]


def missing_log(forgery, scratch):
    """A log is not there."""
    del forgery.files[LOG]


def renamed_file(forgery, scratch):
    """A log under another name."""
    forgery.files[LOG.replace("paddle", "padle")] = forgery.files.pop(LOG)


def code_in_a_log(forgery, scratch):
    """A log that runs a command when it is unpickled."""
    stream = gadgets(f"touch '{scratch / 'executed'}'")["value, protocol 4"]
    forgery.files[LOG] = write_pickled(scratch / "log.npy", stream).read_bytes()


def code_in_the_submission(forgery, scratch):
    """A log of the guide's pair that does, in all dialects."""
    stream = gadgets(f"touch '{scratch / 'executed'}'")["instead of the dict"]
    for name in PAIR:
        forgery.files[name] = write_pickled(scratch / "log.npy", stream).read_bytes()


def object_array(forgery, scratch):
    """A log that is no dict of numbers."""
    value = np.array({"logits": np.array([{1: 2}], dtype=object)}, dtype=object)
    path = scratch / "objects.npy"
    np.save(path, value, allow_pickle=True)
    forgery.files[LOG] = path.read_bytes()


def huge_shape(forgery, scratch):
    """A log whose header promises more than there is."""
    header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)}
    path = scratch / "huge.npy"
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(64))
    forgery.files[LOG] = path.read_bytes()


def deep_json(forgery, scratch):
    """JSON that is nested beyond reason."""
    forgery.files[f"{FORWARD}/scales.json"] = b'{"a":' + b"[" * 100_000


FOUND = (
    *(flipped_bit, edited_report_line, edited_last_line, a_line_less, swapped_files, swapped_pair),
    *(edited_metric, edited_metric_without_tensors, edited_verdict, flip_made_green, row_left_out),
    *(row_added, row_twice, row_without_numbers, other_seed, other_inputs, other_maker),
    *(other_log_hash, other_environment, other_seeds, copied_over, nan_put_in, renamed_key),
    *(edited_context, edited_scale, settled, sample_by_hand, doubtful_row_taken_out),
    *(replaced_pair, one_dialect, missing_dialect, guide_passed, summary, missing_file),
    *(missing_log, renamed_file, code_in_a_log, code_in_the_submission, object_array, huge_shape),
    *(scale_of_nothing, infinite_scale, endless_number),
    *(deep_json, other_neighbours, other_witness, witness_made_up, every_tensor_passed),
)


@pytest.mark.parametrize("rehashed", [False, True], ids=["as it is", "every hash fits again"])
@pytest.mark.parametrize("kind", FOUND, ids=lambda kind: kind.__name__)
def test_tampering_is_found(forgery, tmp_path, kind, rehashed):
    kind(forgery, tmp_path)
    found = verify_bundle(forgery.write(tmp_path / "forged.zip", rehashed))
    assert found.problems, f"not found: {kind.__doc__}"
    assert all(len(problem) < 1000 and "\n" not in problem for problem in found.problems)
    assert str(tmp_path) not in str(found.problems) and "/tmp" not in str(found.problems)
    assert not (tmp_path / "executed").exists()


# Nothing inside a bundle speaks against these, once every hash fits: README of the bundle.
def edited_commit(forgery):
    forgery.manifest["commit"] = {"id": "0" * 40, "changed": False}


def edited_page(forgery):
    forgery.files["reports/report.html"] = b"<!doctype html><title>All is well</title>"


def extra_file(forgery):
    forgery.files["reports/more.html"] = b"<!doctype html>"


def other_command(forgery):
    forgery.manifest["commands"] = ["python step1_forward/check_step1.py --model other"]


def seed_everywhere(forgery):
    """In every sidecar and in the manifest."""
    for name, content in forgery.files.items():
        if name.endswith(".json") and b'"seed": 0' in content:
            forgery.files[name] = content.replace(b'"seed": 0', b'"seed": 5')
    forgery.manifest["seeds"] = [5]


@pytest.mark.parametrize(
    "kind",
    [edited_commit, edited_page, extra_file, other_command, seed_everywhere],
    ids=lambda kind: kind.__name__,
)
def test_what_only_the_root_tells(bundle, forgery, tmp_path, kind, capsys):
    """As it comes it is found.  Where the attacker makes all fit, it is another root."""
    kind(forgery)
    if kind in (edited_commit, other_command):  # of a manifest that is not finished anew
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
    "a pipe": ([(info("evidence/pipe", 0o010644), "")], "not a plain file"),
    "a folder": ([("evidence/", "")], "not a plain file"),
    "a path that climbs": ([("evidence/../../escaped", "x")], "may lead outside"),
    "an absolute path": ([("/tmp/escaped", "x")], "may lead outside"),
    "a path of Windows": ([("evidence\\..\\escaped", "x")], "may lead outside"),
    "a drive": ([("C:/escaped", "x")], "may lead outside"),
    "a device": ([("evidence/con.npy", "x")], "may lead outside"),
    "a hidden file": ([(".profile", "x")], "may lead outside"),
    "a name that looks like another": ([("evidence/rows\u202elnosj", "x")], "may lead outside"),
    "a name twice": ([("a/b", "x"), ("a/b", "y")], "one name twice"),
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
        (lambda content: content[: len(content) // 2], "no bundle"),
        (lambda content: content + b"more", "no bundle|belong to no file"),
        (lambda content: b"more" + content, "header|no bundle"),
        (lambda content: b"", "no bundle"),
        (lambda content: b"\x93NUMPY" + content[6:], "header|no bundle"),
        (lambda content: _with_flag(content), "encrypted"),
        (lambda content: _longer(content), "would unpack to|header"),
    ],
    ids=["cut", "halved", "appended", "prepended", "empty", "no zip", "encrypted", "bomb's size"],
)
def test_a_damaged_file_is_refused(bundle, tmp_path, capsys, change, said):
    path = tmp_path / "damaged.zip"
    path.write_bytes(change(bundle.read_bytes()))
    with pytest.raises(ArchiveError, match=said):
        verify_bundle(path)
    assert verify.main([str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    assert captured.out == ""


def _central(content: bytes) -> int:
    """Where the first file's entry in the directory is."""
    return struct.unpack_from("<I", content, content.rindex(b"PK\5\6") + 16)[0]


def _with_flag(content: bytes) -> bytes:
    place = _central(content) + 8
    return content[:place] + b"\1\0" + content[place + 2 :]


def _longer(content: bytes) -> bytes:
    place = _central(content) + 24
    return content[:place] + struct.pack("<I", 1 << 31) + content[place + 4 :]


def test_too_many_files_are_refused(bundle, monkeypatch):
    monkeypatch.setattr("common.bundles.archive.MAX_FILES", 10)
    with pytest.raises(ArchiveError, match="more than 10"):
        verify_bundle(bundle)


def test_a_missing_file_is_one_sentence(tmp_path, capsys):
    assert verify.main([str(tmp_path / "none.zip")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_link_to_a_bundle_is_not_followed(bundle, tmp_path):
    (tmp_path / "link.zip").symlink_to(bundle)
    with pytest.raises(ArchiveError, match="symbolic link"):
        verify_bundle(tmp_path / "link.zip")


@pytest.mark.parametrize("name", ["a/b.npy", "A_1/x+y=2.json"])
def test_names_of_a_bundle(name):
    assert is_safe(name)


@pytest.mark.parametrize("name", ["", "a//b", "a/", "/a", "a/./b", "-rf", "a b", "a/nul", "a."])
def test_names_that_none_has(name):
    assert not is_safe(name)


@pytest.mark.parametrize("text", ["", "diff check passed\n", "x\n" * 3])
def test_what_is_no_report(text):
    with pytest.raises(NoReport):
        read_report(text)


# ---- run again ----------------------------------------------------------------------------------


def test_running_again_finds_what_nothing_inside_speaks_against(
    tmp_path, capsys, monkeypatch, request
):
    """Another seed, put in everywhere: the tensors of that seed are others."""
    python = request.config.warm_python
    monkeypatch.setattr("common.check.runner.interpreter", lambda *_: python)
    step = all_steps()[0]
    run = RunRequest(cases=("main",), probes=("dense_linear",))
    options = CheckOptions(run, ("fastformer",), tmp_path, no_report=True)
    path = tmp_path / "bundle.zip"
    bundle_results(run_step(step, options, lambda *_: None), options, path)
    forgery = Forgery(path)
    seed_everywhere(forgery)
    for part in forgery.manifest["parts"]:
        part["asked"]["seed"] = 5
    forged = forgery.write(tmp_path / "forged.zip", True)
    assert verify_bundle(forged).problems == []
    assert verify.main([str(path), "--rerun"]) == 0
    assert "came out with the same bits, 0 but for rounding" in capsys.readouterr().out
    assert verify.main([str(forged), "--rerun"]) == 1
    assert "run again, torch's main/" in capsys.readouterr().out


def test_a_pair_of_somebody_else_is_not_run(bundle, monkeypatch, capsys):
    monkeypatch.setattr("common.check.rerun.run_step", lambda *_: pytest.fail("run"))
    assert verify.main([str(bundle), "--rerun"]) == 0
    assert "not run again: a pair that is not of this checkout" in capsys.readouterr().out


def test_where_no_results_are_is_one_sentence(tmp_path, capsys):
    assert command.main(["--from", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "no results of all: run a check first" in said and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
