"""Twins are one text: the declared spellings, and the check that nothing else differs.

    python -m tools.twins                 every pair of twins in the checkout
    python -m tools.twins A.py B.py       one pair: the torch side, then the Paddle side

A twin is a pair of files with the same lines. Each torch line, rewritten by SPELLINGS, must be its
Paddle line. Two exceptions, both narrow:

* a line that must differ otherwise ends in `# twin: reason` on both sides, with one reason;
* prose (comments and docstrings) may also stay as it is, since a sentence may name both frameworks.

Exit status: 0 no difference, 1 differences, 2 a file that cannot be read.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from twincheck.common.system.errors import UserError

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Spelling:
    """One row: how torch spells a thing, how Paddle spells it, and why they differ.

    `torch` and `paddle` are samples of code for the reader; `pattern` and `replacement` are the
    regular expression that rewrites one into the other (by default: the sample, as whole words).
    """

    torch: str
    paddle: str
    reason: str
    pattern: str | None = None
    replacement: str | None = None

    def rewrite(self, text: str) -> tuple[str, int]:
        """`text` with every occurrence rewritten, and how many there were."""
        if self.pattern is None:
            before = r"\b" if self.torch[0].isalnum() else ""
            after = r"\b" if self.torch[-1].isalnum() else ""
            pattern, replacement = before + re.escape(self.torch) + after, self.paddle
        else:
            pattern, replacement = self.pattern, self.replacement or ""
        return re.subn(pattern, replacement, text)


# Applied from top to bottom, each row on the result of the rows above; a row is therefore above any
# row that rewrites part of it (`torch.cat` above `torch`). Rows are not optional: where a row
# applies, the Paddle line must use it. Keep the table small: prefer calls spelled alike on both
# sides (reshape, moveaxis, unsqueeze, einsum, where, softmax, matmul), and use `# twin:` for a
# thing said once.
SPELLINGS: tuple[Spelling, ...] = (
    # Classes
    Spelling("nn.Module", "nn.Layer", "a part of a model is a Layer"),
    Spelling("nn.ModuleList", "nn.LayerList", "likewise"),
    Spelling(
        "nn.Parameter(torch.empty([4, 2]))",
        "self.create_parameter([4, 2])",
        "a Layer makes its own parameters",
        r"nn\.Parameter\(torch\.empty\((\[.*?\])\)\)",
        r"self.create_parameter(\1)",
    ),
    Spelling("autograd.Function", "autograd.PyLayer", "a hand-written backward"),
    Spelling("ctx.saved_tensors", "ctx.saved_tensor()", "an attribute here, a call there"),
    # Functions and methods
    Spelling("torch.cat(", "paddle.concat(", "another name"),
    Spelling("torch.tensor(", "paddle.to_tensor(", "another name"),
    Spelling("torch.take_along_dim(", "paddle.take_along_axis(", "another name"),
    Spelling(
        "value.requires_grad",
        "not value.stop_gradient",
        "the opposite flag",
        r"\b(\w+)\.requires_grad\b(?! =)",
        r"not \1.stop_gradient",
    ),
    Spelling(".to(", ".astype(", "another type; in older Paddle .to changes the tensor itself"),
    Spelling(
        ".modules()",
        ".sublayers(include_self=True)",
        "Paddle leaves the model itself out unless told",
    ),
    # Arguments
    Spelling(
        "dim=-1",
        "axis=-1",
        "the axis an operator works on; a number, a tuple or a variable named axis",
        r"\bdim=(?=-?\d|\(|\[|axis\b|axes\b)",
        "axis=",
    ),
    Spelling("eps=1e-12", "epsilon=1e-12", "an argument of the norms", r"\beps=", "epsilon="),
    Spelling(
        "bias=False",
        "bias_attr=False",
        "an argument of Linear",
        r"\bbias=(?=True|False)",
        "bias_attr=",
    ),
    # Names
    Spelling("PyTorch", "Paddle", "the framework's name in prose"),
    Spelling("torch", "paddle", "imports, types, sides, file names", "torch", "paddle"),
)

# Where the pairs are; {} stands for the side's name.
TWIN_PATTERNS = (
    "twincheck/{}_side.py",
    "common/models/*/{}_model.py",
    "step*/{}/*.py",
)

_TWIN = re.compile(r"#\s*twin:(.*)$")


def translate(text: str) -> str:
    """Return torch's text in Paddle's spelling."""
    for spelling in SPELLINGS:
        text, _ = spelling.rewrite(text)
    return text


def differences(torch_path: Path, paddle_path: Path) -> Iterator[str]:
    """Give a sentence, with both lines, for each place where two files differ unexplained.

    Of files of another length the first such place is told.  Raises UserError, with the path, where
    a file is missing or is no Python source.
    """
    torch, paddle = _Source(torch_path), _Source(paddle_path)
    for i, (ours, theirs) in enumerate(zip(torch.lines, paddle.lines, strict=False), 1):
        why = _why_not(ours, theirs)
        if why:
            yield (
                f"{_shown(torch_path)}:{i} and {_shown(paddle_path)}:{i}: {why}\n"
                f"  torch     {ours.text}\n  paddle    {theirs.text}\n"
                f"  expected  {translate(ours.text)}"
            )
            if len(torch.lines) != len(paddle.lines):
                break
    if len(torch.lines) != len(paddle.lines):
        lengths = f"{len(torch.lines)} and {len(paddle.lines)} lines"
        yield f"{_shown(torch_path)} and {_shown(paddle_path)}: {lengths}; twins go line by line"


def twin_pairs(root: Path = ROOT) -> list[tuple[Path, Path]]:
    """Return every pair of twins under `root`: (torch file, Paddle file), sorted.

    A file without its partner is a pair all the same, so that its absence is reported.
    """
    pairs = set()
    for pattern in TWIN_PATTERNS:
        for path in (*root.glob(pattern.format("torch")), *root.glob(pattern.format("paddle"))):
            name = path.relative_to(root).as_posix()
            pairs.add(
                tuple(
                    root / re.sub(r"(?<=/)(torch|paddle)(?=/|_\w*\.py$)", side, name)
                    for side in ("torch", "paddle")
                )
            )
    return sorted(pairs)


def unused_spellings(root: Path = ROOT) -> list[Spelling]:
    """Return the rows that rewrite no line of any pair: they are dead and should go."""
    text = "\n".join(torch.read_text(encoding="utf-8") for torch, _ in twin_pairs(root))
    unused = []
    for spelling in SPELLINGS:
        text, count = spelling.rewrite(text)
        unused += [] if count else [spelling]
    return unused


def markdown_table() -> str:
    """Return SPELLINGS as a Markdown table, for a page."""
    rows = ["| torch | Paddle | why |", "|---|---|---|"]
    rows += [f"| `{row.torch}` | `{row.paddle}` | {row.reason} |" for row in SPELLINGS]
    return "\n".join(rows)


@dataclass
class _Line:
    """A line of source: where on it prose begins, and the reason of its `# twin:`."""

    text: str
    prose: int
    reason: str | None = None


class _Source:
    """A file's lines."""

    def __init__(self, path: Path):
        try:
            # Not splitlines(), which also splits at form feeds and the like.
            text = path.read_bytes().decode("utf-8")
            tree = ast.parse(text)
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except OSError as error:
            said = f"{_shown(path)}: cannot be read ({error.strerror}); a twin needs its partner"
            raise UserError(said) from None
        except (SyntaxError, ValueError, tokenize.TokenError) as error:
            raise UserError(f"{_shown(path)}: is not Python source ({error})") from None
        self.lines = [_Line(line, len(line)) for line in text.removesuffix("\n").split("\n")]
        for node in ast.walk(tree):  # docstrings
            value = node.value if isinstance(node, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                for line in self.lines[node.lineno - 1 : node.end_lineno]:
                    line.prose = 0
        for token in (token for token in tokens if token.type == tokenize.COMMENT):
            line = self.lines[token.start[0] - 1]
            line.prose = min(line.prose, token.start[1])
            match = _TWIN.search(token.string)
            line.reason = match and match[1].strip()


def _why_not(torch: _Line, paddle: _Line) -> str:
    """Return why a line is not its twin's; "" where it is."""
    own, prose = torch.text[: torch.prose], torch.text[torch.prose :]
    explained = translate(own) == paddle.text[: paddle.prose] and paddle.text[paddle.prose :] in (
        *(prose, translate(prose)),
    )
    reasons = torch.reason, paddle.reason
    if reasons == (None, None):
        return "" if explained else "the table of spellings does not explain this"
    if None in reasons:
        side = "torch" if paddle.reason is None else "Paddle"
        return f"only the {side} side says `# twin:`; both must, with the same reason"
    if not all(reasons):
        return "`# twin:` gives no reason"
    if paddle.reason not in (torch.reason, translate(torch.reason)):
        return "the two sides give different reasons after `# twin:`"
    return "the table of spellings explains this line: drop its `# twin:`" if explained else ""


def _shown(path: Path) -> str:
    """Return a path from the checkout where it is inside it."""
    path = path.resolve()
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring. Returns the exit status."""
    if len(arguments) not in (0, 2) or any(a.startswith("-") for a in arguments):
        print(__doc__)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    pairs = [tuple(map(Path, arguments))] if arguments else twin_pairs()
    try:
        found = [each for pair in pairs for each in differences(*pair)]
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    if not arguments:
        found += [f"a row that explains nothing: {row.torch}" for row in unused_spellings()]
    print("\n\n".join([*found, f"{len(pairs)} pair(s) of twins: {len(found)} difference(s)"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
