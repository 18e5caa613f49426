"""What made a result, as a file that is left beside it says."""

import subprocess
from collections.abc import Mapping

from twincheck.common.logs.sidecar import Sidecar
from twincheck.common.system.checkout import ROOT


def made_by(sidecars: Mapping[str, Sidecar]) -> dict[str, object]:
    """Return what made a result, from both sides' sidecars, as what other commands leave says it.

    versions (of the frameworks) and sources (file -> hash), by side; weights_sha256, of torch's
    """
    return {
        "versions": {side: told.framework_version for side, told in sidecars.items()},
        "sources": {side: told.sources for side, told in sidecars.items()},
        "weights_sha256": sidecars["torch"].weights_sha256,
    }


def commit() -> dict[str, object]:
    """The checkout's commit, and whether files were changed since; "unknown" without git."""
    found = _git("rev-parse", "HEAD") if (ROOT / ".git").exists() else None
    if found is None:
        return {"id": "unknown"}
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return {"id": found, "changed": None if changed is None else bool(changed)}


def _git(*words: str) -> str | None:
    """Return what git prints; None where it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
