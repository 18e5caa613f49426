"""The sentences of this extra: reasons.toml."""

from pathlib import Path

from twincheck.common.system.reasons import kinds_of

Kind = kinds_of(Path(__file__).with_name("reasons.toml"))
