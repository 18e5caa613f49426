"""Step 1, both sides: a prompt and the tokens behind it, one by one."""


def decode(run, model, ids):
    """Log what every module is given and gives of a prompt, then of each token behind it.

    Each with a cache of those before it.

    ids (B, T) int64, of which the last `run.case.decode` come one by one.
    """
    cache = None
    for end in range(ids.shape[1] - run.case.decode, ids.shape[1] + 1):
        run.session.begin(prefix=f"{run.prefix}token_{end}/")
        tokens = ids[:, :end] if cache is None else ids[:, end - 1 : end]
        inputs = {"input_ids": tokens, "past_buckets_states": cache, "use_cache": True}
        outputs = run.log_nested(f"token_{end}", run.call(model, inputs))
        cache = outputs["past_buckets_states"]
