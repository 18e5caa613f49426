"""Step 5, generate: do both sides write the same text from one checkpoint?

    python step5_train/check_generate.py --model reformer --weights checkpoint.npz --prompt "The "

Token by token, the most likely one, or with --sample one drawn by the tape, which draws the same on
both sides; with a cache of what was read before, or with --no-cache the whole text anew for each
token (hashing attention with a cache is another function, so the text may be another).  Every
choice is in the ledger with its margin.  Exit status 0: the same text.
"""

import sys
from pathlib import Path

# This folder holds folders called torch and paddle: the checkout takes its place in the search.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from common.system.start import begin

    begin("numpy", "rich")

import math
import tempfile
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from common.check.command_line import write_step_page
from common.check.flags import OF_EVERY_CHECK, OF_JUDGING, Parser
from common.check.guard import guarded
from common.check.options import CheckOptions
from common.check.report_json import write_report
from common.check.result import overall_exit
from common.check.runner import run_step
from common.check.steps import Launch, Step
from common.logs.reader import read_log
from common.logs.result_folder import FLOAT64, UNFORCED, ResultFolder
from common.pair.pairs import WORDS, load_pairs
from common.report import terminal as report
from common.system.errors import UserError
from common.system.frameworks import SIDES
from common.verdict.row import Row, claim
from common.weights.checkpoint import configured
from step5_train import prompts
from step5_train.generation import Request

PROMPT = "The "


def same_text(folder: Path, pair) -> tuple[list[Row], list[str]]:
    """One row: are the float32 texts the same, each side going its own way?"""
    torch_ids, paddle_ids = (own_ids(folder, side) for side in SIDES)
    shorter = min(torch_ids.size, paddle_ids.size)
    differing = np.flatnonzero(torch_ids[:shorter] != paddle_ids[:shorter])
    longer = max(torch_ids.size, paddle_ids.size)
    wrong = differing.size + longer - shorter
    if not wrong:
        return [claim("text", 0.0, 0.0)], []
    first = int(differing[0]) if differing.size else shorter
    return [claim("text", wrong, 0.0, _first_difference(folder, torch_ids, paddle_ids, first))], []


def own_ids(folder: Path, side: str) -> np.ndarray:
    """Prompt and text of a side's float32 run that went on with its own choices, (T,) int64.

    There is such a log where one of them fell otherwise; else the one with forced choices is it.
    """
    files = ResultFolder(folder)
    unforced = files.log("generate", side, UNFORCED)
    with read_log(unforced if unforced.is_file() else files.log("generate", side)) as log:
        return log["ids"]


def _first_difference(folder: Path, torch_ids, paddle_ids, first: int) -> str:
    """Names the first token that differs: its margin, and how far apart the float64 logits are."""
    files = ResultFolder(folder)
    with ExitStack() as stack:
        torch_log, paddle_log = (
            stack.enter_context(read_log(files.log("generate", side, FLOAT64))) for side in SIDES
        )
        number = first - torch_log["prompt"].size
        tokens = [
            str(ids[first]) if first < ids.size else "none" for ids in (torch_ids, paddle_ids)
        ]
        sentence = f"token {number} differs first: torch {tokens[0]}, paddle {tokens[1]}"
        if not np.array_equal(torch_log["ids"][:first], torch_ids[:first]):
            return f"{sentence}; torch's float64 text is another even before it"
        key = f"token_{number}/logits"
        if key not in torch_log or key not in paddle_log:
            return sentence
        margin = float(torch_log[f"token_{number}/choice:margin"].item())
        gap = float(np.abs(torch_log[key] - paddle_log[key]).max())
        return (
            f"{sentence}; torch's float64 choice {torch_log[f'token_{number}/choice'].item()} has "
            f"the margin {margin:.2e}, and the sides' float64 logits differ by {gap:.2e} at most"
        )


STEP = Step(
    number=5,
    title="train",
    script="generate",
    launches=(),
    judged=("generate",),
    guide_stem="generate",
    extra=same_text,
    other="generate",
)


def options_parser() -> Parser:
    """What this check takes."""
    parser = Parser(__doc__).take(*OF_EVERY_CHECK, "transplant", "tokenizer")
    parser.set_defaults(preset="text")
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--prompt", metavar="TEXT", help=f'what to go on with, by default {PROMPT!r}: --prompt "A "'
    )
    group.add_argument(
        "--prompt-file", type=Path, metavar="FILE", help="a file of it: --prompt-file start.txt"
    )
    parser.add_argument(
        "--tokens", type=int, default=64, metavar="N", help="how many more: --tokens 100"
    )
    parser.add_argument("--sample", action="store_true", help="draw tokens, by the tape: --sample")
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="of --sample, 1 by default: --temperature 2"
    )
    parser.add_argument(
        "--top-k", type=int, metavar="K", help="of --sample, among so many: --top-k 40"
    )
    parser.add_argument(
        "--no-cache", action="store_true", help="read the whole text each time: --no-cache"
    )
    return parser


def main() -> int:
    """See the module's docstring; returns the exit status."""
    arguments = options_parser().parse_args()
    arguments.model = arguments.model or ["reformer"]
    # With --compare-only the tokens are written out as text.
    options = replace(CheckOptions.of(arguments), judging=(*OF_JUDGING, "tokenizer"))
    return guarded(arguments.debug, lambda: check(arguments, options))


def check(arguments, options: CheckOptions) -> int:
    """Run both sides, show their texts and judge; returns the exit status.

    arguments   the parsed command line: what to generate
    """
    options.refuse_contradictions()
    coder = prompts.tokenizer(options.tokenizer, options.run.weights)
    with tempfile.TemporaryDirectory(prefix="generate-") as name:
        if not options.compare_only:
            content = prompt_of(arguments)
            for pair in load_pairs(options.models):
                if options.run.weights and options.run.weights not in WORDS:
                    pair, _ = configured(pair, options.run.weights, options.run.preset, train=False)
                request_of(arguments, pair.config(options.run.preset), coder, content).save(
                    Path(name) / pair.name
                )
        step = replace(STEP, launches=(Launch({"data": name}, single_step=False),))
        with report.progress() as on_progress:
            results = run_step(step, options, on_progress)
    texts = {result.model: texts_of(result.folder, coder) for result in results if not result.error}
    for model, written in texts.items():
        show_texts(model, written)
    report.show_step(step, results)
    if arguments.json:
        write_report(arguments.json, results, texts=texts)
    write_step_page(step, options, results)
    return overall_exit(results)


def prompt_of(options) -> bytes:
    """The prompt's bytes; raises UserError for a file that cannot be read."""
    if options.prompt_file is None:
        text = PROMPT if options.prompt is None else options.prompt
        return text.encode(errors="surrogateescape")
    try:
        return options.prompt_file.read_bytes()
    except OSError as error:
        raise UserError(f"--prompt-file {options.prompt_file}: {error.strerror}") from None


def request_of(options, config, coder, content: bytes) -> Request:
    """What both sides are asked for; raises UserError for what a model cannot do."""
    temperature = 1.0 if options.temperature is None else options.temperature
    if not options.sample and (options.temperature is not None or options.top_k is not None):
        raise UserError("--temperature and --top-k say how to draw: give --sample too")
    for name in ("tokens", "top_k"):
        number = getattr(options, name)
        if number is not None and number < 1:
            raise UserError(f"--{name.replace('_', '-')} {number}: allowed: a number from 1")
    if not (math.isfinite(temperature) and temperature > 0.0):
        raise UserError(f"--temperature {temperature}: allowed: a number above 0")
    if config.get("head", "lm") != "lm":
        raise UserError(
            f"--preset {options.preset}: its head is {config['head']!r}; text is generated by 'lm'"
        )
    ids = coder.encode(content)
    if ids.size == 0:
        raise UserError("the prompt is empty: give at least one token to go on with")
    vocabulary = config.get("vocab_size", coder.size)
    if int(ids.max()) >= vocabulary:
        raise UserError(
            f"the prompt holds token {ids.max()}, and preset {options.preset} has {vocabulary}: "
            "another --tokenizer belongs to it"
        )
    if vocabulary > coder.size:
        raise UserError(
            f"preset {options.preset} has {vocabulary} tokens, and tokenizer {coder.name} "
            f"{coder.size}: give the --tokenizer that belongs to it"
        )
    places = positions(config)
    if ids.size + options.tokens > places:
        raise UserError(
            f"a prompt of {ids.size} tokens and {options.tokens} more: preset {options.preset} has "
            f"{places} positions; shorten the prompt, or give fewer --tokens"
        )
    end = config.get("eos_token_id")
    return Request(
        ids[None],
        options.tokens,
        options.sample,
        temperature,
        options.top_k or 0,
        not options.no_cache,
        -1 if end is None else int(end),
    )


def positions(config) -> float:
    """How many tokens a model has positions for; infinity where its configuration does not say."""
    count = config.get("max_position_embeddings", math.inf)
    if config.get("axial_pos_embds", False):
        count = min(count, math.prod(config.get("axial_pos_shape", [count])))
    return count


def texts_of(folder: Path, coder) -> dict[str, str | bool]:
    """The prompt, what each side wrote behind it, and whether that is the same, token by token.

    Raises UserError for ids without text.
    """
    with read_log(ResultFolder(folder).log("generate", "torch")) as log:
        prompt = log["prompt"]
    written = {side: own_ids(folder, side)[prompt.size :] for side in SIDES}
    for ids in (prompt, *written.values()):
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < coder.size:
            raise UserError(
                f"{folder}: these logs hold token {ids.max()}, and tokenizer {coder.name} has "
                f"{coder.size}: give the --tokenizer that belongs to them"
            )
    texts = {"prompt": coder.decode(prompt), **{s: coder.decode(i) for s, i in written.items()}}
    # Tokens that are no UTF-8 are shown alike.
    return texts | {"same": bool(np.array_equal(*written.values()))}


def show_texts(model: str, texts: dict[str, str | bool]) -> None:
    """Print what was written, once where both sides wrote the same."""
    report.say(f"{model}, prompt: {prompts.shown(texts['prompt'])}")
    if texts["same"]:
        report.say(f"both sides: {prompts.shown(texts['torch'])}")
        return
    for side in SIDES:
        report.say(f"{side}: {prompts.shown(texts[side])}")


if __name__ == "__main__":
    sys.exit(main())
