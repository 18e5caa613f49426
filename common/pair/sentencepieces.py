"""SentencePiece models, in whichever process needs one; the library is asked for only then."""

from pathlib import Path

from common.system.errors import UserError

MODEL = "spiece.model"  # its name beside published weights


def find_model(given: Path | None) -> Path | None:
    """The model of --tokenizer: the file itself, or a folder's spiece.model.

    Raises UserError where there is none.
    """
    if given is None:
        return None
    path = given / MODEL if given.is_dir() else given
    if not path.is_file():
        raise UserError(
            f"--tokenizer {given}: there is no such file, nor a folder with {MODEL} in it"
        )
    return path


def load_processor(path: Path):
    """The library's processor of a model file; raises UserError for what is none."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ModuleNotFoundError:
        raise UserError(
            "--tokenizer: the Python that runs this has no sentencepiece: "
            "pip install 'sentencepiece>=0.2,<0.3'"
        ) from None
    try:
        return SentencePieceProcessor(model_file=str(path))
    except Exception as error:  # the library has its own kinds
        told = " ".join(str(error).split())[:200]
        raise UserError(f"--tokenizer {path}: not a SentencePiece model ({told})") from None
