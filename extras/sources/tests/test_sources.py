"""Real data: reviews, texts and classes, read, split and kept."""

import ast
import gzip
import json
import os
import re
import subprocess
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from checkout import Checkout

from twincheck.common.pair.case_hooks import data_cases, data_preset, make_data
from twincheck.common.pair.data import load_arrays
from twincheck.common.pair.metrics import next_token_sums
from twincheck.common.pair.pairs import Pair, load_pair
from twincheck.common.pair.request import RunRequest
from twincheck.common.pair.sources import cache, prepare
from twincheck.common.pair.sources.request import SourceRequest
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.extras.sources import classes, language, reviews

REVIEWS = ROOT / "fake_data" / "reviews_Electronics_5.json.gz"
NEWS = ROOT / "fake_data" / "ag_news"
WIKI = ROOT / "fake_data" / "enwik8.txt"
LENGTH = 24


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "cache"))


def request(path, seed=0, config=None, tokenizer=None, on_progress=lambda text: None, **settings):
    return SourceRequest(
        path, {"length": LENGTH} | settings, config or {}, seed, tokenizer, on_progress
    )


def pair_of(**case):
    known = {"CONFIGS": {"small": {}, "default": {}}, "make_inputs": None}
    return Pair("mine", Path("/nowhere"), SimpleNamespace(**(known | case)))


# ---- reviews ------------------------------------------------------------------------------------


def good_lines(path=REVIEWS):
    """(label, text) of every line that is a review, by a reader of its own."""
    found = []
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        try:
            review = json.loads(line)
        except ValueError:
            if not line.endswith("}"):
                continue
            review = ast.literal_eval(line)
        if "reviewText" in review and review["overall"] in (1, 2, 3, 4, 5):
            found.append((int(review["overall"] - 1), review["reviewText"]))
    return found


def expected(parts, lengths):
    """PART/NAME -> lists, of (label, text) in parts: wordpunct ids in first-seen order from 1."""
    known, arrays = {}, {}
    for part, samples in parts.items():
        rows = []
        for _, text in samples:
            ids = [known.setdefault(w, len(known) + 1) for w in re.findall(r"\w+|[^\w\s]+", text)]
            rows.append((ids + [0] * lengths[part])[: lengths[part]])
        arrays[f"{part}/input_ids"] = rows
        arrays[f"{part}/attention_mask"] = [[int(i > 0) for i in row] for row in rows]
        arrays[f"{part}/labels"] = [label for label, _ in samples]
    return arrays, len(known) + 1


def balanced_parts(train, test):
    parts, counts = {"train": [], "test": []}, {"train": [0] * 5, "test": [0] * 5}
    for label, text in good_lines():
        part = "train" if min(counts["train"]) < train else "test"
        if counts[part][label] < (train if part == "train" else test):
            counts[part][label] += 1
            parts[part].append((label, text))
    return parts


def test_balanced_reviews_are_the_seeds():
    sizes, lengths = [9, 4], {"train": LENGTH, "test": 10}
    asked = request(REVIEWS, split="balanced", sizes=sizes, eval_length=10)
    made = reviews.build(asked)
    arrays, size = expected(balanced_parts(*sizes), lengths)
    assert {name: values.tolist() for name, values in made.arrays.items()} == arrays
    assert made.entries == {"vocab_size": size, "num_labels": 5}
    assert np.bincount(made.arrays["test/labels"]).tolist() == [4] * 5


def test_random_reviews_are_drawn_once_each():
    def drawn(seed, sizes):
        found, _ = reviews.random(((0, str(number)) for number in range(5000)), sizes, seed)
        return {part: [int(text) for _, text in samples] for part, samples in found.items()}

    found = drawn(0, [400, 50, 50])
    assert [len(numbers) for numbers in found.values()] == [400, 50, 50]
    everything = sum(found.values(), [])
    assert len(set(everything)) == 500
    # Uniform: of 500 of 5,000 the mean number is 2,499.5 with a standard error of 61.
    assert abs(np.mean(everything) - 2499.5) < 250 and everything != sorted(everything)
    assert drawn(0, [400, 50, 50]) == found and drawn(1, [400, 50, 50]) != found
    parts = {part: len(numbers) for part, numbers in drawn(0, [80000, 10000, 10000]).items()}
    assert parts == {"train": 4000, "validation": 500, "test": 500}  # too few: the same shares


def test_random_reviews_come_from_the_whole_file_but_its_broken_lines():
    made = reviews.build(request(REVIEWS, split="random"))
    labels = [made.arrays[f"{p}/labels"] for p in ("train", "validation", "test")]
    counts = np.bincount([label for label, _ in good_lines()])
    assert np.bincount(np.concatenate(labels)).tolist() == counts.tolist()
    assert len(labels[0]) == 320 and len(labels[1]) == 40
    told = "\n".join(made.notes)
    assert "404 lines" not in told and "403 lines of reviews_Electronics_5.json.gz read" in told
    assert "3 lines left out (1 no JSON, 1 no reviewText, 1 overall is not 1 to 5)" in told
    assert "reviews_Electronics_5.json.gz:21 (no JSON)" in told and "texts are empty" in told


@pytest.mark.parametrize(
    "line, why",
    [
        (b"\xff\xfe\n", "no UTF-8"),
        (b"[1, 2]\n", "no reviewText"),
        (b'{"reviewText": "x", "overall": 0}', "overall is not 1 to 5"),
        (b'{"reviewText": "x", "overall": true}', "overall is not 1 to 5"),
        (b'{"reviewText": "x", "overall": NaN}', "overall is not 1 to 5"),
        (b"__import__('os').getcwd()", "no JSON"),
        (b"{'reviewText': 'it\\'s', 'overall': 2.0}\n", (1, "it's")),
    ],
)
def test_a_line_is_a_review_or_says_why_not(line, why):
    assert reviews.review(line) == why


def test_reviews_that_cannot_be_used_are_refused(tmp_path):
    path = tmp_path / "r.json.gz"
    path.write_bytes(REVIEWS.read_bytes()[:5000])
    with pytest.raises(UserError, match=r"r.json.gz: damaged or cut off after line \d+ .*again"):
        reviews.build(request(path))
    path.write_bytes(b"one\ntwo\n")
    with pytest.raises(UserError, match=r"no line is a review: r.json.gz:1 \(no JSON\)"):
        reviews.build(request(path))
    path.write_bytes(b"")
    with pytest.raises(UserError, match="has 0 reviews with 1 star; a balanced split needs 2"):
        reviews.build(request(path))
    with pytest.raises(UserError, match="a folder; give the file"):
        reviews.build(request(tmp_path))


# ---- kept ---------------------------------------------------------------------------------------


def kept(path, seed=0):
    """Return what prepare gives, and what it said while it worked."""
    told = []
    made = prepare(load_pair("fastformer"), "ag_news", path, seed, None, told.append)
    return made, told


def test_what_was_read_once_is_kept(tmp_path):
    folder = tmp_path / "news"
    folder.mkdir()
    for name in ("train.csv", "test.csv"):
        (folder / name).write_bytes((NEWS / name).read_bytes())
    first, told = kept(folder)
    assert any("hashed" in text for text in told) and not any("taken" in n for n in first.notes)
    os.utime(folder / "train.csv", ns=(1, 1))  # another time, the same content
    second, told = kept(folder)
    assert second.file == first.file and "taken from" in second.notes[-1]
    assert not any("to words" in text for text in told)
    content = bytearray(first.file.read_bytes())
    content[len(content) // 2] ^= 1
    first.file.write_bytes(content)
    mended, _ = kept(folder)
    assert "damaged, and was made again" in mended.notes[-1]
    load_arrays(mended.file)
    assert kept(folder, seed=1)[0].file != first.file
    (folder / "test.csv").write_bytes((NEWS / "train.csv").read_bytes())
    assert kept(folder)[0].file != first.file


# ---- texts --------------------------------------------------------------------------------------


def test_a_text_is_ninety_five_and_five(tmp_path):
    path = tmp_path / "text"
    content = bytes(np.random.default_rng(0).integers(0, 256, 4000, dtype=np.uint8))
    path.write_bytes(content)
    made = language.build(request(path))
    for part, start, end in (("train", 0, 3600), ("validation", 3600, 3800), ("test", 3800, 4000)):
        ids = made.arrays[f"{part}/input_ids"]
        rows = (end - start) // LENGTH
        assert ids.shape == (rows, LENGTH) and ids.dtype == np.int16
        whole = bytes((ids.reshape(-1) - 2).astype(np.uint8).tolist())
        assert ids.min() >= 2 and whole == content[start : start + rows * LENGTH]
    assert set(made.arrays) == {f"{part}/input_ids" for part in ("train", "validation", "test")}
    assert made.entries == {"vocab_size": 258}


def test_a_zip_holds_the_text(tmp_path):
    with zipfile.ZipFile(tmp_path / "enwik8.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(WIKI, "enwik8")
    plain = language.build(request(WIKI)).arrays
    packed = language.build(request(tmp_path / "enwik8.zip")).arrays
    assert all(np.array_equal(plain[name], packed[name]) for name in plain)
    content = bytearray((tmp_path / "enwik8.zip").read_bytes())
    content[500:600] = bytes(100)
    (tmp_path / "enwik8.zip").write_bytes(content)
    with pytest.raises(UserError, match="enwik8.zip: damaged or cut off .*get it again"):
        language.build(request(tmp_path / "enwik8.zip"))


def test_a_text_shorter_than_a_row_is_padded(tmp_path):
    (tmp_path / "b.txt").write_text("b" * 50)
    (tmp_path / "a.txt").write_text("a" * 50)
    made = language.build(request(tmp_path, config={"vocab_size": 320}))
    ids, mask, labels = (
        made.arrays[f"train/{n}"] for n in ("input_ids", "attention_mask", "labels")
    )
    assert ids.shape == (4, LENGTH) and mask.sum() == 90 == (ids != 0).sum()
    assert ids[0, 0] == ord("a") + 2 and labels[-1, -1] == -100 and labels[0, 0] == ids[0, 0]
    assert made.arrays["test/input_ids"].shape == (1, LENGTH) and made.entries == {}
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "b.txt").write_text("")
    with pytest.raises(UserError, match="empty: there is no text"):
        language.build(request(tmp_path))


def test_a_text_can_be_read_as_pieces(tmp_path, monkeypatch):
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        input=str(WIKI), model_prefix=str(tmp_path / "m"), vocab_size=150, minloglevel=2
    )
    asked = request(WIKI, tokenizer=tmp_path / "m.model")
    made = language.build(asked)
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    ids = model.encode(WIKI.read_text())
    found = made.arrays["train/input_ids"].reshape(-1)
    assert found.tolist() == ids[: len(found)] and len(found) > 0.8 * len(ids)
    assert made.entries == {"vocab_size": 150}
    monkeypatch.setattr(language, "_LINES_AT_ONCE", 2)
    again = language.build(asked).arrays
    assert all(np.array_equal(values, again[name]) for name, values in made.arrays.items())


def test_next_tokens_are_scored():
    rng = np.random.default_rng(0)
    logits, ids = rng.standard_normal((3, 7, 5)).astype(np.float32), rng.integers(0, 5, (3, 7))
    found = {name: total / count for name, (total, count) in next_token_sums(logits, ids).items()}
    right, bits = [], []
    for row, tokens in zip(logits.astype(float), ids, strict=True):
        for scores, wanted in zip(row[:-1], tokens[1:], strict=True):
            right.append(scores.argmax() == wanted)
            bits.append(-np.log2(np.exp(scores[wanted]) / np.exp(scores).sum()))
    assert found["accuracy"] == np.mean(right)
    assert found["bits_per_token"] == pytest.approx(np.mean(bits), rel=1e-12)
    labels = np.arange(9)[None] - 2  # the first two do not count
    total, count = next_token_sums(np.zeros((1, 9, 256)), labels)["bits_per_token"]
    assert count == 7 and total / count == pytest.approx(8.0)  # by hand: 256 equal chances


# ---- classes ------------------------------------------------------------------------------------


def texts_of(arrays, part, table):
    """Rows of ids as words again."""
    return [" ".join(table[i] for i in row if i) for row in arrays[f"{part}/input_ids"].tolist()]


def test_news_are_read_as_their_authors_do():
    made = classes.build(request(NEWS, lower=True))
    assert made.entries["num_labels"] == 4 and made.arrays["train/input_ids"].shape[1] == LENGTH
    rows = (NEWS / "test.csv").read_text().splitlines()
    assert made.arrays["test/labels"].tolist() == [int(row[1]) - 1 for row in rows]
    known = {}
    for name in ("train", "test"):
        for line in (NEWS / f"{name}.csv").read_text().splitlines():
            cells = line[1:-1].split('","')
            if len(cells) == 3:
                for word in re.findall(r"\w+|[^\w\s]+", f"{cells[1]} {cells[2]}".lower()):
                    known.setdefault(word, len(known) + 1)
    assert made.entries["vocab_size"] == len(known) + 1
    table = {number: word for word, number in known.items()}
    text = " ".join(rows[0][1:-1].split('","')[1:]).lower()
    first = re.findall(r"\w+|[^\w\s]+", text)[:LENGTH]
    assert texts_of(made.arrays, "test", table)[0] == " ".join(first)
    assert "1 lines left out (1 not 3 columns): train.csv:9" in " ".join(made.notes)


def table(tmp_path, text, name="d.csv"):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path / name


def test_columns_are_found_by_name(tmp_path):
    lines = "id\tText\tLABEL\n" + "".join(f"{i}\tw{i} x\t{'ab'[i % 2]}\n" for i in range(20))
    made = classes.build(request(table(tmp_path, lines, "d.tsv")))
    assert len(made.arrays["train/labels"]) == 16 and len(made.arrays["test/labels"]) == 4
    assert np.bincount(made.arrays["test/labels"]).tolist() == [2, 2]  # a fifth of each class
    assert (made.arrays["train/input_ids"][:, 2:] == 0).all()
    path = table(tmp_path, "\ufeffgood,bad,what\n" + "x y,z,1\n" * 3 + "q r,z,0\n" * 3)
    columns = {"label": "what", "text": ["good", "bad"]}
    made = classes.build(request(path, columns=columns))
    assert (made.arrays["train/input_ids"] != 0).sum(1).tolist() == [3] * 4
    with pytest.raises(UserError, match="no column stars, words in its first line"):
        asked = request(path, columns={"label": "stars", "text": "words"})
        classes.build(asked)


def test_folders_are_classes(tmp_path):
    for part in ("train", "test"):
        for label in ("neg", "pos"):
            (tmp_path / "imdb" / part / label).mkdir(parents=True)
            for i in range(3):
                path = tmp_path / "imdb" / part / label / f"{i}.txt"
                path.write_text(f"{part} {label} {i}")
    (tmp_path / "imdb" / "train" / "pos" / "9.txt").write_bytes(b"\xff\xff")
    made = classes.build(request(tmp_path / "imdb"))
    assert made.arrays["train/labels"].tolist() == [0, 0, 0, 1, 1, 1]
    assert "1 files left out (1 no UTF-8): pos/9.txt" in " ".join(made.notes)
    split = classes.build(request(tmp_path / "imdb" / "train"))
    assert sorted(split.arrays["test/labels"].tolist()) == [0, 1]
    other = classes.build(request(tmp_path / "imdb" / "train", seed=1))
    assert [len(v) for v in other.arrays.values()] == [len(v) for v in split.arrays.values()]


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("", "no labelled text that can be used"),
        ("1,a\n1,b\n", "1 different labels"),
        ("--1,a\n" + "9" * 5000 + ",b\n", "too few texts for a test set"),
        ("only\none\n", r"1 column\(s\); a label and a text are needed"),
        ("".join(f"{i},x\n" * 2 for i in range(1001)), "1,001 different labels"),
        ("label,text\n" + ",x\n" * 4, "4 lines left out .4 no label.: d.csv:2"),
        (b"label,text\n" + b"a,\xff\n" * 4, "no UTF-8"),
        ("label,text\na," + "x" * 200000 + "\n", "field larger than field limit"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(tmp_path, text, sentence):
    with pytest.raises(UserError, match=sentence):
        classes.build(request(table(tmp_path, text)))


# ---- presets ------------------------------------------------------------------------------------


def test_a_preset_with_data_of_its_own_is_the_data_preset():
    for model, preset, expected_preset in (
        ("fastformer", "default", "digits"),
        ("fastformer", "digits", "digits"),
        ("fastformer", "amazon", "amazon"),
        ("fast_transformer", "seed001", "digits"),
        ("fast_transformer", "seed001_cls", "seed001_cls"),
        ("reformer", "enwik8", "enwik8"),
    ):
        assert data_preset(load_pair(model), preset) == expected_preset, preset
    assert data_preset(pair_of(), "small") == "small"


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"source": "film"}, "whose .source. is one of classes, enwik8, ett, reviews, text"),
        ({"source": "text", "length": 0}, "length is 0; allowed: an integer from 1"),
        ({"source": "text", "length": 8, "lower": True}, "unknown lower; known: default, length"),
        ({"source": "reviews", "length": 8, "split": "odd"}, "split is 'odd'; allowed: balanced"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, sentence):
    with pytest.raises(UserError, match=sentence):
        prepare(pair_of(DATA={"small": settings}), "small", REVIEWS, 0)


def test_entries_of_the_data_are_in_the_configuration(tmp_path):
    pair = load_pair("fast_transformer")
    (tmp_path / pair.name).mkdir()
    request = RunRequest(preset="seed001_cls", data=str(tmp_path))
    assert data_cases(pair, request)[0].config["num_tokens"] == 77053
    (tmp_path / pair.name / "config.json").write_text('{"num_tokens": 12}')
    found = data_cases(pair, request)[0].config
    assert found["num_tokens"] == 12 and found["dim"] == 512


def test_make_data_may_take_the_path_and_give_a_validation_set():
    sets = {part: {"x": np.zeros((2, 3))} for part in ("train", "validation", "test")}
    given = []

    def with_path(config, seed, path=None):
        given.append(path)
        return sets

    assert set(make_data(pair_of(make_data=with_path), "small", 0, Path("f"))) == set(sets)
    assert given == [Path("f")]
    with pytest.raises(UserError, match="preset small of mine reads no file .presets that do: no"):
        make_data(pair_of(make_data=lambda config, seed: sets), "small", 0, Path("f"))
    sets["validation"] = {"y": np.zeros((2, 3))}
    with pytest.raises(UserError, match='x, y: in one of "train" and "validation" alone'):
        make_data(pair_of(make_data=with_path), "small", 0)


@pytest.mark.parametrize(
    "model, preset, home, sample",
    [
        ("fast_transformer", "seed001_cls", "jmcauley.ucsd.edu", REVIEWS),
        ("fastformer", "ag_news", "fancyzhx/ag_news", NEWS),
    ],
)
def test_a_missing_file_is_a_sentence_that_helps(model, preset, home, sample):
    with pytest.raises(UserError) as none:
        prepare(load_pair(model), preset, None, 0)
    with pytest.raises(UserError) as missing:
        prepare(load_pair(model), preset, Path("/nowhere/x"), 0)
    for told in (str(none.value), str(missing.value)):
        assert home in told and "--data PATH" in told and str(sample.relative_to(ROOT)) in told
    assert sample.exists()


def test_python_s_help_is_the_text_where_no_file_is_given():
    made = prepare(load_pair("reformer"), "text", None, 0)
    arrays = load_arrays(made.file)
    assert arrays["train/input_ids"].shape[1] == 256 and len(arrays["train/input_ids"]) > 500


CASE = """
from twincheck.common.models.fastformer.case import CONFIGS, make_inputs
SMALL = CONFIGS["default"] | {"max_position_embeddings": 32, "num_hidden_layers": 1}
CONFIGS = {"default": SMALL}
DATA = {"default": {"source": "classes", "lower": True, "length": 32}}
"""


@pytest.mark.slow
def test_step_2_reads_a_table_and_says_what_it_read(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "case.py").write_text(CASE)
    for side in ("torch", "paddle"):
        text = f"from twincheck.common.models.fastformer.{side}_model import build, loss\n"
        (folder / f"{side}_model.py").write_text(text)
    command = [*Checkout.interpreter, str(ROOT / "step2_metric" / "check_step2.py")]
    command += ["--model", str(folder), "--out", str(tmp_path / "out")]
    missing = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert missing.returncode == 2 and "Traceback" not in missing.stderr
    assert "fake_data/ag_news is a small one" in missing.stderr + missing.stdout
    done = subprocess.run(
        [*command, "--data", str(NEWS)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "train 200 (1 54, 2 42, 3 63, 4 41); test 60" in done.stdout
    told = json.loads(next((tmp_path / "cache").glob("*.json")).read_text())
    assert told["entries"]["num_labels"] == 4
