"""Which pair is of which kind, and the checks that must pass on it."""

from dataclasses import dataclass

# What makes a correct pair of this kind hard to judge.
KINDS = {
    "inside": "inner tensors differ in shape, order, name or number; what comes out does not",
    "casts": "the model casts to float32 inside",
    "deep": "noisy weights or a careless learning rate blow it up",
    "random": "it draws random numbers by itself",
    "state": "a training forward moves buffers",
    "gradients": "gradients of gradients, tiny ones, or none on one side",
    "losses": "the loss is written in another way",
    "odd": "outputs, dtypes or sizes that are rare",
}
ALL = (1, 2, 3, 4, 5)  # of pairs with make_data


@dataclass(frozen=True)
class UserPair:
    """One pair, and how it is run.

    kind     one of KINDS
    steps    whose checks must pass in eval mode
    train    likewise in train mode
    options  of every check of it
    """

    name: str
    kind: str
    steps: tuple[int, ...] = (1, 3, 4)
    train: tuple[int, ...] = ()
    options: tuple[str, ...] = ()


PAIRS = (
    UserPair("nhwc_images", "inside", train=(1, 4)),
    UserPair("convnext_linear", "inside"),
    UserPair("vision_transformer", "inside"),
    UserPair("shifted_windows", "inside"),
    UserPair("point_cloud", "inside", train=(1, 4)),
    UserPair("norms_by_hand", "inside"),
    UserPair("causal_convs", "inside"),
    UserPair("packed_lstm", "inside"),
    UserPair("gru_by_hand", "inside"),
    UserPair("text_convs", "inside", train=(1, 4)),
    UserPair("attention_by_framework", "inside"),
    UserPair("attention_module", "inside"),
    UserPair("fused_qkv", "inside"),
    UserPair("encoder_layer", "inside"),
    UserPair("gpt_masks", "inside"),
    UserPair("albert_like", "inside"),
    UserPair("two_towers", "inside"),
    UserPair("twins_batched", "inside"),
    UserPair("wrapped_model", "inside"),
    UserPair("sequential_pieces", "inside"),
    UserPair("shared_names", "inside"),
    UserPair("einsum_capsules", "inside"),
    UserPair("graph_conv", "inside", train=(1, 4)),
    UserPair("graph_attention", "inside"),
    UserPair("expert_mixture", "inside"),
    UserPair("factorization", "inside", train=(1,)),
    UserPair("focal_detector", "inside"),
    UserPair("llama_like", "casts"),
    UserPair("phi_like", "casts"),
    UserPair("gemma_like", "casts"),
    UserPair("t5_like", "casts"),
    UserPair("deep_residual", "deep", train=(1,)),
    UserPair("deep_transformer", "deep", steps=(1, 3)),
    UserPair("unet", "deep", train=(1,)),
    UserPair("mobile_excite", "deep", train=(1, 3)),
    UserPair("segmentation", "losses", train=(1, 3)),
    UserPair("variational", "random", train=(1,)),
    UserPair("drop_path", "random", train=(1, 3, 4)),
    UserPair("dropout_owners", "random", steps=(1,), train=(1, 4)),
    UserPair("seq_first", "random", steps=(1,), train=(1,)),
    UserPair("moving_codebook", "state", train=(1, 3, 4)),
    UserPair("moving_centre", "state", train=(1, 3, 4)),
    UserPair("ema_teacher", "state", steps=(1,), train=(1, 4)),
    UserPair("fixed_positions", "state"),
    UserPair("conformer", "state", steps=ALL),
    UserPair("plain_resnet", "state", steps=ALL),
    UserPair("frozen_norms", "state", steps=ALL),
    UserPair("gradient_penalty", "gradients"),
    UserPair("force_field", "gradients"),
    UserPair("frozen_branch", "gradients"),
    UserPair("frozen_critic", "gradients"),
    UserPair("many_labels", "losses"),
    UserPair("label_smoothing", "losses"),
    UserPair("upsampling_decoder", "odd"),
    UserPair("fourier_filter", "odd"),
    UserPair("odd_outputs", "odd"),
    UserPair("pointer", "odd", steps=ALL),
    UserPair("meant_otherwise", "inside", train=(1, 4)),
    UserPair("twin_branches", "state", train=(1, 4)),
    UserPair("tiny_linear", "odd"),
    UserPair("tiny_argmax", "odd", steps=(1,)),
    UserPair("empty_rows", "odd", steps=(1, 3), options=("--allow", "nan")),
)
