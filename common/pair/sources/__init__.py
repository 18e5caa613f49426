"""Real files that a preset trains on: read, split and kept as arrays, in the check's process.

A pair's case.py says what each of its presets reads:

    DATA = {"amazon": {"source": "reviews", "split": "random", "length": 512, ...}}

    source      reviews, enwik8, text, classes (extras/sources) or ett: the modules' own docstrings
                say what of the other settings each takes
    vocabulary  the configuration's entry that holds the number of words; by default vocab_size
    default     "help": without --data, Python's own help is the text; of ett a file in fake_data/

`prepare` gives a data file of PART/NAME arrays (train, test, sometimes validation), the entries of
the configuration that belong to it, and notes.  What was read once is cached (cache.py).
"""

from collections.abc import Callable
from pathlib import Path

from twincheck.common.pair.pairs import Pair
from twincheck.common.pair.sources import cache, ett
from twincheck.common.pair.sources.request import DataFile, Source, SourceRequest
from twincheck.common.system import extras
from twincheck.common.system.checkout import FAKE_DATA, ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import Kind

SOURCES = "twincheck.sources"  # kind -> its Source
_SERIES = "ett"  # that of a built-in model, which needs no extra


def source_of(settings: dict) -> Source:
    """The source that a preset's settings name."""
    kind = settings["source"]
    return ett.SOURCE if kind == _SERIES else extras.load(SOURCES, kind)


def source_settings(pair: Pair, preset: str) -> dict | None:
    """Return the preset's checked settings in case.py's DATA; None where it reads no file."""
    table = getattr(pair.case, "DATA", None)
    if table is None or preset not in table:
        return None
    settings, where = table[preset], f'{pair.folder / "case.py"}: DATA["{preset}"]'
    kinds = sorted([*extras.entry_points(SOURCES), _SERIES])
    if not isinstance(settings, dict) or settings.get("source") not in kinds:
        raise UserError(Kind.SOURCE_UNKNOWN(where=where, names=kinds))
    source = source_of(settings)
    allowed = {"source", *source.settings}
    unknown = sorted(map(str, set(settings) - allowed))
    if unknown:
        told = {"where": where, "unknown": unknown, "known": sorted(allowed)}
        raise UserError(Kind.SETTINGS_UNKNOWN(**told))
    split = settings.get("split")
    if source is ett.SOURCE and split not in ett.SPLITS:
        told = {"where": where, "name": "split", "value": repr(split)}
        raise UserError(Kind.SETTING_REFUSED(**told, allowed=", ".join(ett.SPLITS)))
    for key in {"length", "eval_length"} & set(source.settings):
        value = settings.get(key, 1 if key == "eval_length" else None)
        if type(value) is not int or value < 1:
            told = {"where": where, "name": key, "value": repr(value)}
            raise UserError(Kind.SETTING_REFUSED(**told, allowed=Kind.INTEGER_FROM(least=1)))
    return settings


def takes_tokenizer(pair: Pair, preset: str) -> bool:
    """True for a preset whose texts a SentencePiece model may cut; the others have their tokens."""
    settings = source_settings(pair, preset)
    return settings is not None and source_of(settings).cuts


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
    source = source_of(settings)
    path = path or default_file(settings)
    if path is None and settings.get("default") != "help":
        told = {"preset": preset, "model": pair.name, "source": _description(source)}
        raise UserError(Kind.SOURCE_NOT_GIVEN(**told))
    if path is not None and not path.exists():
        raise UserError(Kind.SOURCE_MISSING(path=str(path), source=_description(source)))
    if tokenizer is not None and not source.cuts:
        tokenizer = None  # these presets have tokens of their own; step 2 alone uses the tokenizer
    request = SourceRequest(path, settings, pair.config(preset), seed, tokenizer, on_progress)
    return cache.cached(request, source.build)


def default_file(settings: dict) -> Path | None:
    """The file in fake_data/ that a preset reads without --data; None where it has none."""
    name = settings.get("default")
    return FAKE_DATA / name if name and name != "help" else None


def _description(source: Source) -> str:
    """Describe the file of a source: what it is, where it comes from and how to give it."""
    sample = str((FAKE_DATA / source.sample).relative_to(ROOT))
    return Kind.SOURCE_DESCRIBED(what=source.what, origin=source.origin, sample=sample)
