"""What twincheck.check found."""

from pathlib import Path


class Result:
    """The result of twincheck.check: the document that --json writes, and a word on it."""

    def __init__(self, document: dict, folder: Path):
        self.document, self.folder = document, folder

    @property
    def aligned(self) -> bool:
        """Whether all that decides agrees."""
        return self.document["exit_code"] == 0

    def message(self) -> str:
        return str(self.document["verdict"]) + str(self.document["first_diverged"])
