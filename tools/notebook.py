"""Run the example's notebook and keep what it shows, as its readers see it.

    python -m tools.notebook          writes the outputs of examples/notebook/ again

The test runs it too and compares words and verdicts (extras/live/tests/test_notebook.py).
"""

import argparse
import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "examples" / "notebook" / "port_of_a_block.ipynb"
_LIMIT_S = 300  # a cell's


def executed(folder: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a run in an empty folder."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    # Pictures into the notebook, whatever the tests have said.
    inline = "module://matplotlib_inline.backend_inline"
    environment = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": inline}
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=_LIMIT_S, resources=resources).execute(env=environment)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran
    notebook.metadata.pop("language_info", None)  # which Python
    return notebook


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as work:
        nbformat.write(executed(Path(work)), NOTEBOOK)
