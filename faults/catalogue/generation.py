"""Faults that a model's logits do not show: those of its key-value cache and of its padding.

A small decoder (faults/pairs/decoder), on the Paddle side; its plain loop is right in all of them.
"""

from functools import partial

from faults.fault import DECODER, in_model

OPTIONS = ("--pad", "--tokens", "4", "--prompt", "5 9 2 33 7 1 30", "--prompt", "8 3")
_generating = partial(
    in_model(DECODER, step=5), arguments=OPTIONS, check="generate", area="positions, padding"
)
RANGE = "paddle.arange(past, total)"
CACHE, PADDED_CACHE = "itself/paddle/cache", "itself/paddle/padded_with_cache"

FAULTS = [
    _generating(
        "cache-off-by-one",
        "positions behind the cache are one too small",
        RANGE,
        f"({RANGE} - int(past > 0))",
        CACHE,
    ),
    _generating(
        "cache-mask-off-by-one",
        "the causal mask over the cache is one place off",
        "places[past:].unsqueeze(1)",
        "(places[past:] - int(past > 0)).unsqueeze(1)",
        CACHE,
    ),
    _generating(
        "cache-restarts",
        "positions begin anew with the cache",
        RANGE,
        "paddle.arange(new)",
        CACHE,
    ),
    _generating(
        "cache-forgets",
        "a cache that forgets its oldest token",
        "caches.append(cache)",
        "caches.append(tuple(part[:, :, -8:] for part in cache))",
        CACHE,
    ),
    _generating(
        "decoder-padding-seen",
        "a mask that does not hide the left padding",
        "seen = seen.unsqueeze(0) & (attention_mask > 0).unsqueeze(1)",
        "seen = seen.unsqueeze(0)",
        "itself/paddle/padded",
    ),
    _generating(
        "decoder-padding-counted",
        "rotary positions counted with the padding once there is a cache",
        "        if position_ids is None:",
        "        if position_ids is None or past:",
        PADDED_CACHE,
    ),
]
