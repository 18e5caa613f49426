"""What is compared: our programs and the peers', the goal of each, and what the pictures show.

The goals are those of the project; a ratio is of medians, its spread that of single turns.
"""

from dataclasses import dataclass, field

from twincheck.extras.bench import Kind

OWN = ""  # the environment that `make install` makes
MEGA = 1e6
# Parameters of a local and an LSH layer of programs.SHAPE, with their gradients, in bytes: memory
# of an added layer that is not its activations.  Attention, feed-forward, two norms.
LAYER_PARAMETERS = (4 * 256 * 128 + 3 * 256 * 128) // 2 + 2 * 256 * 512 + 512 + 256 + 4 * 256
OF_GRADIENTS = LAYER_PARAMETERS * 4


@dataclass(frozen=True)
class Program:
    """One side: what runs (extras/bench/programs.py), how it is set, in which environment."""

    name: str
    setting: dict
    environment: str = OWN  # of examples/gallery/environments
    program: str = ""  # "module:function" where it is none of programs.py


@dataclass(frozen=True)
class Comparison:
    """Two sides that take turns, and what their ratio must be.

    kind   faster   other / ours, at least the goal
           slower   ours / other, at most the goal
           leaner   the same of memory
           layer    megabytes that a layer more adds, gradients of its parameters apart, at most
    scale  what a ratio is multiplied by, such as fewer tokens over more
    """

    title: str
    ours: Program
    other: Program
    kind: str
    goal: float
    scale: float = 1.0
    note: str = ""


@dataclass(frozen=True)
class Series:
    """A panel of the picture: time and memory against one quantity, for several programs."""

    title: str
    quantity: str  # of the programs' settings
    values: tuple
    setting: dict = field(default_factory=dict)
    programs: tuple[Program, ...] = ()


def _reformer(name: str, tokens: int, environment: str = OWN, **more) -> Program:
    return Program(name, {"tokens": tokens, **more}, environment)


def comparisons(quick: bool) -> dict[str, Comparison]:
    """Name -> comparison; `quick`: the smallest sizes, to try the program itself."""
    short, long, longer, longest = (256, 256, 512, 1024) if quick else (4096, 8192, 16384, 65536)
    logs = {"arrays": 4, "megabytes": 0.2} if quick else {"arrays": 100, "megabytes": 8}
    layers = (2, 4) if quick else (6, 24)
    found, torch, paddle = {}, Kind.TORCH_TWIN(), Kind.PADDLE_TWIN()
    for tokens in dict.fromkeys((long, longer, longest)):
        found[f"transformers-{tokens}"] = Comparison(
            Kind.STEP_OF_PEER(tokens=tokens, ours=torch, other="transformers 4.57.6"),
            _reformer("reformer_torch", tokens),
            _reformer("transformers", tokens, "transformers"),
            "faster",
            1.3,
        )
    found["reformer-pytorch"] = Comparison(
        Kind.STEP_OF_PEER(tokens=long, ours=torch, other="reformer-pytorch 1.4.4"),
        _reformer("reformer_torch", long),
        _reformer("reformer_pytorch", long, "paconvert"),
        "faster",
        1.3,
        note=Kind.ALL_LAYERS_HASH(),
    )
    found["sides"] = Comparison(
        Kind.STEP_OF_PEER(tokens=long, ours=paddle, other=torch),
        _reformer("reformer_paddle", long),
        _reformer("reformer_torch", long),
        "slower",
        1.3,
    )
    found["paddlenlp"] = Comparison(
        Kind.STEP_IN_ONE_ENVIRONMENT(tokens=long, ours=paddle, other="PaddleNLP 2.8.1"),
        _reformer("reformer_paddle", long, "paddlenlp"),
        _reformer("paddlenlp", long, "paddlenlp"),
        "faster",
        2.0,
    )
    found["growth"] = Comparison(
        Kind.TIME_A_TOKEN(longest=longest, shortest=short),
        _reformer("reformer_torch", longest),
        _reformer("reformer_torch", short),
        "slower",
        1.3,
        scale=short / longest,
    )
    for side in ("torch", "paddle"):
        found[f"layer-{side}"] = Comparison(
            Kind.LAYER_MORE(tokens=longer, side=side, most=layers[1], least=layers[0]),
            _reformer(f"reformer_{side}", longer, layers=layers[1]),
            _reformer(f"reformer_{side}", longer, layers=layers[0]),
            "layer",
            5.0,
        )
    size = 2 * logs["arrays"] * logs["megabytes"]
    for name, title, kind, goal in (
        ("logs-time", Kind.JUDGING_TIME, "slower", 0.5),
        ("logs-memory", Kind.JUDGING_MEMORY, "leaner", 0.1),
    ):
        sides = Program("judging", logs), Program("reprod_log", logs)
        found[name] = Comparison(title(size=size), *sides, kind, goal)
    return found


def series(quick: bool) -> dict[str, Series]:
    """Name -> panel; `quick`: two values of the smallest."""
    models = tuple(
        Program(name, {}, environment)
        for name, environment in (
            ("reformer_torch", OWN),
            ("reformer_paddle", OWN),
            ("transformers", "transformers"),
            ("paddlenlp", "paddlenlp"),
        )
    )
    tokens = 256 if quick else 1024
    logs = (Program("judging", {}), Program("reprod_log", {}))
    return {
        "length": Series(
            Kind.OF_LENGTH(), "tokens", (256, 512) if quick else (512, 2048, 8192), {}, models
        ),
        "depth": Series(
            Kind.OF_DEPTH(), "layers", (2, 4) if quick else (2, 6, 12), {"tokens": tokens}, models
        ),
        "hashes": Series(
            Kind.OF_HASHES(), "hashes", (1, 2) if quick else (1, 2, 4), {"tokens": tokens}, models
        ),
        "log-size": Series(
            Kind.OF_LOG_SIZE(),
            "arrays",
            (2, 4) if quick else (10, 30, 100),
            {"megabytes": 0.2 if quick else 8},
            logs,
        ),
    }
