"""Which frameworks this process holds, and that neither stands in for the other."""

import sys
from pathlib import Path

from common.system.errors import UserError
from common.system.frameworks import SIDES
from common.system.intercept import Intercept

COMPAT = (
    "paddle.enable_compat() makes `import torch` give Paddle, so that both logs would come from "
    "one framework: take the call out of the pair's files"
)

_COMPAT_CALLS = (
    *("enable_compat", "use_compat_guard"),
    *("enable_torch_proxy", "use_torch_proxy_guard"),
)


def frameworks_loaded() -> list[str]:
    """Which of torch and paddle this process holds."""
    return [side for side in SIDES if side in sys.modules]


def forbid_compat() -> None:
    """Make paddle.enable_compat(), which puts Paddle behind `import torch`, a UserError here."""

    def refuse(own, arguments, options):
        raise UserError(COMPAT)

    paths = (f"{holder}{name}" for holder in ("", "compat.") for name in _COMPAT_CALLS)
    Intercept(sys.modules.get("paddle"), dict.fromkeys(paths, refuse)).put()


def torch_is_paddle() -> bool:
    """True where Paddle answers to `import torch` (paddle.enable_compat)."""
    if any(type(finder).__module__.startswith("paddle") for finder in sys.meta_path):
        return True
    torch = sys.modules.get("torch")
    file = getattr(torch, "__file__", "") or ""
    return torch is not None and "torch" not in Path(file).parts
