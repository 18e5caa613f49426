"""The weights that both sides start from: made, described and saved by one side's process."""

from pathlib import Path

from common.pair.pairs import STIRRED, WORDS
from common.sides.run import load_model_file
from common.system.json_file import load_json
from common.weights import states as weights
from common.weights.published import stored_weights


def make_weights(side, pair, cases, options, folder) -> None:
    """Write every case's shared weights: the torch model's own initial state under the seed."""
    (folder / "weights").mkdir(exist_ok=True)
    module = load_model_file(pair, side)
    for case in cases:
        side.set_up("float32", options.device, options.seed + case.seed)
        model = module.build(dict(case.config))
        state, owners = side.state(model), side.owners(model)
        if case.weights == STIRRED and options.weights != STIRRED:
            state = weights.made(STIRRED, state, owners, options.seed)
        if options.weights in WORDS:
            state = weights.made(options.weights, state, owners, options.seed, case.gain)
        elif options.weights is not None:
            state = weights.load_state(stored_weights(pair, options.published, options.weights))
            weights.check_state(options.weights, state, owners)
        weights.save_state(folder / "weights" / f"{case.name or 'main'}.npz", state, owners)


def describe(side, pair, case, options, folder) -> None:
    """Write who owns what of the model's state dict: owners.json."""
    side.set_up("float32", options.device, options.seed)
    model = load_model_file(pair, side).build(dict(case.config))
    weights.save_owners(folder / "owners.json", side.owners(model))


def save(side, path: Path, stored: Path) -> None:
    """Write weights as this framework's own file.

    Beside the .npz a .json says of each name, in the model's order, under which it is stored there.
    """
    state, names = weights.load_state(stored), load_json(stored.with_suffix(".json"))
    side.set_up("float32", "cpu", 0)
    side.save_arrays(path, state, names)
