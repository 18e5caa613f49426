"""The old name of the modules: `from common.torch_side import choose` in a pair of somebody's.

In a checkout `common` is the folder of that name, whose __init__.py calls `answer`.  An installed
package puts no such folder before users' imports; a side's process asks here last of all, so that
a package of the user's own called common is found first.
"""

import importlib
import importlib.abc
import importlib.util
import sys
from types import ModuleType

OLD = "common"


class OldName(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds common.X as twincheck.common.X, or as twincheck.X: the same module, not a copy."""

    def find_spec(self, name: str, path=None, target=None):
        """The spec of a module under its old name; None for any other, and for what is not."""
        if name != OLD and not name.startswith(f"{OLD}."):
            return None
        now = self._now(name)
        if now is None:
            return None
        package = now.submodule_search_locations is not None
        return importlib.util.spec_from_loader(name, self, origin=now.origin, is_package=package)

    def _now(self, name: str):
        for new in (f"twincheck.{name}", f"twincheck.{name[len(OLD) + 1 :]}"):
            try:
                spec = importlib.util.find_spec(new)
            except ModuleNotFoundError:
                spec = None
            if spec is not None:
                return spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module that is meant in the place of the empty one."""
        name = module.__name__
        sys.modules[name] = importlib.import_module(self._now(name).name)

    def get_code(self, name: str):
        """What `python -m common.new` runs."""
        now = self._now(name)
        return now.loader.get_code(now.name)


def answer(last: bool = False) -> None:
    """Let the old name be found from now on; `last`: where nothing else has it."""
    if not any(isinstance(finder, OldName) for finder in sys.meta_path):
        sys.meta_path.insert(len(sys.meta_path) if last else 0, OldName())
