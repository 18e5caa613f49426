"""What made a result, as a file that is left beside it says."""

from collections.abc import Mapping

from twincheck.common.logs.sidecar import Sidecar


def made_by(sidecars: Mapping[str, Sidecar]) -> dict[str, object]:
    """What made a result, as what other commands leave says it, from both sides' sidecars.

    versions (of the frameworks) and sources (file -> hash), by side; weights_sha256, of torch's
    """
    return {
        "versions": {side: told.framework_version for side, told in sidecars.items()},
        "sources": {side: told.sources for side, told in sidecars.items()},
        "weights_sha256": sidecars["torch"].weights_sha256,
    }
