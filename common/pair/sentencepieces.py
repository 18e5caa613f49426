"""SentencePiece models: found and loaded.  The library is imported only where one is loaded."""

from pathlib import Path

from twincheck.common.system.door import to_pip
from twincheck.common.system.errors import UserError

MODEL = "spiece.model"  # the file's name beside published weights


def find_model(tokenizer: Path | None) -> Path | None:
    """The model that --tokenizer names: the file itself, or a folder's spiece.model.

    Raises UserError where there is none.
    """
    if tokenizer is None:
        return None
    path = tokenizer / MODEL if tokenizer.is_dir() else tokenizer
    if not path.is_file():
        raise UserError(
            f"--tokenizer {tokenizer}: there is no such file, nor a folder with {MODEL} in it"
        )
    return path


def load_processor(path: Path):
    """The library's processor of a model file; raises UserError for what is none."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ModuleNotFoundError:
        raise UserError(
            "--tokenizer: the Python that runs this has no sentencepiece: "
            f"`{to_pip('sentencepiece>=0.2,<0.3')}`"
        ) from None
    try:
        return SentencePieceProcessor(model_file=str(path))
    except Exception as error:  # the library has exceptions of its own
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"--tokenizer {path}: not a SentencePiece model ({reason})") from None
