"""Run a program of an exported repository as if neither this workbench nor the reference was there.

    python -I alone.py FOLDER PROGRAM.py ARGUMENT…

Standard library only: started by the Python of the Paddle side.  The folder takes the place of the
path that a script has; torch and what else the repository must not need is not found by an import,
even where it is installed.
"""

import runpy
import sys
from importlib.machinery import PathFinder
from pathlib import Path

ABSENT = ("torch", "torchvision", "torchaudio", "reprod_log", "sklearn")
_OURS = ("twincheck", "common", "faults", "tools", "tests", "fake_data")


class Without(PathFinder):
    """Python's own search, which finds nothing of ABSENT and of the workbench."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        """As PathFinder's; None for what is to be absent."""
        first = fullname.partition(".")[0]
        ours = first in _OURS or (first.startswith("step") and "_" in first)
        spec = None if first in ABSENT else super().find_spec(fullname, path, target)
        if ours and spec is not None and not _in_folder(spec):
            return None
        return spec


def _in_folder(spec) -> bool:
    """Return whether a module is the repository's own, or one that a package brought."""
    places = [spec.origin or "", *(spec.submodule_search_locations or ())]
    return any(
        str(place).startswith(sys.path[0]) or "site-packages" in str(place) for place in places
    )


def main() -> None:
    """Run the program; its exit status is this process's."""
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return
    folder, program = Path(sys.argv[1]).resolve(), sys.argv[2]
    sys.path.insert(0, str(folder))
    sys.meta_path[:] = [Without if finder is PathFinder else finder for finder in sys.meta_path]
    sys.argv[:] = [program, *sys.argv[3:]]
    runpy.run_path(str(folder / program), run_name="__main__")


if __name__ == "__main__":
    main()
