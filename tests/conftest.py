"""What the tests of the core share beside the fixtures of every test."""

import pytest
from builders import SMALL_CNN, copied
from checkout import Checkout
from forged import write_result


@pytest.fixture(scope="module")
def checkout(request, tmp_path_factory):
    """A copy for a file's tests; its step 4 takes that file's STEPS_OF_4, or three."""
    steps = getattr(request.module, "STEPS_OF_4", 3)
    return Checkout(tmp_path_factory.mktemp("a checkout's"), steps=steps)


@pytest.fixture
def pair(tmp_path):
    """A copy of the tests' own pair, in a folder with a space in its name, to be spoilt."""
    return copied(SMALL_CNN, tmp_path / "my pairs")


@pytest.fixture
def folder(tmp_path):
    """Whole logs of step 1, and the pair that belongs to them, which no framework made."""
    write_result(tmp_path / "step1_forward" / "small_cnn")
    return tmp_path / "step1_forward" / "small_cnn"
