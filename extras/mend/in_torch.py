"""A step's torch side in the one precision by whose values planted mistakes are told."""

import importlib

from twincheck.common.system.json_file import load_json
from twincheck.extras.shared.one_case import asked_precision


def values(run):
    """Log one case of the step's function that edits.json names."""
    module, name = load_json(run.folder / "edits.json")["step"]
    getattr(importlib.import_module(module), name)(run)


SCRIPT = {"stem": "mend", "function": values, "dtypes": asked_precision}
