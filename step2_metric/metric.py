"""Step 2, both sides: the data as batches, tokenizers, predictions and scores."""

import hashlib
from functools import cache
from pathlib import Path

import numpy as np

from twincheck.common.pair.case_hooks import TEXT
from twincheck.common.pair.data import BYTE_OFFSET, count, split_documents
from twincheck.common.pair.metrics import classification
from twincheck.common.pair.sentencepieces import MODEL
from twincheck.common.sides.loader import Samples, batches, evaluate
from twincheck.step2_metric.hard_texts import HARD_TEXTS
from twincheck.step2_metric.tokenizers import Bytes, SentencePiece, Words, encode

SCORED_TOKENS = 1 << 13  # of a language model's test set: its logits are a vocabulary times more
SHOWN = 5  # whole batches in the log, as the guide asks; the others as hashes
BATCH_SIZE = 32
TEXT_LENGTH = 64  # bytes that a text is cut or padded to
TOKENS_LENGTH = 48  # tokens of a hard text: some are longer, some shorter
WORDS_LENGTH = 128  # words likewise: some texts are longer, some shorter


def metric(run):
    """Log batches of the training set, the test set and any text, then predictions and scores."""
    train, test = run.samples("train"), run.samples("test")
    shuffled = run.session.tape.permutation("shuffle", 0, count(train))
    log_batches(run, "train", batches(run.side, Samples(train), shuffled, BATCH_SIZE))
    dropped = batches(run.side, Samples(train), shuffled, BATCH_SIZE, drop_last=True)
    log_batches(run, "train_drop_last", dropped, shown=0)
    log_batches(run, "test", batches(run.side, Samples(test), range(count(test)), BATCH_SIZE))
    if "values" in run.data.get(TEXT, {}):
        texts = split_documents(run.data[TEXT]["values"], run.data[TEXT]["offsets"])
        padded = batches(run.side, texts, range(len(texts)), BATCH_SIZE, max_length=TEXT_LENGTH)
        log_batches(run, "text", padded)
        words(run, texts)
    tokenizers(run)

    size = BATCH_SIZE
    if run.case.config.get("head") == "lm":
        rows = max(1, SCORED_TOKENS // test["input_ids"].shape[1])
        test, size = {name: values[:rows] for name, values in test.items()}, min(rows, size)
    scores, outputs = evaluate(run, run.build(), test, size)
    if "labels" in test:
        run.log("test/labels", test["labels"])
    for name, values in outputs.items():
        run.log(f"test/{name}", values)
    if classification(outputs, test) is not None:
        run.log_choice("test/predictions", outputs["logits"])
    for name, value in scores.items():
        run.log(name, np.float64(value))


def words(run, texts):
    """Log the vocabulary of the first half of the texts, and all of them as batches of word ids."""
    texts = [bytes((ids - BYTE_OFFSET).astype(np.uint8)).decode(errors="replace") for ids in texts]
    known = Words(texts[: len(texts) // 2], lower=True)
    run.log("words/vocabulary", np.array([digest(word.encode()) for word in known.ids]))
    run.log("words/ids", np.array(list(known.ids.values()), dtype=np.int64))
    documents = [np.array(known.tokens(text)[0], dtype=np.int64) for text in texts]
    run.log("words/lengths", np.array([len(ids) for ids in documents], dtype=np.int64))
    order = range(len(texts))
    padded = batches(run.side, documents, order, BATCH_SIZE, max_length=WORDS_LENGTH)
    log_batches(run, "words", padded)


def tokenizers(run):
    """Log what each tokenizer makes of the hard texts: rows of ids, and all ids as hashes."""
    made = {name: of_hard_texts(name) for name in ("bytes", "words", "words_lower")}
    model = Path(run.request.data or "") / run.pair.name / MODEL
    if run.request.data and model.is_file():
        made["sentencepiece"] = arrays_of(SentencePiece(model))
        run.log("tokenizer/sentencepiece/model", digest(model.read_bytes()))
    for name, arrays in made.items():
        for key, values in arrays.items():
            run.log(f"tokenizer/{name}/{key}", values)


@cache
def of_hard_texts(name):
    """The arrays of a tokenizer that needs no file; the same for every model."""
    half = HARD_TEXTS[: len(HARD_TEXTS) // 2]
    return arrays_of(Bytes() if name == "bytes" else Words(half, lower=name == "words_lower"))


def arrays_of(tokenizer):
    """Return a tokenizer's arrays of the hard texts, by the keys that they are logged under."""
    found = {}
    encoded = encode(tokenizer, HARD_TEXTS, TOKENS_LENGTH)
    if tokenizer.eos_id is not None:
        ended = encode(tokenizer, HARD_TEXTS, TOKENS_LENGTH, eos=True)
        found["ids_with_eos"] = ended["input_ids"]
    found |= {key: encoded[key] for key in ("lengths", "input_ids", "attention_mask", "offsets")}
    everything = [tokenizer.tokens(text) for text in HARD_TEXTS]
    for i, key in enumerate(("all_ids", "all_offsets")):
        hashes = [digest(np.array(row[i], dtype=np.int64).tobytes()) for row in everything]
        found[key] = np.array(hashes, dtype=np.int64)
    return found


def digest(content):
    """The first 7 bytes of the SHA-256 as an integer, for logs, which hold numbers alone."""
    return int.from_bytes(hashlib.sha256(content).digest()[:7], "little")


def log_batches(run, name, loaded, shown=SHOWN):
    """Log how many batches there are, the last one's size, the first few whole, all as hashes."""
    digests, sizes = [], []
    for i, batch in enumerate(loaded):
        sizes.append(count(batch))
        for key, values in batch.items():
            if i < shown:
                run.log(f"{name}/batch/{i:03d}/{key}", values)
            digests.append(digest(np.ascontiguousarray(values).tobytes()))
    run.log(f"{name}/hashes", np.array(digests, dtype=np.int64))
    run.log(f"{name}/batches", np.int64(len(sizes)))
    run.log(f"{name}/last_batch_size", np.int64(sizes[-1] if sizes else 0))
