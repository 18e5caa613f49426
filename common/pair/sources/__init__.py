"""Real files that a preset trains on: read, split and kept as arrays, in the check's process.

A pair's case.py says what each of its presets reads:

    DATA = {"amazon": {"source": "reviews", "split": "random", "length": 512, ...}}

    source      reviews, enwik8, text, classes or ett: the modules' own docstrings say what of
                the other settings each takes
    vocabulary  the configuration's entry that holds the number of words; by default vocab_size
    default     "help": without --data, Python's own help is the text; of ett a file in fake_data/

`prepare` gives a data file of PART/NAME arrays (train, test, sometimes validation), the entries of
the configuration that belong to it, and notes.  What was read once is cached (cache.py).
"""

from collections.abc import Callable
from pathlib import Path

from common.pair.pairs import Pair
from common.pair.sources import cache, classes, ett, language, reviews
from common.pair.sources.request import DataFile, SourceRequest
from common.system.checkout import FAKE_DATA, ROOT
from common.system.errors import UserError

KINDS = {
    # source: (what it is, where it comes from, a small sample of it in fake_data/)
    "reviews": (
        "Amazon's Electronics reviews, reviews_Electronics_5.json.gz",
        "https://jmcauley.ucsd.edu/data/amazon/ (Amazon product data of 2014, 5-core)",
        "reviews_Electronics_5.json.gz",
    ),
    "enwik8": (
        "enwik8, the first 100,000,000 bytes of a dump of Wikipedia",
        "https://mattmahoney.net/dc/enwik8.zip",
        "enwik8.txt",
    ),
    "text": (
        "a text: a file, or a folder of .txt files",
        "https://www.gutenberg.org, for one",
        "enwik8.txt",
    ),
    "classes": (
        "texts with labels: a folder with train.csv and test.csv, one CSV or TSV file, or a folder "
        "with a subfolder of .txt files for each class",
        "AG News: https://huggingface.co/datasets/fancyzhx/ag_news (class,title,description)",
        "ag_news",
    ),
    "ett": (
        "a series: a CSV file with a date column, such as ETTh1.csv",
        "https://github.com/zhouhaoyi/ETDataset (hourly and minute files of two transformers)",
        "seasons.csv",
    ),
}
WITHOUT_TEXT = ("ett",)  # sources of numbers: step 2 has no text to show beside them

SETTINGS = {
    "reviews": ("split", "sizes", "length", "eval_length", "vocabulary"),
    "enwik8": ("length", "vocabulary"),
    "text": ("length", "vocabulary", "default"),
    "classes": ("length", "eval_length", "lower", "columns", "vocabulary"),
    "ett": ("split", "default"),
}


def source_settings(pair: Pair, preset: str) -> dict | None:
    """What the preset reads, from DATA in case.py; None where it reads no file."""
    table = getattr(pair.case, "DATA", None)
    if table is None or preset not in table:
        return None
    settings = table[preset]
    if not isinstance(settings, dict) or settings.get("source") not in KINDS:
        raise UserError(
            f'{pair.folder / "case.py"}: DATA["{preset}"] must be a dict whose "source" is one of '
            f"{', '.join(KINDS)}"
        )
    allowed = {"source", *SETTINGS[settings["source"]]}
    unknown = sorted(map(str, set(settings) - allowed))
    if unknown:
        raise UserError(
            f'{pair.folder / "case.py"}: DATA["{preset}"]: unknown {", ".join(unknown)}; known: '
            f"{', '.join(sorted(allowed))}"
        )
    if settings["source"] == "ett" and settings.get("split") not in ett.SPLITS:
        raise UserError(
            f'{pair.folder / "case.py"}: DATA["{preset}"]: split is {settings.get("split")!r}; '
            f"allowed: {', '.join(ett.SPLITS)}"
        )
    for key in {"length", "eval_length"} & set(SETTINGS[settings["source"]]):
        value = settings.get(key, 1 if key == "eval_length" else None)
        if type(value) is not int or value < 1:
            raise UserError(
                f'{pair.folder / "case.py"}: DATA["{preset}"]: {key} is {value!r}; allowed: an '
                "integer from 1"
            )
    return settings


def takes_tokenizer(pair: Pair, preset: str) -> bool:
    """True for a preset whose texts a SentencePiece model may cut; the others have their tokens."""
    return (source_settings(pair, preset) or {}).get("source") == "text"


def prepare(
    pair: Pair,
    preset: str,
    path: Path | None,
    seed: int,
    tokenizer: Path | None = None,
    on_progress: Callable[[str], None] = lambda text: None,
) -> DataFile:
    """The data of a preset that has an entry in DATA, built from `path` or taken from the cache.

    Raises UserError where the file is missing, damaged, or holds nothing that can be used.
    """
    settings = source_settings(pair, preset)
    kind = settings["source"]
    path = path or default_file(settings)
    if path is None and settings.get("default") != "help":
        raise UserError(f"--data: preset {preset} of {pair.name} reads {_description(kind)}")
    if path is not None and not path.exists():
        raise UserError(f"--data {path}: there is no such file; it should be {_description(kind)}")
    if tokenizer is not None and kind != "text":
        tokenizer = None  # these presets have tokens of their own; step 2 alone uses the tokenizer
    request = SourceRequest(path, settings, pair.config(preset), seed, tokenizer, on_progress)
    build = {
        "reviews": reviews.build,
        "enwik8": language.build,
        "text": language.build,
        "classes": classes.build,
        "ett": ett.build,
    }[kind]
    return cache.cached(request, build)


def default_file(settings: dict) -> Path | None:
    """The file in fake_data/ that a preset reads without --data; None where it has none."""
    name = settings.get("default")
    return FAKE_DATA / name if name and name != "help" else None


def _description(kind: str) -> str:
    """What the file of a source is, where it comes from and how to give it."""
    what, origin, sample = KINDS[kind]
    sample = (FAKE_DATA / sample).relative_to(ROOT)
    return (
        f"{what}, from {origin}: give its path with --data PATH; {sample} is a small one of the "
        "same form, to try with"
    )
