"""The catalogue of planted faults: realistic mistakes of a port, each with the row that names it.

python -m faults.catalogue      lists them
"""

from faults.catalogue import (
    fast_transformer,
    fastformer,
    generation,
    half_precision,
    informer,
    large_models,
    pipeline,
    reformer,
    text_classifier,
    training,
    users,
)

FAULTS = [
    *fastformer.FAULTS,
    *fast_transformer.FAULTS,
    *informer.FAULTS,
    *reformer.FAULTS,
    *text_classifier.FAULTS,
    *training.FAULTS,
    *large_models.FAULTS,
    *pipeline.FAULTS,
    *users.FAULTS,
    *half_precision.FAULTS,
    *generation.FAULTS,
]
