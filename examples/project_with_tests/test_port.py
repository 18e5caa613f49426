"""The port computes what its reference does: forward, loss, gradients, optimizers.

twincheck reference classifier --out reference      once, where torch is installed
pytest                                              on every push, without it
"""

from pathlib import Path

HERE = Path(__file__).parent


def test_port(twincheck):
    twincheck.pair(HERE / "classifier", steps=(1, 3, 4), reference=HERE / "reference")
