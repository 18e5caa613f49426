"""Generation on one side: its plain loop, and what must agree with it.

The plain loop gives the whole text to the pair's model for each token, and the reference's float64
run says with which token all go on.  What is run beside it is fed the same tokens: the key-value
cache, all prompts as one left-padded batch, and the library's own `generate`.  How far each is from
the loop goes into the sidecar (`generated`); judge_generation.py judges it.

A library's model is known by what its forward takes (`past_key_values` or `cache`, and `use_cache`)
and by its `generate`.  For others torch_model.py and paddle_model.py may define

    next_logits  (model, inputs, cache) -> (logits, cache): inputs are the tensors input_ids (B, T),
                 new tokens, attention_mask (B, all tokens so far, 1 = keep) and position_ids (B,
                 T); cache is None at first, then what was returned; logits (B, T, V)
    generate     (model, inputs, tokens, cache) -> ids (B, tokens) of the most likely tokens;
                 inputs are input_ids and attention_mask (B, T); cache: whether to use one

and case.py, where forward calls them otherwise, TOKEN_INPUTS, {"input_ids": its name there,
"attention_mask": …, "position_ids": …}.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from twincheck.common.pair.nested import flat
from twincheck.common.sides.instruments import enter_choice
from twincheck.common.sides.session import Session, current, using
from twincheck.common.sides.worker import error_sentence
from twincheck.common.system.errors import UserError
from twincheck.common.system.tree import tree_leaves
from twincheck.extras.generation import Kind
from twincheck.extras.generation.generation import (
    CACHE,
    LIBRARY,
    PADDED,
    PADDED_CACHE,
    PADDED_LIBRARY,
    SITE,
    Request,
    choose,
)

IDS, MASK, POSITIONS = "input_ids", "attention_mask", "position_ids"
NAMES = {IDS: IDS, MASK: MASK, POSITIONS: POSITIONS}
CACHES = ("past_key_values", "cache")  # what libraries call it
HASHED = "past_buckets_states"  # the Reformer's
# What the plain loop's positions come to, where they are given, and such as begin anew.
RIGHT, RESTART = "with_positions", "restart"
OFF = 1e-6  # of the logits: so far off that it is worth asking why


class LeftOut(Exception):
    """A way of generating that this side's model does not have."""


class Decoder:
    """One model of a pair that generates behind the prompts of a request."""

    def __init__(self, run, request: Request):
        self.run, self.request, self.side = run, request, run.side
        self.model = run.build()
        self.names = token_names(run.pair, run.case.config, parameters(self.model))
        self.logits: list[np.ndarray] = []  # of each prompt, (N, V)
        self.ids: list[np.ndarray] = []  # prompt and what all runs go on with, (T + N)
        self.found: dict[str, list[float | None]] = {}
        self.left_out: list[str] = []
        self.failed: dict[str, str] = {}

    # ---- the plain loop -------------------------------------------------------------------------

    def write(self) -> None:
        """The plain loop behind each prompt, and its choices in the ledger."""
        for number, prompt in enumerate(self.request.prompts):
            self._write(number, prompt)

    def _write(self, number: int, prompt: np.ndarray) -> None:
        run, request, session = self.run, self.request, self.run.session
        key = f"prompt_{number}/choice"
        forced = (session.forced or {}).get(run.prefix + key)
        ids, rows = prompt, {"logits": [], "choice": [], "scores": [], "kept": []}
        cached, cache = request.cached_loop and self.side.NAME in request.cache, None
        for n in range(request.tokens if forced is None else forced.size):
            # Each pass begins anew, so that all draw the same numbers.
            session.begin(prefix=f"{run.prefix}prompt_{number}/token_{n}/")
            if cached:
                logits, cache = self._next_of_cache(ids, cache)
            else:
                logits = self.plain(ids[None], np.ones_like(ids[None]))[0]  # (V)
            draw = session.tape.generator(f"{SITE}/prompt_{number}", n).random()
            scores, kept = choose(logits, request, draw)
            own = scores.argmax()
            for name, value in zip(rows, (logits, own, scores, kept), strict=True):
                rows[name].append(value)
            ids = np.append(ids, own if forced is None else forced[n])
            of = {"number": number + 1, "count": len(request.prompts)}
            run.progress(Kind.NOW_PROMPT(**of, token=n + 1))
            if request.cached_loop and ids[-1] == request.end:
                break
        session.begin(prefix=run.prefix)
        arrays = {name: np.stack(values) for name, values in rows.items()}
        if request.sample:
            run.log(f"prompt_{number}/logits", arrays["logits"])
        if request.sample and request.top_k:
            self._enter(f"prompt_{number}/kept", arrays["logits"], arrays["kept"])
        self._enter(key, arrays["scores"], arrays["choice"])
        run.log(f"prompt_{number}/ids", ids)
        self.logits.append(arrays["logits"])
        self.ids.append(ids)

    def _enter(self, label: str, scores: np.ndarray, choice: np.ndarray) -> None:
        enter_choice(self.side, label, self.side.tensor(scores), self.side.tensor(choice))

    def plain(self, ids, mask, positions=None) -> np.ndarray:
        """Logits (B, V) behind ids (B, T), which are all given at once."""
        network = self.model if positions is None else self._padded_model()
        outputs = self._call(network, {IDS: ids, MASK: mask, POSITIONS: positions})
        return self._last(outputs)

    def _next_of_cache(self, ids: np.ndarray, cache):
        """Logits (V) behind ids (T), all but whose last are in the cache, and the next cache."""
        new = ids if cache is None else ids[-1:]
        outputs = self._call(self.model, {IDS: new[None]}, use_cache=True, **{HASHED: cache})
        return self._last(outputs)[0], outputs[HASHED]

    def _padded_model(self):
        """Return the model that takes a mask, and positions too where anything does."""
        library = self._library_model()
        for network, wanted in ((self.model, POSITIONS), (library, POSITIONS), (self.model, MASK)):
            names = self.names if network is self.model else NAMES
            takes = parameters(network) if network is not None else {}
            if {names.get(MASK), names.get(wanted)} <= takes.keys():
                return network
        raise LeftOut(Kind.MASK_NOT_TAKEN())

    def _call(self, network, given: Mapping[str, np.ndarray | None], **more):
        """The outputs of a model for what it takes of these arrays, and of more."""
        takes = parameters(network)
        names = self.names if network is self.model else {}
        inputs = {names.get(k, k): v for k, v in given.items() if v is not None}
        tensors = {k: self.side.tensor(v) for k, v in inputs.items() if k in takes}
        more = {name: value for name, value in more.items() if name in takes}
        current().running.clear()
        with self.run.no_gradients(), self.run.drawing():
            return network(**tensors, **more)

    def _last(self, outputs) -> np.ndarray:
        """The logits (B, V) of the last place, of what a model returned."""
        logits = part(outputs, "logits", 0)
        if not self.side.is_tensor(logits):
            leaves = [leaf for _, leaf in tree_leaves(outputs, self.side.is_tensor)]
            logits = leaves[0] if len(leaves) == 1 else None
        if logits is None:
            raise UserError(Kind.OUTPUT_MISSING(model=self.run.pair.name, name="logits"))
        if logits.ndim != 3:
            raise UserError(Kind.LOGITS_NO_ROWS(model=self.run.pair.name))
        return self.side.array(logits[:, -1])

    # ---- what must agree with it ----------------------------------------------------------------

    def compare(self) -> None:
        """Run what was asked for beside the plain loop, and note how far it is from it."""
        request = self.request
        cache = self.side.NAME in request.cache and not request.cached_loop
        ways = (
            (CACHE, cache, self._with_cache),
            (PADDED, request.padded, self._padded),
            (PADDED_CACHE, cache and request.padded, self._padded_with_cache),
            (LIBRARY, request.library, self._by_library),
            (PADDED_LIBRARY, request.library and request.padded, self._padded_by_library),
        )
        with using(Session(self.run.request.seed)):
            for way, _, function in (each for each in ways if each[1]):
                try:
                    function()
                except UserError:
                    raise
                except LeftOut as error:
                    self._leave_out(way, str(error))
                except Exception as error:  # of the model's own: it is what this way came to
                    self.failed[way] = error_sentence(error)

    def _leave_out(self, way: str, why: str) -> None:
        file = self.run.pair.folder / f"{self.side.NAME}_model.py"
        if self.request.asked or way not in (CACHE, PADDED_CACHE):
            raise UserError(Kind.WAY_MISSING(file=str(file), way=way, why=why))
        self.left_out.append(Kind.WAY_LEFT_OUT(side=self.side.NAME, way=way, why=why))

    def _note(
        self, way: str, number: int, logits: Sequence[np.ndarray], name: str = "gap", against=None
    ) -> bool:
        """Note how far logits (N) of (V) are from the plain loop's, or others; are they off?"""
        plain = self.logits[number] if against is None else np.stack(against)
        plain = plain[: len(logits)].astype(np.float64)
        with np.errstate(invalid="ignore"):
            gaps = np.abs(np.stack(logits) - plain).max(axis=-1)
        self.found[f"{way}/prompt_{number}:{name}"] = [
            float(gap) if np.isfinite(gap) else None for gap in gaps
        ]
        return not (gaps <= OFF * np.abs(plain).max()).all()

    def _with_cache(self) -> None:
        for number in range(len(self.ids)):
            ids, mask, right = self._batch([number])
            rows = [row[0] for row in self._cached(CACHE, ids, mask)]
            if not self._note(CACHE, number, rows):
                continue
            if self._hook("next_logits") or POSITIONS not in parameters(self._library_model()):
                continue
            # Which positions does the model take for the tokens behind its cache?
            length = self.request.prompts[number].size
            behind = np.arange(right.shape[1]) >= length
            places = {RIGHT: right, RESTART: np.where(behind, 0, right)}
            for name, positions in places.items():
                tried = [row[0] for row in self._cached(CACHE, ids, mask, positions)]
                against = None if name == RIGHT else rows
                self._note(CACHE, number, tried, name, against)

    def _padded(self) -> None:
        steps = []
        for n in range(self.request.tokens):
            self._begin(PADDED, n)
            ids, mask, positions = self._batch(until=n)
            steps.append(self.plain(ids, mask, positions))
        # Other padding in the same places must not matter.
        other = (self.request.pad + 1) % self.logits[0].shape[-1]
        ids, mask, positions = self._batch(until=0, pad=other)
        other = self.plain(ids, mask, positions)
        for number in range(len(self.ids)):
            self._note(PADDED, number, [step[number] for step in steps])
            self._note(PADDED, number, [other[number]], "other_padding")

    def _padded_with_cache(self) -> None:
        ids, mask, _ = self._batch()
        steps = list(self._cached(PADDED_CACHE, ids, mask, positions_of(mask)))
        for number in range(len(self.ids)):
            self._note(PADDED_CACHE, number, [step[number] for step in steps])

    def _cached(self, way: str, ids, mask, positions=None) -> Iterator[np.ndarray]:
        """Logits (B, V) for token after token: the prompts at once, then each token alone.

        ids, mask  (B, T + N), to the last token
        positions  (B, T + N), given where they are taken; None: only where they must be given
        """
        hook, library = self._hook("next_logits"), self._library_model()
        if hook is None and library is None:
            raise LeftOut(Kind.CACHE_NOT_TAKEN())
        takes = parameters(library) if library is not None else {}
        needed = POSITIONS in takes and takes[POSITIONS].default is inspect.Parameter.empty
        places, cache, first = positions_of(mask) if positions is None else positions, None, 0
        for n in range(self.request.tokens):
            self._begin(way, n)
            end = ids.shape[1] - self.request.tokens + n
            given = {IDS: ids[:, first:end], MASK: mask[:, :end], POSITIONS: places[:, first:end]}
            first = end
            if hook is not None:
                tensors = {name: self.side.tensor(values) for name, values in given.items()}
                with self.run.no_gradients(), self.run.drawing():
                    logits, cache = hook(self.model, tensors, cache)
                yield self._last({"logits": logits})
                continue
            if positions is None and not needed:
                given[POSITIONS] = None
            name = next(name for name in CACHES if name in takes)
            more = {name: cache, "use_cache": True, "return_dict": True}
            outputs = self._call(library, given, **more)
            cache = part(outputs, name, 1)
            logits = self._last(outputs)
            if cache is None or logits.shape[-1] != self.logits[0].shape[-1]:
                raise LeftOut(Kind.LOGITS_NOT_WITH_CACHE(model=type(library).__name__))
            yield logits

    def _by_library(self) -> None:
        for number, ids in enumerate(self.ids):
            prompt, tokens = self.request.prompts[number], self.request.tokens
            written, n = np.full(tokens, -1), 0
            while n < tokens:
                self._begin(LIBRARY, n)
                start = ids[None, : prompt.size + n]
                new = self._generated(start, np.ones_like(start), tokens - n)[0]
                expected = ids[prompt.size + n :][: new.size]
                other = np.flatnonzero(new != expected)
                # Behind another choice it is asked again, behind the reference's.
                count = int(other[0]) + 1 if other.size else new.size
                if count == 0:
                    raise UserError(Kind.GENERATE_GAVE_NOTHING(model=self.run.pair.name))
                written[n : n + count] = new[:count]
                n += count
            self.found[f"{LIBRARY}/prompt_{number}:choice"] = written.tolist()

    def _padded_by_library(self) -> None:
        self._begin(PADDED_LIBRARY, 0)
        ids, mask, _ = self._batch(until=0)
        new = self._generated(ids, mask, self.request.tokens)
        for number, row in enumerate(new):
            expected = self.ids[number][self.request.prompts[number].size :][: row.size]
            ended = np.flatnonzero((row != expected) | (row == self.request.end))
            written = np.full(self.request.tokens, -1)
            count = int(ended[0]) + 1 if ended.size else row.size
            written[:count] = row[:count]
            self.found[f"{PADDED_LIBRARY}/prompt_{number}:choice"] = written.tolist()

    def _generated(self, ids, mask, tokens: int) -> np.ndarray:
        """Generate tokens behind ids (B, T) by the library's own `generate`: (B, <= tokens)."""
        inputs = {IDS: self.side.tensor(ids), MASK: self.side.tensor(mask)}
        hook, cache = self._hook("generate"), self.side.NAME in self.request.cache
        with self.run.no_gradients():
            if hook is not None:
                return self.side.array(hook(self.model, inputs, tokens, cache))
            modules = (module for _, module in self.side.modules(self.model))
            library = next((m for m in modules if callable(getattr(m, "generate", None))), None)
            if library is None:
                raise LeftOut(Kind.GENERATE_MISSING())
            more = {"max_new_tokens": tokens, "do_sample": False, "use_cache": cache}
            if self.side.NAME == "paddle":
                more["decode_strategy"] = "greedy_search"
            written = library.generate(**inputs, **more)
        written = self.side.array(part(written, "sequences", 0))
        # transformers returns the prompt too, PaddleFormers and PaddleNLP do not.
        with_prompt = written.shape[1] > tokens or self.side.NAME == "torch"
        return written[:, ids.shape[1] :] if with_prompt else written

    # ---- helpers --------------------------------------------------------------------------------

    def _begin(self, way: str, n: int) -> None:
        current().begin()
        self.run.progress(Kind.NOW_WAY(way=way, token=n + 1))

    def _hook(self, name: str):
        return getattr(self.run.module, name, None)

    def _library_model(self):
        """The outermost part of the model that takes a cache; None where none does."""
        for _, module in self.side.modules(self.model):
            takes = parameters(module)
            if IDS in takes and "use_cache" in takes and any(name in takes for name in CACHES):
                return module
        return None

    def _batch(self, numbers: Sequence[int] = (), until: int | None = None, pad: int | None = None):
        """ids, mask and positions (B, T) of prompts with what follows them, padded on the left."""
        pad = self.request.pad if pad is None else pad
        rows = []
        for number in numbers or range(len(self.ids)):
            end = None if until is None else self.request.prompts[number].size + until
            rows.append(self.ids[number][:end])
        length = max(row.size for row in rows)
        ids = np.stack([np.pad(r, (length - r.size, 0), constant_values=pad) for r in rows])
        mask = np.stack([np.arange(length) >= length - r.size for r in rows]).astype(np.int64)
        return ids, mask, positions_of(mask)


def positions_of(mask: np.ndarray) -> np.ndarray:
    """The place of each token (B, T) among those that are kept; of padding 0."""
    return np.maximum(np.cumsum(mask, axis=1) - 1, 0)


def parameters(model) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a module's forward, by name."""
    return inspect.signature(model.forward).parameters


def part(outputs: object, name: str, place: int) -> object:
    """One of a model's outputs, by its name, or by its place where they have none; or None."""
    if isinstance(outputs, Mapping):
        return outputs.get(name)
    if hasattr(outputs, name):
        return getattr(outputs, name)
    if isinstance(outputs, list | tuple):
        return outputs[place] if place < len(outputs) else None
    return outputs if place == 0 else None


def token_names(pair, config: Mapping, takes: Mapping[str, inspect.Parameter]) -> dict[str, str]:
    """Return forward's names of the tokens, their mask and their positions.

    Raises UserError where it takes no tokens, or what cannot be given.
    """
    names = NAMES | getattr(pair.case, "TOKEN_INPUTS", {})
    if names[IDS] not in takes:
        inputs = flat(pair.case.make_inputs(dict(config), 0))
        integers = [k for k, v in inputs.items() if v.dtype.kind == "i" and v.ndim == 2]
        given = [name for name in integers if name in takes]
        if len(given) != 1:
            raise UserError(Kind.FORWARD_TAKES_NO_IDS(model=pair.name, name=names[IDS]))
        names[IDS] = given[0]
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [n for n, one in takes.items() if one.default is one.empty and one.kind not in kinds]
    others = [name for name in needed if name not in names.values()]
    if others:
        raise UserError(Kind.FORWARD_NEEDS_MORE(model=pair.name, names=others))
    return names


def decode(run, request: Request) -> None:
    """Generate by the plain loop, and by what was asked for beside it."""
    probing = run.session.probing
    run.session.probing = False
    decoder = Decoder(run, request)
    decoder.write()
    # Not in the run that goes on with its own choices, nor in those that judge half precision.
    if probing and run.session.reference is None:
        decoder.compare()
    run.notes["generated"] = decoder.found
    run.notes["left_out"] = decoder.left_out
    run.notes["failed"] = decoder.failed
