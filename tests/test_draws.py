"""Random numbers that models draw by themselves: the same on both sides, or said not to be."""

from dataclasses import replace

import numpy as np
import pytest
from builders import PAIRS, copied, ended
from checkout import change

from twincheck.common.check.draws import draw_notes, dropout_notes
from twincheck.common.logs.draws import Draw, grouped, pass_at, runs_of, side_by_side
from twincheck.common.logs.dropouts import partners
from twincheck.common.logs.sidecar import Sidecar
from twincheck.common.pair.tape import KINDS, Tape
from twincheck.common.sides.draws import Draws, Dropouts, Restart
from twincheck.common.sides.session import Session, using

# ---- the tape -----------------------------------------------------------------------------------


def test_numbers_are_exact_in_float32_and_never_the_ends():
    values = Tape(0).numbers("uniform", (1 << 16,), "1", 0)
    assert values.dtype == np.float32 and 0 < values.min() < 1e-4 and 1 - 1e-4 < values.max() < 1
    odd = values.astype(np.float64) * 2**24
    assert (odd % 2 == 1).all(), "so that 0 and 1 cannot be drawn"
    assert abs(values.mean() - 0.5) < 5e-3
    normal = Tape(0).numbers("normal", (1 << 16,), "1", 0)
    assert normal.dtype == np.float32 and abs(normal.std() - 1) < 1e-2 and abs(normal.mean()) < 1e-2


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_depend_on_kind_lengths_number_and_step(kind):
    draw = Tape(3).numbers
    first = draw(kind, (64,), "1", 5)
    assert np.array_equal(first, Tape(3).numbers(kind, (64, 1), "1", 5).reshape(64))
    others = [draw(kind, (64,), "2", 5), draw(kind, (64,), "1", 6)]
    others.append(draw(kind, (2, 32), "1", 5).reshape(64))
    others.append(Tape(4).numbers(kind, (64,), "1", 5))
    assert not any(np.array_equal(first, other) for other in others)
    if kind == "permutation":
        assert sorted(first) == list(range(64))


# ---- which numbers a draw gets ------------------------------------------------------------------


class Side:
    """A model's pass as a list of (site, kind, shape), and what it was given."""

    def __init__(self, reference=None, modules=()):
        self.session = Session(0, record=lambda key, values: None)
        listed = reference.listed() if reference else []
        self.session.draws = Draws(lambda: listed)
        self.session.draws.own_sites = set(modules)

    def listed(self):
        return self.session.draws.listed(str)

    def draws(self, *wanted, step=0):
        self.session.begin(step)
        return [self.draw(*one) for one in wanted]

    def draw(self, site, kind="normal", shape=(4, 8)):
        self.session.running.append(site)
        values = self.session.draw(kind, shape)
        self.session.running.pop()
        return values


def same(left, right):
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def test_modules_of_the_same_names_may_run_in_another_order():
    torch = Side()
    a, b = torch.draws(("tower.a",), ("tower.b",))
    paddle = Side(torch, ["tower", "tower.a", "tower.b"])
    assert same([b, a], paddle.draws(("tower.b",), ("tower.a",)))
    without_the_list = Side()
    assert same([a, b], without_the_list.draws(("tower.b",), ("tower.a",)))
    torch = Side()
    first, b, second = torch.draws(("a",), ("b",), ("a",))
    assert same([first, second, b], Side(torch, ["a", "b"]).draws(("a",), ("a",), ("b",)))


def test_modules_of_other_names_take_what_no_other_will_ask_for():
    torch = Side()
    a, b, c = torch.draws(("known",), ("path",), ("path",))
    paddle = Side(torch, ["known", "wrapper.path"])
    assert same([b, a, c], paddle.draws(("wrapper.path",), ("known",), ("wrapper.path",)))
    # One more than the reference has gets numbers of its own.
    assert len({values.tobytes() for values in paddle.draws(*[("known",)] * 5)}) == 5


def test_a_training_goes_on_after_the_list_with_batches_of_other_lengths():
    def wanted(*sites, batch):
        return [(site, "normal", (batch, 8)) for site in sites]

    torch = Side()
    torch.draws(*wanted("a", "b", batch=4))
    torch.draws(*wanted("a", "b", batch=3))
    paddle = Side(torch, ["a", "b"])
    for step, batch in enumerate((4, 3, 4, 7, 4)):
        a, b = Side().draws(*wanted("a", "b", batch=batch), step=step)
        assert same([b, a], paddle.draws(*wanted("b", "a", batch=batch), step=step)), step


def test_a_recomputation_repeats_its_draws_and_is_not_listed():
    torch = Side()
    torch.draws(("a",))
    snapshot = torch.session.snapshot()
    first = [torch.draw("b"), torch.draw("b")]
    after = torch.draw("c")
    listed = torch.listed()
    with torch.session.repeat(snapshot):
        assert torch.session.draws_from_tape
        assert same(first, [torch.draw("b"), torch.draw("b")])
    assert torch.listed() == listed and not same([after], [torch.draw("c")])


# ---- the list and what a check says of it -------------------------------------------------------

N, M = Draw("normal", (4, 8), "encoder", "torch_model.py:31"), Draw("normal", (8, 4), "e", "t.py:9")
U = Draw("uniform", (4, 1), "path", "torch_model.py:40")


def test_passes_that_draw_alike_are_said_once():
    groups = grouped([[N, U], [N, U], [M]])
    assert [group["passes"] for group in groups] == [2, 1]
    runs = runs_of(groups)
    assert [pass_at(runs, i) for i in range(4)] == [(N, U), (N, U), (M,), (M,)]
    both = list(side_by_side(runs, runs_of(grouped([[N], [M], [M], [U]]))))
    assert both == [(1, (N, U), (N,)), (1, (N, U), (M,)), (1, (M,), (M,)), (1, (), (U,))]
    huge = runs_of([{"passes": 2**62, "draws": []}])  # anybody may have written a sidecar
    assert list(side_by_side(huge, huge)) == [(2**62, (), ())]


def notes(*sides, **told):
    sidecars = (Sidecar(draws={"main": grouped([draws])}) for draws in sides)
    return draw_notes(*([sidecar] for sidecar in sidecars), **told)


@pytest.mark.parametrize(
    "torch, paddle, said",
    [
        ([U, N], [U, M], "torch drew normal numbers of shape [4, 8] at torch_model.py:31 where "
         "paddle drew normal numbers of shape [8, 4] at t.py:9"),
        ([U, N], [U], "torch drew normal numbers of shape [4, 8] at torch_model.py:31, which "
         "paddle did not draw"),
        ([N, N], [replace(N, place="p.py:1"), replace(N, site="new", place="p.py:2"),
                  replace(N, place="p.py:3")], "paddle drew normal numbers of shape [4, 8] at "
         "p.py:2, which torch did not draw"),
    ],
    ids=["shape", "less", "more in a module of its own"],
)  # fmt: skip
def test_the_first_unlike_draw_is_named(torch, paddle, said):
    (note,) = notes(torch, paddle)
    assert note.startswith("the models did not draw the same random numbers, ")
    assert note.endswith(f": {said}")


# ---- dropouts -----------------------------------------------------------------------------------


def dropouts(*described):
    """`site rate` or `site rate lengths` each, as a side lists them."""
    draws = []
    for text in described:
        site, rate, *lengths = text.split()
        shape = tuple(map(int, lengths)) or (3, 4, 8)
        draws.append(Draw(f"dropout {rate}", shape, site, f"{site}:1"))
    return tuple(draws)


def matched(torch, paddle):
    """Paddle's site -> torch's."""
    found = partners(dropouts(*torch), dropouts(*paddle)).items()
    return {paddle[i].split()[0]: torch[k].split()[0] for i, k in sorted(found)}


LAYERS = ["l.0.att.d .1 3 2 4 4", "l.0.out.d .1", "l.0.d .1", "l.1.att.d .1 3 2 4 4",
          "l.1.out.d .1", "l.1.d .1"]  # fmt: skip
FLAT = ["l.0.d .1 3 2 4 4", "l.0.d#2 .1", "l.0.d#3 .1", "l.1.d .1 3 2 4 4", "l.1.d#2 .1",
        "l.1.d#3 .1"]  # fmt: skip


@pytest.mark.parametrize(
    ("torch", "paddle", "found"),
    [
        (["a .1", "b .1"], ["b .1", "a .1"], {"a": "a", "b": "b"}),
        (LAYERS, FLAT, dict(zip([d.split()[0] for d in FLAT], [d.split()[0] for d in LAYERS],
                                strict=True))),
        # Towers in another order, what is in them under other names.
        (["one.a .1", "two.a .1"], ["two.b .1", "one.b .1"], {"one.b": "one.a", "two.b": "two.a"}),
        # One is forgotten: the other layer's are what they are.
        (LAYERS, [FLAT[0], FLAT[1], *FLAT[3:]],
         {"l.0.d": "l.0.att.d", "l.0.d#2": "l.0.d", "l.1.d": "l.1.att.d",
          "l.1.d#2": "l.1.out.d", "l.1.d#3": "l.1.d"}),
        # Another rate: by name, else by order.
        (["a .1", "b .2"], ["a .3", "c .2"], {"a": "a", "c": "b"}),
        (["a .1"], ["c .3"], {"c": "a"}),
        (["a .1"], ["a .1", "a#2 .1"], {"a": "a"}),
        # Reshaped, turned, and of another size: that is nothing's partner but by name.
        (["a .1 6 4"], ["b .1 2 3 4"], {"b": "a"}),
        (["a .1 6 4"], ["b .1 4 6"], {"b": "a"}),
        (["a .1 6 4"], ["b .1 6 5"], {}),
        (["a .1 6 4"], ["a .1 6 5"], {"a": "a"}),
    ],
)  # fmt: skip
def test_which_dropout_is_which(torch, paddle, found):
    assert matched(torch, paddle) == found


def masks(wanted, reference=(), learned=None, step=3):
    """A pass of dropouts: their masks, and the keys of their rates."""
    keys = []
    session = Session(5, record=lambda key, values: keys.append(key))
    session.dropouts = Dropouts(lambda: reference, learned)
    session.begin(step)
    drawn = []
    for text in wanted:
        site, rate, *lengths = text.split()
        shape = tuple(map(int, lengths)) or (3, 4, 8)
        mask, key = session.keep_mask(site.partition("#")[0], shape, float(rate))
        drawn.append(mask)
        keys.append(key)
    session.begin(step + 1)
    return drawn, keys, session.dropouts.listed(str)


def test_a_dropout_in_another_module_gets_the_masks_of_the_references():
    """In the second run: the first one learns which is which, and is of no use."""
    ours, keys, listed = masks([*LAYERS, "tail .1 6 4"])
    wanted, learned = [*FLAT, "end .1 4 6", "l.0.d#4 .3 2 2"], {}
    with pytest.raises(Restart):
        masks(wanted, listed, learned)
    theirs, their_keys, _ = masks(wanted, listed, learned)
    assert same(theirs[:6], ours[:6]) and np.array_equal(theirs[6], ours[6].T)
    assert their_keys[:7] == keys and their_keys[7] not in keys, "one too many has its own numbers"
    assert masks(LAYERS, listed, {})[1] == keys[:6], "the same names need no second run"


def test_what_is_said_of_dropouts():
    def said(*sides):
        sidecars = (Sidecar(dropouts={"main": grouped([dropouts(*side)])}) for side in sides)
        return dropout_notes(*([sidecar] for sidecar in sidecars))

    assert said(LAYERS, LAYERS) == []
    (note,) = said(LAYERS, FLAT)
    assert " in other modules, 6, " in note and note.endswith("first l.0.att.d, in paddle l.0.d")
    assert said(["a .1", "b .1"], ["a .1"]) == [
        "the models do not have the same dropouts: torch has dropout .1 of shape [3, 4, 8] at "
        "b:1, which paddle has not"
    ]
    assert "paddle has dropout .1 " in said(["a .1"], ["a .1", "b .1"])[0]


# ---- the frameworks' functions ------------------------------------------------------------------

# x (3, 4) and p (3, 4), probabilities; D is the framework's distributions.
SPELLINGS = [
    ("torch.rand(3, 4)", "paddle.rand([3, 4])"),
    ("torch.rand_like(x)", "paddle.uniform(x.shape, min=0.0)"),
    ("torch.rand(3, generator=torch.Generator())", "paddle.uniform([3], min=0.0, max=1.0, seed=3)"),
    ("torch.randn(3, 4) * 2 + 1", "paddle.normal(1.0, 2.0, [3, 4])"),
    ("torch.randn_like(p) * p + x", "paddle.normal(x, p)"),
    ("torch.normal(x, p)", "x + p * paddle.standard_normal([3, 4])"),
    ("torch.normal(1.0, 2.0, size=(3, 4))", "paddle.randn([3, 4]) * 2 + 1"),
    ("torch.empty(3, 4).normal_(1, std=2)", "paddle.empty([3, 4]).normal_(1, 2)"),
    ("torch.empty(3, 4).uniform_(-1, to=2)", "paddle.empty([3, 4]).uniform_(-1, 2)"),
    ("torch.empty(3, 4).exponential_(2)", "paddle.empty([3, 4]).exponential_(2.0)"),
    ("-torch.empty(3).exponential_().log()", "-paddle.log(-paddle.log(paddle.rand([3])))"),
    ("x.new_empty((3, 1)).bernoulli_(0.7)", "paddle.floor(0.7 + paddle.rand([3, 1]))"),
    ("(0.7 + torch.rand(3)).floor()", "paddle.empty([3]).bernoulli_(0.7)"),
    ("torch.bernoulli(p)", "paddle.bernoulli(p)"),
    ("p.bernoulli(0.3)", "paddle.bernoulli(p, p=0.3)"),
    ("torch.empty(3, 4).bernoulli_(p)", "paddle.bernoulli_(paddle.empty([3, 4]), p)"),
    ("torch.randint(2, 9, (50,))", "paddle.randint(2, 9, [50])"),
    ("torch.randint(high=9, size=(50,))", "paddle.randint(9, shape=[50])"),
    ("torch.randint_like(x, 2, 7)", "paddle.randint_like(x, 2, 7)"),
    ("torch.randperm(50)", "paddle.randperm(50)"),
    ("torch.multinomial(p, 5, replacement=True)", "paddle.multinomial(p, 5, replacement=True)"),
    ("torch.multinomial(p, 1)", "paddle.multinomial(p)"),
    ("D.Normal(x, p).sample()", "D.Normal(x, p).sample()"),
    ("D.Normal(x, p).rsample((2,))", "D.Normal(x, p).rsample((2,))"),
    ("D.Bernoulli(p).sample()", "D.Bernoulli(p).sample()"),
    ("D.Uniform(x, x + p).rsample()", "D.Uniform(x, x + p).sample()"),
    ("D.Exponential(p).rsample()", "D.Exponential(p).rsample()"),
    ("F.gumbel_softmax(x, 0.5)", "F.gumbel_softmax(x, 0.5)"),
    ("F.gumbel_softmax(x.repeat(9, 9), hard=True, dim=0)",
     "F.gumbel_softmax(x.tile([9, 9]), hard=True, axis=0)"),
    ("F.rrelu(x, 0.1, 0.4, training=True)", "F.rrelu(x, 0.1, 0.4, training=True)"),
    ("F.feature_alpha_dropout(x, 0.4, True)", "F.feature_alpha_dropout(x, 0.4, True)"),
]  # fmt: skip


@pytest.fixture(scope="module")
def frameworks():
    """Name -> evaluate an expression in a session, in a precision."""
    import paddle
    import torch

    from twincheck.common.sides import backend_paddle, backend_torch, dropouts, random_functions

    def evaluate(name, expression, dtype, taking=True):
        framework = {"torch": torch, "paddle": paddle}[name]
        side = {"torch": backend_torch, "paddle": backend_paddle}[name].side
        dropouts.patch(side)
        random_functions.patch(side)
        usual = framework.get_default_dtype()
        framework.set_default_dtype(getattr(torch, dtype) if name == "torch" else dtype)
        values = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
        tensor = torch.as_tensor if name == "torch" else paddle.to_tensor
        x = tensor(values.astype(dtype))
        known = {"x": x, "p": 1 / (1 + (-x).exp()), "F": framework.nn.functional}
        known |= {name: framework, "D": getattr(framework, DISTRIBUTIONS[name])}
        before = side.random_state()
        session = Session(7)
        try:
            with using(session):
                session.draws.taking = taking
                results = [np.asarray(eval(expression, known)) for _ in range(2)]
        finally:
            framework.set_default_dtype(usual)
        return results, side.random_state() != before

    return evaluate


DISTRIBUTIONS = {"torch": "distributions", "paddle": "distribution"}


@pytest.mark.parametrize("torch, paddle", SPELLINGS, ids=[torch for torch, _ in SPELLINGS])
def test_both_frameworks_draw_the_same(frameworks, torch, paddle):
    runs = []
    for side, expression in (("torch", torch), ("paddle", paddle)):
        for dtype in ("float64", "float32"):
            results, drew_itself = frameworks(side, expression, dtype)
            assert not drew_itself, f"{side} in {dtype}"
            assert results[0].dtype in (dtype, np.int64)
            assert not np.array_equal(*results), "each call draws its own"
            runs.append(results)
    for k, tolerance in ((1, 2e-6), (2, 1e-14), (3, 2e-6)):
        for ours, theirs in zip(runs[0], runs[k], strict=True):
            np.testing.assert_allclose(theirs, ours, tolerance, tolerance)


@pytest.mark.parametrize("side, expression", [
    ("torch", "torch.poisson(p)"), ("torch", "torch.multinomial(p, 3)"),
    ("paddle", "paddle.poisson(p)"), ("paddle", "paddle.multinomial(p, 3)"),
])  # fmt: skip
def test_what_the_tape_does_not_know_is_seen(frameworks, side, expression):
    assert frameworks(side, expression, "float32")[1]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_a_scripted_function_still_compiles(frameworks):
    frameworks("torch", "torch.rand(3)", "float32")
    import torch

    def noise(x):
        return torch.rand_like(x) + torch.randn([3])

    assert torch.jit.script(noise)(torch.ones(3)).shape == (3,)


@pytest.mark.parametrize("side", DISTRIBUTIONS)
def test_outside_a_models_code_nothing_is_taken(frameworks, side):
    shape = "3, 4" if side == "torch" else "[3, 4]"
    results, drew_itself = frameworks(side, f"{side}.rand({shape})", "float32", taking=False)
    assert drew_itself and not np.array_equal(*results)


# ---- whole checks -------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path):
    return copied(PAIRS / "draws", tmp_path / "my pairs")


@pytest.mark.slow
def test_models_that_draw_agree_in_every_pass(checkout, pair):
    """Forward, gradients, optimizer steps; drop path in train mode alone."""
    words = "--model", str(pair), "--mode", "train", "--no-report"
    done, report = ended(0, checkout.rows(4, *words))
    keys = {row["key"] for row in report["rows"]}
    assert {"steps", "adamw/002/loss", "sgd/002/loss"} <= keys and "did not draw" not in done.stdout
    assert "both models drew the same random numbers" in done.stdout


def test_a_wrong_use_of_the_right_numbers_is_named(checkout, pair):
    """A variance for a deviation in the towers; behind them a drop path without its scale."""
    change(pair / "paddle_model.py", "0.5 * log_variance", "log_variance")
    change(pair / "paddle_model.py", "x / self.keep * kept", "x * kept")
    words = ("--model", str(pair), "--no-report", "--mode", "train")
    done, report = ended(1, checkout.rows(1, *words))
    assert report["first_diverged"] == "a", done.stdout
    found = {row["key"]: row["verdict"] for row in report["rows"]}
    origins = {key for key, verdict in found.items() if verdict == "DIVERGED"}
    assert origins >= {f"{case}{k}" for case in ("", "perturbed/") for k in ("a", "b", "code:in/0")}
    assert "both models drew the same random numbers" in done.stdout


@pytest.mark.slow
def test_unlike_draws_are_refused_in_one_sentence(checkout, pair):
    other = "paddle.randn([8, 4, 4]).transpose([2, 1, 0])"
    change(pair / "paddle_model.py", "paddle.randn(x.shape)", other)
    done, report = ended(1, checkout.rows(1, "--model", str(pair), "--no-report"))
    assert report["first_diverged"], done.stdout
    text = " ".join(done.stdout.split())
    said = (
        "torch drew normal numbers of shape [4, 4, 8] at {0}/torch_model.py:48 where paddle drew "
    )
    said += "normal numbers of shape [8, 4, 4] at {0}/paddle_model.py:45"
    assert said.format(pair) in text and "both models drew the same" not in text
