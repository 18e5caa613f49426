"""Step 5, generate: do both sides write the same text from one checkpoint?

    twincheck check-generate --model reformer --weights checkpoint.npz --prompt "The "
    twincheck check-generate --model my_pair --prompt "1 2 3" --prompt "7 8" --pad

Token by token, the most likely one, or with --sample one drawn by the tape, which draws the same on
both sides.  Every choice is in the ledger with its margin.  Exit status 0: the same text.

Every prompt is gone on with by itself, the whole text given anew for each token, and each side must
then agree with itself: with its key-value cache, on all prompts as one padded batch, and by its
library's `generate` (docs/generation.md).  The built-in Reformer's loop goes by its cache, or with
--cache none without: hashing attention with a cache is another function, the text may be another.
"""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from twincheck.common.check.command_line import write_step_page
from twincheck.common.check.options import OF_EVERY_CHECK, OF_JUDGING, CheckOptions, Parser, of
from twincheck.common.check.report_json import json_text
from twincheck.common.check.result import overall_exit
from twincheck.common.check.runner import base_folder, run_step
from twincheck.common.check.steps import Launch, Step
from twincheck.common.logs.result_folder import GENERATION_FILE
from twincheck.common.pair.pairs import MODELS, WORDS, folder_of, load_pairs
from twincheck.common.report import terminal as report
from twincheck.common.report.commands import whole
from twincheck.common.report.summary import last_line
from twincheck.common.system.door import for_others
from twincheck.common.system.errors import UserError
from twincheck.common.system.extras import of_pairs
from twincheck.common.system.files import write_text
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.program import guarded
from twincheck.common.verdict.row import Row
from twincheck.common.weights.checkpoint import configured
from twincheck.extras.generation import Kind, prompts
from twincheck.extras.generation.generation import CACHE, LIBRARY, LOOP, Request
from twincheck.extras.generation.judge_generation import (
    Generated,
    document,
    itself_rows,
    left_out,
    varied,
)

TOKENS, PAIR_TOKENS = 64, 32
SHOWN = 5  # differences of a prompt
CACHES = {"both": SIDES, **{side: (side,) for side in SIDES}, "none": ()}
_OF_A_DIFFERENCE = "token", "position", *SIDES, "reference", "verdict", "margin"


def with_themselves(folder: Path, pair) -> tuple[list[Row], list[str]]:
    """Rows on whether each side agrees with itself, and notes on what was not run."""
    found = Generated.read(folder)
    return itself_rows(found), [*left_out(found), *filter(None, [varied(found)])]


STEP = Step(
    number=5,
    title="train",
    script="generate",
    scripts="extras.generation",
    launches=(),
    judged=("generate",),
    guide_stem="generate",
    extra=with_themselves,
    other="generate",
)


def options_parser() -> Parser:
    """Return the parser of this check's options."""
    parser = Parser(__doc__, STEP.command).take(
        *OF_EVERY_CHECK, *of("half"), "transplant", "tokenizer"
    )
    parser.set_defaults(preset="")  # main's affair: it depends on the model
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--prompt",
        action="append",
        metavar="TEXT|IDS",
        help=Kind.HELP_PROMPT(prompt=prompts.PROMPT),
    )
    group.add_argument("--prompts", type=Path, metavar="FILE", help=Kind.HELP_PROMPTS())
    tokens = Kind.HELP_TOKENS(tokens=TOKENS, of_a_pair=PAIR_TOKENS)
    parser.add_argument("--tokens", type=int, metavar="N", help=tokens)
    parser.add_argument("--cache", choices=CACHES, help=Kind.HELP_CACHE())
    parser.add_argument("--library", action="store_true", help=Kind.HELP_LIBRARY())
    parser.add_argument("--pad", action="store_true", help=Kind.HELP_PAD())
    parser.add_argument("--sample", action="store_true", help=Kind.HELP_SAMPLE())
    parser.add_argument("--temperature", type=float, metavar="T", help=Kind.HELP_TEMPERATURE())
    parser.add_argument("--top-k", type=int, metavar="K", help=Kind.HELP_TOP_K())
    return parser


@of_pairs("--out")
def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    given = options_parser().parse_args(arguments)
    given.model = given.model or ["reformer"]
    built_in = all(name == "all" or folder_of(name).parent == MODELS for name in given.model)
    given.preset = given.preset or ("text" if built_in else "default")
    # With --compare-only the tokens are written out as text.
    options = replace(CheckOptions.of(given), judging=(*OF_JUDGING, "tokenizer"))
    return guarded(given.debug, lambda: check(given, options))


def check(arguments, options: CheckOptions) -> int:
    """Run both sides, show their texts and judge; returns the exit status.

    arguments   the parsed command line: what to generate
    """
    options.refuse_contradictions()
    pairs = {pair.name: pair for pair in load_pairs(options.models)}
    coders = {name: prompts.coder_of(pair, options) for name, pair in pairs.items()}
    requests = {}
    with tempfile.TemporaryDirectory(prefix="generate-") as name:
        for pair in () if options.compare_only else pairs.values():
            if options.run.weights and options.run.weights not in WORDS:
                pair, _ = configured(pair, options.run.weights, options.run.preset, train=False)
            config, coder = pair.config(options.run.preset), coders[pair.name]
            request = request_of(arguments, pair, config, coder, options.run.seed)
            request.save(Path(name) / pair.name)
            requests[pair.name] = request
        step = replace(STEP, launches=(Launch({"data": name}, teacher_forced=False),))
        with report.progress() as on_progress:
            results = run_step(step, options, on_progress)
    documents = {}
    for result in results:
        if result.error:
            continue
        coder = coders[result.model]
        where = base_folder(replace(step, other=""), options) / result.model / GENERATION_FILE
        told = document_of(
            result, pairs[result.model], requests.get(result.model), coder, where, options
        )
        show_document(told)
        documents[result.model] = told
        where.parent.mkdir(parents=True, exist_ok=True)
        write_json(where, told)
    report.show_step(step, results)
    if arguments.json:
        write_text(arguments.json, json_text(results, generation=documents))
    page = write_step_page(step, options, results)
    report.say(last_line(results, page))
    return overall_exit(results)


def refuse_settings(options) -> None:
    """Raise UserError for numbers that no model can go by."""
    temperature = options.temperature
    if not options.sample and (temperature is not None or options.top_k is not None):
        raise UserError(Kind.SETTINGS_WITHOUT_SAMPLE())
    for option, number in {"tokens": options.tokens, "top-k": options.top_k}.items():
        if number is not None and number < 1:
            raise UserError(Kind.NUMBER_BELOW_ONE(option=option, number=number))
    if temperature is not None and not (math.isfinite(temperature) and temperature > 0.0):
        raise UserError(Kind.TEMPERATURE_NOT_POSITIVE(temperature=temperature))


def request_of(options, pair, config, coder, seed: int) -> Request:
    """Return what both sides are asked for; raises UserError for what cannot be asked."""
    refuse_settings(options)
    if pair.built_in:
        _refuse_of_reformer(options, config)
    if options.sample and options.library:
        raise UserError(Kind.SAMPLE_AND_LIBRARY())
    usual = TOKENS if pair.built_in else PAIR_TOKENS
    tokens = usual if options.tokens is None else options.tokens
    rows = prompts.rows_of(pair, config, options, coder, seed)
    vocabulary = config.get("vocab_size", math.inf)
    of_preset = {"preset": options.preset, "vocabulary": vocabulary}
    for ids in rows:
        if ids.max() >= vocabulary:
            beyond = Kind.PROMPT_BEYOND_VOCABULARY(
                pair=pair.name, token=int(ids.max()), **of_preset
            )
            raise UserError(beyond)
    if pair.built_in and vocabulary > coder.size:
        of_coder = {"tokenizer": coder.name, "size": coder.size}
        raise UserError(Kind.TOKENIZER_SMALLER(**of_preset, **of_coder))
    longest, places = max(ids.size for ids in rows), positions(config)
    if longest + tokens > places:
        said = {"prompt": longest, "tokens": tokens, "preset": options.preset, "positions": places}
        raise UserError(Kind.POSITIONS_FEW(**said))
    if options.pad and len({ids.size for ids in rows}) == 1:
        raise UserError(Kind.PAD_OF_ONE_LENGTH())
    return Request(
        tuple(rows),
        tokens,
        options.sample,
        1.0 if options.temperature is None else options.temperature,
        options.top_k or 0,
        CACHES[options.cache or "both"],
        _token(config.get("eos_token_id"), -1),
        library=options.library,
        asked=options.cache is not None,
        padded=options.pad,
        pad=_token(config.get("pad_token_id"), 0),
        cached_loop=pair.built_in,
    )


def _refuse_of_reformer(options, config) -> None:
    """Raise UserError for what hashing attention, which a cache makes another function, has not."""
    if options.dtype not in (None, "float32"):
        raise UserError(Kind.REFORMER_OF_ANOTHER_DTYPE(dtype=options.dtype))
    idle = ("library", options.library), ("cache", options.cache in SIDES), ("pad", options.pad)
    for name, is_given in idle:
        if is_given:
            raise UserError(Kind.REFORMER_WITHOUT_OPTION(option=name))
    if config.get("head", "lm") != "lm":
        raise UserError(Kind.HEAD_OF_NO_TEXT(preset=options.preset, head=config["head"]))


def _token(value: object, default: int) -> int:
    """A token that a configuration names; the default where it names none, or several."""
    return value if isinstance(value, int) and value >= 0 else default


def positions(config) -> float:
    """Return how many positions a model has; infinity where its configuration does not say."""
    count = config.get("max_position_embeddings", math.inf)
    if config.get("axial_pos_embds", False):
        count = min(count, math.prod(config.get("axial_pos_shape", [count])))
    return count


def document_of(
    result, pair, request: Request | None, coder, former: Path, options: CheckOptions
) -> dict:
    """Return generation.json of a result; of logs judged again, with how they were made."""
    found = Generated.read(result.folder)
    kept = load_json(former) if request is None and former.is_file() else {}
    how, command = kept.get("how"), kept.get("command")
    if request is not None:
        command = whole(STEP.command, options.typed, for_others)
        how = {
            "tokens": request.tokens,
            "sample": request.sample,
            "temperature": request.temperature,
            "top_k": request.top_k,
            "by": [
                LOOP,
                *[CACHE] * (bool(request.cache) and not request.cached_loop),
                *[LIBRARY] * request.library,
            ],
            "padded": request.padded,
            "cache": {side: side in request.cache for side in SIDES},
        }
    more = {"pair": str(pair.folder), "command": command, "how": how}
    told = document(found, result.verdict, result.exit_code, result.rows, **more)
    for prompt in told["prompts"] if coder is not None else ():
        _refuse_unwritten(result.folder, coder, prompt)
        prompt["text"] = coder.decode(np.array(prompt["prompt"], np.int64))
        prompt["texts"] = {s: coder.decode(np.array(prompt["free"][s], np.int64)) for s in SIDES}
    return told


def _refuse_unwritten(folder: Path, coder, prompt: dict) -> None:
    """Raise UserError for ids that a tokenizer has no text for."""
    free = prompt["free"].values()
    largest = max(map(max, filter(None, [prompt["prompt"], *free])))
    if largest >= getattr(coder, "size", math.inf):
        of_coder = {"tokenizer": coder.name, "size": coder.size}
        raise UserError(Kind.LOGS_BEYOND_TOKENIZER(folder=str(folder), token=largest, **of_coder))


def show_document(told: dict) -> None:
    """Print what was written, and where the sides part, in a few lines."""
    share = {name: told[name] for name in ("model", "equal", "tokens", "share")}
    report.say(Kind.TOKENS_THE_SAME(count=len(told["prompts"]), **share))
    for number, prompt in enumerate(told["prompts"]):
        if prompt["text"] is not None:
            text = prompts.shown(prompt["text"])
            report.say(Kind.PROMPT_NUMBERED(number=number, text=text))
            texts = {side: prompts.shown(prompt["texts"][side]) for side in SIDES}
            if prompt["free"]["torch"] == prompt["free"]["paddle"]:
                report.say(Kind.BOTH_WROTE(text=texts["torch"]))
            else:
                for side in SIDES:
                    report.say(Kind.SIDE_WROTE(side=side, text=texts[side]))
        for at in prompt["differences"][:SHOWN]:
            noise = {side: n for side, n in at["noise"].items() if n is not None}
            noises = [Kind.NOISE_OF_SIDE(side=side, noise=n) for side, n in noise.items()]
            said = {name: at[name] for name in _OF_A_DIFFERENCE}
            said["noise"] = noises or [Kind.NOISE_NOT_KNOWN()]
            report.say(Kind.TOKEN_DIFFERS(prompt=number, **said))
    for way in told["itself"]:
        if way["verdict"] in ("IDENTICAL", "ROUNDING"):
            report.say(Kind.WAY_AGREES(**{n: way[n] for n in ("side", "way", "verdict")}))
