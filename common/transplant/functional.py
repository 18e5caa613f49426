"""Functions of paddle.nn.functional, computed by torch (table.py says how)."""

from common.transplant.table import F, Untaken, channels_first, operator, same_name, sizes

# ---- layers: attention, linear, convolutions, embedding ------------------------------------------


@operator("attention", "nn.functional.scaled_dot_product_attention")
def _attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, training=True, scale=None
):
    if dropout_p and training:
        raise Untaken("dropout inside")
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))  # heads before tokens
    mixed = F.scaled_dot_product_attention(
        query, key, value, attn_mask, is_causal=is_causal, scale=scale
    )
    return mixed.transpose(1, 2)


@operator("linear", "nn.functional.linear")
def _linear(x, weight, bias=None):
    # A copy in torch's own layout, so that it is the same call of BLAS as in the torch worker.
    return F.linear(x, weight.t().contiguous(), bias)


@operator("conv", *(f"nn.functional.conv{n}d" for n in (1, 2, 3)))
def _conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    padding = padding.lower() if isinstance(padding, str) else sizes(padding)
    if not isinstance(padding, str | int) and len(padding) not in (1, x.ndim - 2):
        raise Untaken("a padding for each end")
    function = getattr(F, f"conv{x.ndim - 2}d")
    return function(x, weight, bias, sizes(stride), padding, sizes(dilation), groups)


@operator("conv", "nn.functional.conv._conv_nd")  # what nn.Conv2D and Conv3D call
def _conv_nd(
    x, weight, bias, stride, padding, padding_algorithm, dilation, groups, data_format, **of_kernels
):
    channels_first(data_format)
    if padding_algorithm not in (None, "EXPLICIT"):
        raise Untaken(f"padding {padding_algorithm}")
    return _conv(x, weight, bias, stride, padding, dilation, groups)


@operator("embedding", "nn.functional.embedding")
def _embedding(x, weight, padding_idx=None):
    if padding_idx is not None and padding_idx >= 0:
        raise Untaken("a padding row, which is zeros in Paddle alone")
    return F.embedding(x, weight)


# ---- normalisation -------------------------------------------------------------------------------


@operator("layer_norm", "nn.functional.layer_norm")
def _layer_norm(x, normalized_shape, weight=None, bias=None, epsilon=1e-5):
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    weight = weight if weight is None else weight.reshape(shape)
    return F.layer_norm(x, shape, weight, bias if bias is None else bias.reshape(shape), epsilon)


@operator("batch_norm", "nn.functional.batch_norm")
def _batch_norm(
    x, running_mean, running_var, weight, bias, training, momentum, epsilon, use_global_stats
):
    if training and not use_global_stats:
        raise Untaken("train mode, where Paddle keeps its own running statistics")
    return F.batch_norm(x, running_mean, running_var, weight, bias, False, 0.0, epsilon)


@operator("group_norm", "nn.functional.group_norm")
def _group_norm(x, num_groups, epsilon=1e-5, weight=None, bias=None):
    return F.group_norm(x, num_groups, weight, bias, epsilon)


@operator("instance_norm", "nn.functional.instance_norm")
def _instance_norm(x, weight, bias, eps, data_format, **of_statistics):
    channels_first(data_format)
    return F.instance_norm(x, None, None, weight, bias, True, 0.0, eps)


operator("normalize", "nn.functional.normalize")(
    lambda x, p=2, axis=1, epsilon=1e-12: F.normalize(x, p, axis, epsilon)
)


# ---- softmax and losses --------------------------------------------------------------------------


operator("softmax", "nn.functional.softmax")(
    lambda x, axis=-1, dtype=None: F.softmax(x, axis, dtype=dtype)
)
operator("log_softmax", "nn.functional.log_softmax")(
    lambda x, axis=-1, dtype=None: F.log_softmax(x, axis, dtype=dtype)
)


@operator("cross_entropy", "nn.functional.cross_entropy")
def _cross_entropy(
    input, label, weight=None, ignore_index=-100, reduction="mean", axis=-1, label_smoothing=0.0
):
    if axis not in (-1, input.ndim - 1):
        raise Untaken("another axis")
    labels = label.squeeze(-1) if label.ndim == input.ndim else label
    rows = input.reshape(-1, input.shape[-1])
    found = F.cross_entropy(
        rows,
        labels.reshape(-1),
        weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
    return found.reshape(label.shape) if reduction == "none" else found


operator("cross_entropy", "nn.functional.nll_loss")(
    lambda input, label, weight=None, ignore_index=-100, reduction="mean": F.nll_loss(
        input, label, weight, ignore_index=ignore_index, reduction=reduction
    )
)
operator("mse_loss", "nn.functional.mse_loss")(
    lambda input, label, reduction="mean": F.mse_loss(input, label, reduction=reduction)
)


# ---- activations ---------------------------------------------------------------------------------


operator("gelu", "nn.functional.gelu")(
    lambda x, approximate=False: F.gelu(
        x, approximate="tanh" if approximate in (True, "tanh") else "none"
    )
)
operator("softplus", "nn.functional.softplus")(
    lambda x, beta=1, threshold=20: F.softplus(x, beta, threshold)
)
operator("leaky_relu", "nn.functional.leaky_relu")(
    lambda x, negative_slope=0.01: F.leaky_relu(x, negative_slope)
)
operator("elu", "nn.functional.elu")(lambda x, alpha=1.0: F.elu(x, alpha))


for _name in ("relu", "silu", "selu", "mish", "relu6", "softsign", "tanhshrink"):
    operator(_name, f"nn.functional.{_name}")(same_name(F, _name))
operator("silu", "nn.functional.swish")(same_name(F, "silu"))
operator("log_sigmoid", "nn.functional.log_sigmoid")(same_name(F, "logsigmoid"))


# ---- pooling -------------------------------------------------------------------------------------


def _enter_pooling(n):
    """max_pool, avg_pool and the adaptive avg_pool over n axes."""

    @operator("max_pool", f"nn.functional.max_pool{n}d")
    def max_pool(x, kernel_size, stride=None, padding=0, ceil_mode=False):
        if isinstance(padding, str):
            raise Untaken("a padding by name")
        size, stride = sizes(kernel_size), None if stride is None else sizes(stride)
        own = getattr(F, f"max_pool{n}d")
        return own(x, size, stride, sizes(padding), ceil_mode=ceil_mode)

    @operator("avg_pool", f"nn.functional.avg_pool{n}d")
    def avg_pool(x, kernel_size, stride=None, padding=0, ceil_mode=False, exclusive=True):
        if n == 1 or isinstance(padding, str):
            raise Untaken("other arguments in another order, or a padding by name")
        size, stride = sizes(kernel_size), None if stride is None else sizes(stride)
        own = getattr(F, f"avg_pool{n}d")
        return own(x, size, stride, sizes(padding), ceil_mode, not exclusive)

    @operator("avg_pool", f"nn.functional.adaptive_avg_pool{n}d")
    def adaptive(x, output_size):
        return getattr(F, f"adaptive_avg_pool{n}d")(x, sizes(output_size))


for _n in (1, 2, 3):
    _enter_pooling(_n)
