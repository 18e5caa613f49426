"""Twins are one text: the declared spellings, and the check that nothing else differs.

    python -m tools.twins                 every pair of twins in the checkout
    python -m tools.twins A.py B.py       one pair: the torch side, then the Paddle side
    python -m tools.twins --table         the table as Markdown

A twin is a pair of files with the same lines. Each torch line, rewritten by SPELLINGS, must be its
Paddle line. Two exceptions, both narrow:

* a line that must differ otherwise ends in `# twin: reason` on both sides, with one reason;
* prose (comments and docstrings) may also stay as it is, since a sentence may name both frameworks.

Exit status: 0 no difference, 1 differences, 2 a file that cannot be read.
"""

import ast
import difflib
import io
import re
import sys
import tokenize
from collections import Counter
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


@dataclass(frozen=True)
class Difference:
    """One place where two twins differ and the table does not say why.

    Line numbers start at 1. A text is None where that side has no such line; `expected` is the
    torch line in Paddle's spelling, or None where the fault is another; `why` says what is wrong.
    """

    torch_path: Path
    paddle_path: Path
    torch_line: int
    paddle_line: int
    torch_text: str | None
    paddle_text: str | None
    expected: str | None
    why: str

    def __str__(self) -> str:
        def show(text: str | None) -> str:
            return "(no such line)" if text is None else text

        lines = [
            f"{_shown(self.torch_path)}:{self.torch_line} and "
            f"{_shown(self.paddle_path)}:{self.paddle_line}: {self.why}",
            f"  torch     {show(self.torch_text)}",
            f"  paddle    {show(self.paddle_text)}",
        ]
        if self.expected is not None:
            lines.append(f"  expected  {self.expected}")
        return "\n".join(lines)


def translate(text: str, used: Counter | None = None) -> str:
    """The torch text `text` in Paddle's spelling; `used` counts the rows that did something."""
    for spelling in SPELLINGS:
        text, count = spelling.rewrite(text)
        if used is not None and count:
            used[spelling.torch] += count
    return text


def differences(
    torch_path: Path | str, paddle_path: Path | str, used: Counter | None = None
) -> list[Difference]:
    """Every place where the two files differ unexplained, in the order of the lines.

    `used`, where given, counts the rows of SPELLINGS that explained a line.
    Raises UserError, with the path, where a file is missing or is no Python source.
    """
    torch_path, paddle_path = Path(torch_path), Path(paddle_path)
    torch_file, paddle_file = _Source(torch_path), _Source(paddle_path)
    found: list[Difference] = []

    def report(i: int, j: int, expected: str | None, why: str) -> None:
        torch_text = torch_file.lines[i] if i < len(torch_file.lines) else None
        paddle_text = paddle_file.lines[j] if j < len(paddle_file.lines) else None
        found.append(
            Difference(
                torch_path, paddle_path, i + 1, j + 1, torch_text, paddle_text, expected, why
            )
        )

    if len(torch_file.lines) != len(paddle_file.lines):
        for i, j, how in _compare_lengths(torch_file, paddle_file):
            report(i, j, None, f"{how}; twins go line by line")
        return found

    for i in range(len(torch_file.lines)):
        problem = _compare_line(torch_file, paddle_file, i, used)
        if problem is not None:
            report(i, i, *problem)
    return found


def twin_pairs(root: Path | str = ROOT) -> list[tuple[Path, Path]]:
    """Every pair of twins under `root`: (torch file, Paddle file), sorted.

    A file without its partner is a pair all the same, so that its absence is reported.
    """
    root = Path(root)
    pairs = set()
    for pattern in TWIN_PATTERNS:
        for side, other in (("torch", "paddle"), ("paddle", "torch")):
            for path in root.glob(pattern.format(side)):
                relative = path.relative_to(root).parts
                partner = root.joinpath(*(_rename(part, side, other) for part in relative))
                pairs.add((path, partner) if side == "torch" else (partner, path))
    return sorted(pairs)


def unused_spellings(root: Path | str = ROOT) -> list[Spelling]:
    """The rows that explain no line of any pair: they are dead and should go."""
    used: Counter = Counter()
    for pair in twin_pairs(root):
        differences(*pair, used=used)
    return [spelling for spelling in SPELLINGS if not used[spelling.torch]]


def markdown_table() -> str:
    """SPELLINGS as a Markdown table, for the README."""
    rows = ["| torch | Paddle | why |", "|---|---|---|"]
    rows += [f"| `{row.torch}` | `{row.paddle}` | {row.reason} |" for row in SPELLINGS]
    return "\n".join(rows)


class _Source:
    """A file's lines, and where on each line prose begins and what its twin reason is."""

    def __init__(self, path: Path):
        try:
            # Not splitlines(), which also splits at form feeds and the like.
            text = path.read_bytes().decode("utf-8")
            self.lines = text.removesuffix("\n").split("\n")
            tree = ast.parse(text)
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except FileNotFoundError:
            raise UserError(f"{_shown(path)}: no such file; every twin needs its partner") from None
        except OSError as error:
            raise UserError(f"{_shown(path)}: cannot be read ({error.strerror})") from None
        except (SyntaxError, ValueError, tokenize.TokenError) as error:
            raise UserError(f"{_shown(path)}: is not Python source ({error})") from None
        self.prose = [len(line) for line in self.lines]
        self.reason: list[str | None] = [None] * len(self.lines)
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                if isinstance(node.value.value, str):  # a docstring, or a string for the reader
                    for line in range(node.lineno - 1, node.end_lineno):
                        self.prose[line] = 0
        for token in tokens:
            if token.type == tokenize.COMMENT:
                line, column = token.start[0] - 1, token.start[1]
                self.prose[line] = min(self.prose[line], column)
                match = _TWIN.search(token.string)
                if match:
                    self.reason[line] = match.group(1).strip()

    def split(self, i: int) -> tuple[str, str]:
        """Line `i` as code and prose; together they are the line."""
        return self.lines[i][: self.prose[i]], self.lines[i][self.prose[i] :]


def _compare_line(
    torch_file: _Source, paddle_file: _Source, i: int, used: Counter | None
) -> tuple[str | None, str] | None:
    """None where line `i` is explained, else (the expected Paddle line or None, why it is not)."""
    torch_code, torch_prose = torch_file.split(i)
    paddle_code, paddle_prose = paddle_file.split(i)
    counts: Counter = Counter()
    explained = translate(torch_code, counts) == paddle_code
    if paddle_prose != torch_prose:
        explained = explained and translate(torch_prose, counts) == paddle_prose

    torch_reason, paddle_reason = torch_file.reason[i], paddle_file.reason[i]
    if torch_reason is None and paddle_reason is None:
        if not explained:
            return translate(torch_file.lines[i]), "the table of spellings does not explain this"
        if used is not None:
            used.update(counts)
        return None
    if torch_reason is None or paddle_reason is None:
        side = "torch" if paddle_reason is None else "Paddle"
        return None, f"only the {side} side says `# twin:`; both must, with the same reason"
    if not torch_reason or not paddle_reason:
        return None, "`# twin:` gives no reason"
    if paddle_reason not in (torch_reason, translate(torch_reason)):
        return None, "the two sides give different reasons after `# twin:`"
    if explained:
        return None, "the table of spellings explains this line: drop its `# twin:`"
    return None


def _compare_lengths(torch_file: _Source, paddle_file: _Source) -> list[tuple[int, int, str]]:
    """Where two files of different lengths part: (torch index, Paddle index, how)."""
    there = set(paddle_file.lines)
    torch_keys = [_key(torch_file, i, there) for i in range(len(torch_file.lines))]
    paddle_keys = [_key(paddle_file, i, there) for i in range(len(paddle_file.lines))]
    matcher = difflib.SequenceMatcher(None, torch_keys, paddle_keys, autojunk=False)
    return [
        (i, j, f"{i_end - i} line(s) on the torch side, {j_end - j} on the Paddle side")
        for how, i, i_end, j, j_end in matcher.get_opcodes()
        if how != "equal"
    ]


def _key(source: _Source, i: int, there: set[str]) -> str:
    """What aligns line `i` with its twin: its reason, its text, or its text in translation."""
    if source.reason[i] is not None:
        return f"# twin: {translate(source.reason[i])}"
    line = source.lines[i]
    return line if line in there else translate(line)


def _rename(part: str, side: str, other: str) -> str:
    if part == side or (part.startswith(f"{side}_") and part.endswith(".py")):
        return other + part[len(side) :]
    return part


def _shown(path: Path) -> str:
    """`path` relative to the checkout where it is inside it."""
    try:
        return str(path.resolve().relative_to(ROOT))
    except ValueError:
        return str(path)


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring. Returns the exit status."""
    if arguments == ["--table"]:
        print(markdown_table())
        return 0
    if len(arguments) not in (0, 2) or any(a.startswith("-") for a in arguments):
        print(__doc__)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    pairs = [tuple(map(Path, arguments))] if arguments else twin_pairs()
    if not pairs:
        print("no twins found: nothing was compared", file=sys.stderr)
        return 2
    used: Counter = Counter()
    count = 0
    for torch_path, paddle_path in pairs:
        try:
            found = differences(torch_path, paddle_path, used)
        except UserError as error:
            print(error, file=sys.stderr)
            return 2
        count += len(found)
        for difference in found:
            print(f"{difference}\n")
    if not arguments:
        unused = [row.torch for row in SPELLINGS if not used[row.torch]]
        if unused:
            print(f"rows that explain nothing: {', '.join(unused)}")
    print(f"{len(pairs)} pair(s) of twins: {count} difference(s)")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
