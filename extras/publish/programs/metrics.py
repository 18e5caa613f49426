"""Scores over a whole test set; NumPy only."""

from .scoring import accuracy, forecast_scores, macro_f1, next_token_sums


def score(config, outputs, samples):
    """Name -> value: of a classification accuracy and macro-F1, of a language model its bits.

    Of a forecast its errors.  outputs: name -> array (N, ...), logits or predictions among them;
    samples: name -> array (N, ...).  A bare tensor, `output`, is the one that the labels are for.
    """
    if set(outputs) == {"output"}:
        classes = samples["labels"].dtype.kind in "iu"
        outputs = {"logits" if classes else "predictions": outputs["output"]}
    if "logits" not in outputs and "predictions" in outputs:
        return forecast_scores(outputs["predictions"], samples["labels"])
    logits = outputs["logits"]
    if config.get("head") == "lm" or "labels" not in samples:
        sums = next_token_sums(logits, samples.get("labels", samples["input_ids"]))
        scores = {name: total / count for name, (total, count) in sums.items()}
        return {"bits_per_token": scores.pop("bits_per_token"), **scores}
    labels = samples["labels"]
    kept, classes = labels >= 0, logits.shape[-1]
    labels, predictions = labels[kept], logits.argmax(-1)[kept]
    return {
        "accuracy": accuracy(labels, predictions, classes),
        "macro_f1": macro_f1(labels, predictions, classes),
    }
