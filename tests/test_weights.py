"""Weights from torch to Paddle and back, without either framework: layouts, convert, files."""

import json

import numpy as np
import pytest

from twincheck.common.system.errors import UserError
from twincheck.common.weights.layers import Owner, own_parameters
from twincheck.common.weights.layout import Layout, LayoutError
from twincheck.common.weights.noise import with_noise
from twincheck.common.weights.round_trip import changed_keys, one_way_keys
from twincheck.common.weights.states import check_state, load_owners, load_state, save_owners

LINEAR = Owner("Linear", "weight", (4, 4), True, "fc.weight")


def owner(key, kind, shape, parameter=True, same_as=None, within=(), **more):
    """An Owner; its local name is the end of the key."""
    return Owner(kind, key.rpartition(".")[2], shape, parameter, same_as or key, within, **more)


def owners(*rows):
    """Key -> Owner of rows (key, kind, shape, …)."""
    return {row[0]: owner(*row) for row in rows}


def numbered(owned):
    """A state in which every element has its own number; ties share theirs."""
    state, start = {}, 0
    for key, own in owned.items():
        size = int(np.prod(own.shape))
        state[key] = np.arange(start, start + size, dtype=np.float64).reshape(own.shape)
        start += size
    return {key: state[own.same_as] for key, own in owned.items()}


def test_a_square_linear_is_transposed_and_an_embedding_is_not():
    torch_owners = owners(
        ("fc.weight", "Linear", (4, 4)),
        ("emb.weight", "Embedding", (4, 4)),
        ("bn.running_mean", "BatchNorm1d", (4,), False),
        ("bn.num_batches_tracked", "BatchNorm1d", (), False),
    )
    paddle_owners = owners(
        ("fc.weight", "Linear", (4, 4)),
        ("emb.weight", "Embedding", (4, 4)),
        ("bn._mean", "BatchNorm1D", (4,)),
    )
    layout = Layout(torch_owners, paddle_owners)
    state = numbered(torch_owners)
    paddle_state = layout.to_paddle(state)
    assert np.array_equal(paddle_state["fc.weight"], state["fc.weight"].T)
    assert np.array_equal(paddle_state["emb.weight"], state["emb.weight"])
    assert np.array_equal(paddle_state["bn._mean"], state["bn.running_mean"])
    back = layout.to_torch(paddle_state)
    assert set(back) == set(state) and back["bn.num_batches_tracked"].dtype == np.int64
    assert all(np.array_equal(back[key], state[key]) for key in ("fc.weight", "bn.running_mean"))
    assert one_way_keys(layout, paddle_state) == []
    certificate = layout.certificate()
    rows = {row["paddle_key"]: row for row in certificate["rows"]}
    assert rows["fc.weight"]["transposed"] and not rows["emb.weight"]["transposed"]
    assert certificate["without_partner"] == {"bn.num_batches_tracked": "torch counts the batches"}


ATTENTION = ("in_proj_weight", (12, 4)), ("in_proj_bias", (12,))
PROJECTIONS = [(f"{name}.{local}", (4, 4)[: 2 - i]) for i, local in enumerate(("weight", "bias"))
               for name in ("q_proj", "k_proj", "v_proj")]  # fmt: skip


def attention(path, within=()):
    """Both sides' owners of one attention below a path."""
    theirs = owners(*((f"{path}.{name}", "MultiheadAttention", s) for name, s in ATTENTION))
    more = (True, None, (*within, "MultiHeadAttention"))
    return theirs, owners(*((f"{path}.{name}", "Linear", s, *more) for name, s in PROJECTIONS))


def test_fused_rows_go_to_three_projections_and_their_gradients_come_back():
    torch_owners, paddle_owners = attention("attn")
    layout = Layout(torch_owners, paddle_owners)
    state = numbered(torch_owners)
    paddle_state = layout.to_paddle(state)
    weight = state["attn.in_proj_weight"]
    assert np.array_equal(paddle_state["attn.k_proj.weight"], weight[4:8].T)
    assert np.array_equal(paddle_state["attn.v_proj.bias"], state["attn.in_proj_bias"][8:])
    back = list(layout.as_torch(paddle_state.items()))
    assert [key for key, _ in back] == ["attn.in_proj_weight", "attn.in_proj_bias"]
    assert all(np.array_equal(values, state[key]) for key, values in back)
    # What never comes is 0, such as a parameter that is frozen on one side.
    some = {key: v for key, v in paddle_state.items() if key != "attn.k_proj.weight"}
    part = dict(layout.as_torch(some.items()))["attn.in_proj_weight"]
    assert not part[4:8].any() and np.array_equal(part[8:], weight[8:])
    assert layout.from_torch("attn.q_proj.weight", {}.get) is None
    found = layout.from_torch("attn.q_proj.weight", state.get)
    assert np.array_equal(found, weight[:4].T)


def test_a_decoder_s_cross_attention_has_its_torch_name_in_probes_too():
    theirs, _ = attention("dec.0.multihead_attn")
    _, ours = attention("dec.0.cross_attn", ("", "LayerList", "TransformerDecoderLayer"))
    layout = Layout(theirs, ours)
    assert layout.entries["dec.0.cross_attn.q_proj.bias"].rows == (0, 4)
    assert layout.rename("dec.0.cross_attn.out_proj:in/0") == "dec.0.multihead_attn.out_proj:in/0"
    assert layout.rename("dec.0.cross_attn") == "dec.0.multihead_attn"


def test_projections_of_the_model_s_own_go_by_name():
    rows = [(f"a.{name}", "Linear", shape) for name, shape in PROJECTIONS]
    layout = Layout(owners(*rows), owners(*rows))
    assert layout.entries["a.q_proj.weight"].torch_key == "a.q_proj.weight"
    # in_proj_weight of a class that is no MultiheadAttention is not cut into rows
    with pytest.raises(LayoutError, match="only in the Paddle model: a.k_proj.bias"):
        Layout(owners(("a.in_proj_weight", "", (12, 4))), owners(*rows))


@pytest.mark.parametrize(
    "kind, ours, theirs, shape, torch_shape",
    [
        ("PReLU", "_weight", "weight", (3,), (3,)),
        ("InstanceNorm2D", "scale", "weight", (3,), (3,)),
        ("BatchNorm3D", "_variance", "running_var", (3,), (3,)),
        ("Bilinear", "bias", "bias", (1, 3), (3,)),
        ("Conv2D", "weight_g", "weight_g", (3,), (3, 1, 1, 1)),
        ("Linear", "weight_orig", "parametrizations.weight.original", (3, 2), (2, 3)),
        ("Linear", "weight_u", "parametrizations.weight.0._u", (3,), (3,)),
        ("Conv1D", "weight_v", "parametrizations.weight.original1", (3, 2, 2), (3, 2, 2)),
    ],
)
def test_local_names(kind, ours, theirs, shape, torch_shape):
    torch_owners = owners((f"x.{theirs}", "Something", torch_shape))
    layout = Layout(torch_owners, owners((f"x.{ours}", kind, shape)))
    state = numbered(torch_owners)
    values = layout.to_paddle(state)[f"x.{ours}"]
    assert values.shape == shape and one_way_keys(layout, {f"x.{ours}": values}) == []
    if shape == torch_shape[::-1]:
        assert np.array_equal(values, state[f"x.{theirs}"].T)


def test_leftovers_and_double_use_are_errors():
    with pytest.raises(UserError, match="only in the Paddle model: b.weight.*torch model: fc"):
        Layout({"fc.weight": LINEAR}, {"b.weight": LINEAR._replace(same_as="b.weight")})
    two = {"fc.weight": LINEAR, "g.weight": LINEAR._replace(same_as="g.weight")}
    with pytest.raises(UserError, match=r"asked for twice: fc.weight \(by fc.weight, g.weight\)"):
        Layout({"fc.weight": LINEAR}, two, {"g": "fc"})
    wide = {"fc.weight": LINEAR._replace(shape=(4, 5))}
    with pytest.raises(UserError, match="transposed as a Linear's weight"):
        Layout(wide, {"fc.weight": LINEAR._replace(shape=(4, 5))})
    theirs, ours = attention("attn")
    del ours["attn.k_proj.bias"]
    with pytest.raises(UserError, match="4 of 12 elements of attn.in_proj_bias are not used"):
        Layout(theirs, ours)
    # A name that only a framework's layer may leave without a partner.
    lonely = owners(("own.weight_u", "", (3,)), ("sn.weight_u", "SpectralNorm", (3,)))
    with pytest.raises(LayoutError) as caught:
        Layout(owners(), lonely)
    assert caught.value.certificate["only_paddle"] == ["own.weight_u"]
    assert list(caught.value.certificate["without_partner"]) == ["sn.weight_u"]


def test_a_square_in_a_class_of_the_model_s_own_lies_as_the_others_of_its_class():
    def own(key, name, *shape, kind=""):
        return {key: owner(key, kind, shape, own=name)}

    ours = owners(*((f"{k}.weight", "Linear", s) for k, s in (("a", (2, 6)), ("b", (4, 4)))))
    for shape, transposed in (((2, 6), False), ((6, 2), True)):
        theirs = own("a.weight", "Conv1D", *shape) | own("b.weight", "Conv1D", 4, 4)
        layout = Layout(theirs, ours)
        assert [layout.entries[key].transposed for key in theirs] == [transposed] * 2
        state = numbered(theirs)
        assert one_way_keys(layout, layout.to_paddle(state)) == []
    # Another class's say nothing; a Linear is one.
    square = own("b.weight", "Mixed", 4, 4)
    known = own("b.weight", "Linear", 4, 4, kind="Linear")
    as_paddle = own("a.weight", "Conv1D", 2, 6)
    said = "b.weight is square and its class, Mixed"
    with pytest.raises(LayoutError, match=f"{said}.*twincheck new` finds it"):
        Layout(as_paddle | square, ours)
    assert Layout(as_paddle | known, ours).entries["b.weight"].transposed
    assert Layout(own("a.weight", "Other", 6, 2) | square, ours).entries["b.weight"].transposed
    # Two ways in one class.
    ours |= owners(("c.weight", "Linear", (3, 5)))
    both = own("a.weight", "Mixed", 2, 6) | square | own("c.weight", "Mixed", 5, 3)
    with pytest.raises(LayoutError, match=said):
        Layout(both, ours)
    # What `convert` says is known.
    layout = Layout(both, ours, convert=lambda state: {"b.weight": state["b.weight"]})
    assert layout.entries["b.weight"].change != "transposed"


def test_a_buffer_of_positions_needs_no_partner_and_a_parameter_does():
    paddle_owners = owners(
        ("fc.weight", "Linear", (4, 4)), ("embeddings.position_ids", "", (1, 9), False)
    )
    layout = Layout({"fc.weight": LINEAR}, paddle_owners)
    assert layout.without_partner == {"embeddings.position_ids": "positions, counted from 0"}
    state = {"fc.weight": np.eye(4)}
    assert list(layout.to_paddle(state)) == ["fc.weight"]
    for key, parameter in (("embeddings.position_ids", True), ("embeddings.scale", False)):
        more = owners((key, "", (9,), parameter))
        with pytest.raises(LayoutError, match=f"only in the Paddle model: {key}"):
            Layout({"fc.weight": LINEAR}, {"fc.weight": LINEAR, **more})


def test_ties_must_be_on_both_sides():
    tied = owners(("emb.weight", "Embedding", (5, 4)), ("out.w", "", (5, 4), True, "emb.weight"))
    untied = owners(("emb.weight", "Embedding", (5, 4)), ("out.w", "", (5, 4)))
    layout = Layout(tied, tied)
    assert list(layout.to_paddle(numbered(tied))) == ["emb.weight", "out.w"]
    assert list(layout.to_torch(numbered(tied))) == ["emb.weight", "out.w"]
    with pytest.raises(UserError, match="emb.weight and out.w are tied in torch, .* not tied in P"):
        Layout(tied, untied)
    with pytest.raises(
        UserError, match="emb.weight and out.w are tied in Paddle, .* not tied in t"
    ):
        Layout(untied, tied)
    # Listed once on one side: a weight that is used twice without a second name.
    once = {"emb.weight": tied["emb.weight"]}
    assert Layout(once, tied).certificate()["rows"][0]["also_in_paddle"] == ["out.w"]
    assert Layout(tied, once).certificate()["rows"][0]["also_in_torch"] == ["out.w"]
    assert Layout(tied, {"out.w": untied["out.w"]}).entries["out.w"].torch_key == "emb.weight"


def test_recurrent_weights_are_listed_twice_by_paddle():
    theirs = owners(("rnn.weight_ih_l0", "LSTM", (8, 3)))
    alias = ("rnn.0.cell.weight_ih", "LSTMCell", (8, 3), True, "rnn.weight_ih_l0")
    layout = Layout(theirs, theirs | owners(alias))
    assert set(layout.to_paddle(numbered(theirs))) == {"rnn.weight_ih_l0", "rnn.0.cell.weight_ih"}


# ---- convert ------------------------------------------------------------------------------------

SPLIT = owners(("a.q.weight", "Linear", (4, 3)), ("a.k.weight", "Linear", (4, 3)), ("b", "", (2,)))
FUSED = owners(("a.qk", "", (3, 2, 4)), ("b", "", (2,)))


def fuse(state):
    """Two weights side by side, as a fused kernel wants them."""
    both = np.stack([state["a.q.weight"].T, state["a.k.weight"].T], axis=1)
    return {"a.qk": both.astype("float32")}


def test_convert_is_certified_and_its_gradients_come_back():
    layout = Layout(SPLIT, FUSED, convert=fuse)
    state = numbered(SPLIT)
    paddle_state = layout.to_paddle(state)
    assert np.array_equal(paddle_state["a.qk"], fuse(state)["a.qk"])
    assert paddle_state["a.qk"].dtype == np.float64, "the values themselves are not given to it"
    assert np.array_equal(paddle_state["b"], state["b"]), "what it leaves goes by name"
    back = dict(layout.as_torch(paddle_state.items()))
    assert all(np.array_equal(back[key], state[key]) for key in SPLIT)
    row = layout.certificate()["rows"][0]
    assert (row["torch_key"], row["change"]) == ("a.q.weight, a.k.weight", "convert")
    found = layout.from_torch("a.qk", state.get)
    assert np.array_equal(found, paddle_state["a.qk"])


@pytest.mark.parametrize(
    "convert, words",
    [
        (lambda s: {"a.qk": fuse(s)["a.qk"] * 2}, "convert computes a.qk"),
        (lambda s: {"a.qk": np.sort(fuse(s)["a.qk"], axis=0)[::-1]}, "convert computes a.qk"),
        (lambda s: {"a.qk": np.stack([s["a.q.weight"].T] * 2, 1)}, "torch model: a.k.weight"),
        (lambda s: fuse(s) | {"b": s["b"][[0, 0]]}, "1 of 2 elements of b are not used"),
        (lambda s: fuse(s) | {"c": s["b"]}, r"that the Paddle model lacks: \['c'\]"),
        (lambda s: {"a.qk": s["b"]}, r"a.qk is \[2\], the Paddle model has \[3, 2, 4\]"),
        (lambda s: {"a.qk": s["a.v.weight"]}, "convert failed: KeyError: 'a.v.weight'"),
        (lambda s: [fuse(s)["a.qk"]], "must return a dict of arrays, not list"),
        (lambda s: {"a.qk": "text"}, "not numbers"),
    ],
)
def test_a_convert_that_does_anything_else_is_refused(convert, words):
    with pytest.raises(UserError, match=words):
        Layout(SPLIT, FUSED, convert=convert)


# ---- files and draws ----------------------------------------------------------------------------


def test_parameters_that_another_module_holds_too_are_not_a_module_s_own():
    tied = owners(
        ("emb.weight", "Embedding", (5, 4)),
        ("head.weight", "Linear", (5, 4), True, "emb.weight"),
        ("head.bias", "Linear", (5,)),
        ("rnn.w", "LSTM", (3,)),
        ("rnn.0.w", "LSTMCell", (3,), True, "rnn.w"),
    )
    assert own_parameters(tied, ["emb", "head", "rnn"]) == {"emb": 0, "head": 1, "rnn": 1}


@pytest.mark.parametrize("word", ["perturbed", "trained-like"])
def test_running_statistics_change_and_padding_stays(word):
    owned = owners(
        ("bn.running_mean", "BatchNorm1d", (3,), False),
        ("bn.running_var", "BatchNorm1d", (3,), False),
        ("table", "", (3,), False),
        ("inv_freq", "", (3,), False),
        ("ones", "", (3,), False),
        ("zeros", "", (3,), False),
    ) | {"emb.weight": owner("emb.weight", "Embedding", (3, 2), padding=1)}
    start = {key: np.ones(own.shape, np.float32) for key, own in owned.items()}
    start |= {"table": np.float32([1, 2, 3]), "zeros": np.zeros(3, np.float32)}
    found = with_noise(word, start, owned, 0)
    assert (found["bn.running_var"] > 0).all() and len(set(found["bn.running_var"])) == 3
    assert len(set(found["bn.running_mean"])) == 3
    same = {key for key, values in start.items() if np.array_equal(values, found[key])}
    trained = {"ones", "zeros"} if word == "trained-like" else set()
    assert same == {"table", "inv_freq", *trained} and (found["emb.weight"][1] == 1).all()
    assert (found["ones"] > 0).all() and (found["zeros"] >= 0).all()
    left = with_noise(word, start, owned, 0, left=["ones"])
    assert (left["ones"] == 1).all() and (left["zeros"] == found["zeros"]).all()
    assert (found["emb.weight"][[0, 2]] != 1).all()


def test_what_comes_out_of_a_model_with_other_bits_is_named():
    layout = Layout({"fc.weight": LINEAR}, {"fc.weight": LINEAR})
    state = {"fc.weight": np.arange(16, dtype=np.float32).reshape(4, 4)}
    held = layout.to_paddle(state)
    assert changed_keys(layout, held.items(), state) == []
    upcast = {key: values.astype(np.float64) for key, values in held.items()}
    assert changed_keys(layout, upcast.items(), state) == []
    assert changed_keys(layout, {"fc.weight": held["fc.weight"].T}.items(), state) == ["fc.weight"]
    held["fc.weight"][0, 0] = -0.0  # equal as a number, but not the same bits
    assert changed_keys(layout, held.items(), state) == ["fc.weight"]


def test_owners_that_somebody_else_sent_are_checked(tmp_path):
    path = tmp_path / "main.json"
    owned = {"emb.weight": owner("emb.weight", "Embedding", (3, 2), within=("",), padding=1)}
    save_owners(path, owned)
    assert load_owners(path) == owned
    told = owned["emb.weight"]._asdict()
    for entries in ([1], {"a": [1]}, {"a": told | {"shape": ["1"]}}, {"a": told | {"more": 1}}):
        path.write_text(json.dumps(entries))
        with pytest.raises(UserError, match="refused"):
            load_owners(path)


def test_weights_files_are_checked(tmp_path):
    path = tmp_path / "state.npz"
    np.savez(path, **{"fc.weight": np.zeros((4, 4))})
    check_state(path, load_state(path), {"fc.weight": LINEAR})
    tied = {"fc.weight": LINEAR, "out.weight": LINEAR}
    state = {"fc.weight": np.zeros((4, 4)), "out.weight": np.ones((4, 4))}
    with pytest.raises(UserError, match="fc.weight and out.weight are one tensor in the model"):
        check_state(path, state, tied)
