"""Show what a SentencePiece model makes of a text: its pieces and their ids, in two ways.

    python -m step2_metric.pieces --tokenizer spiece.model "It is a nice day today ."

"both sides": the tokenizer that both sides share, with each piece's place in the text.  "third
opinion": the library's plain encode.  Needs neither framework.  Exit status: 0 both agree, 1 they
do not, 2 no such model.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from common.system.start import begin

    begin("numpy", "rich", "sentencepiece")

from collections.abc import Sequence
from itertools import zip_longest

from common.check.flags import Parser
from common.check.guard import guarded
from common.pair.sentencepieces import find_model
from common.system.errors import UserError
from step2_metric.tokenizer_opinion import plain_pieces
from step2_metric.tokenizers import SentencePiece


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(__doc__, "python -m step2_metric.pieces")
    parser.add_argument("text", metavar="TEXT", help='in quotation marks: "a nice day"')
    parser.take_other("tokenizer", required=True, metavar="FILE|FOLDER")
    parser.take("debug")
    given = parser.parse_args(arguments)
    return guarded(given.debug, lambda: show(find_model(given.tokenizer), given.text))


def show(model: Path, text: str) -> int:
    """Print both tables; returns the exit status."""
    if not text.isascii() and any("\ud800" <= mark <= "\udfff" for mark in text):
        raise UserError("TEXT: not UTF-8, which a SentencePiece model is made for")
    tokenizer = SentencePiece(model)
    ids, spans = tokenizer.tokens(text)
    sides = [(number, tokenizer.processor.id_to_piece(number)) for number in ids]
    third = plain_pieces(tokenizer.processor, text)
    print(f"{'both sides':<20}{'third opinion':<20}text")
    for side, other, span in zip_longest(sides, third, spans):
        place = f"[{span[0]}:{span[1]}] {text[slice(*span)]!r}" if span else ""
        wrong = "" if side == other else "   <- they differ"
        print(f"{_cell(side)}{_cell(other)}{place}{wrong}")
    for name, told in (("both sides", sides), ("third opinion", third)):
        print(f"ids, {name + ':':<15}{' '.join(str(number) for number, _ in told)}")
    print("they agree" if sides == third else "THEY DIFFER")
    return 0 if sides == third else 1


def _cell(token: tuple[int, str] | None) -> str:
    """An id and its piece; a model may hold marks that a terminal would take for commands."""
    if token is None:
        return " " * 20
    number, piece = token
    return f"{number:>6} {piece if piece.isprintable() else ascii(piece):<12} "


if __name__ == "__main__":
    sys.exit(main())
