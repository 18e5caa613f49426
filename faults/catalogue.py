"""The catalogue of planted faults: realistic mistakes of a port, each with the row that names it.

python -m faults.catalogue      lists them
"""

from faults import (
    of_fast_transformer,
    of_fastformer,
    of_pipeline,
    of_reformer,
    of_text_classifier,
    of_training,
)

FAULTS = [
    *of_fastformer.FAULTS,
    *of_fast_transformer.FAULTS,
    *of_reformer.FAULTS,
    *of_text_classifier.FAULTS,
    *of_training.FAULTS,
    *of_pipeline.FAULTS,
]

if __name__ == "__main__":
    for fault in FAULTS:
        print(f"step {fault.step}  {fault.name:<17} {fault.id:<30} {fault.what}")
