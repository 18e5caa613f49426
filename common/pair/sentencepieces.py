"""SentencePiece models: found and loaded.  The library is imported only where one is loaded."""

from pathlib import Path

from twincheck.common.system.door import to_pip
from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import Kind

MODEL = "spiece.model"  # the file's name beside published weights


def find_model(tokenizer: Path | None) -> Path | None:
    """The model that --tokenizer names: the file itself, or a folder's spiece.model.

    Raises UserError where there is none.
    """
    if tokenizer is None:
        return None
    path = tokenizer / MODEL if tokenizer.is_dir() else tokenizer
    if not path.is_file():
        raise UserError(Kind.TOKENIZER_MISSING(tokenizer=str(tokenizer), model=MODEL))
    return path


def load_processor(path: Path):
    """The library's processor of a model file; raises UserError for what is none."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ModuleNotFoundError:
        command = to_pip("sentencepiece>=0.2,<0.3")
        raise UserError(Kind.TOKENIZER_WITHOUT_LIBRARY(command=command)) from None
    try:
        return SentencePieceProcessor(model_file=str(path))
    except Exception as error:  # the library has exceptions of its own
        reason = " ".join(str(error).split())[:200]
        raise UserError(Kind.TOKENIZER_REFUSED(path=str(path), reason=reason)) from None
