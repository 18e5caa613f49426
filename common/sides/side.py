"""A framework as the instruments ask it: `Side`, of which each framework has a class.

`Side` says what every framework has to give, and what all make of that: tensors as arrays, a
model's weights and gradients.  backend_torch.py and backend_paddle.py are the two that there are.
An instrument (probes.py, dropouts.py, batch_norm.py, …) takes a side first, so that two sides can
be in one process.
"""

import os
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType

import numpy as np

from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.half import HALF
from twincheck.common.system.intercept import Intercept
from twincheck.common.system.matrices import contiguous
from twincheck.common.system.reasons import Kind
from twincheck.common.weights.layers import Owner, layer_kind, why_no_partner

_COMPLEX = {"float32": "complex64", "float64": "complex128"}


def _on_cpu(own, arguments, options):
    """A handle of what takes a device."""
    asked = {name: _cpu_of(value) for name, value in options.items()}
    return own(*map(_cpu_of, arguments), **asked)


def _cpu_of(value):
    """The CPU in place of a GPU, as text or as torch's device; all else as it is."""
    named = isinstance(value, str) or type(value).__name__ == "device"
    return "cpu" if named and str(value).partition(":")[0] in ("cuda", "gpu") else value


class Side:
    """A framework, as the instruments see it; its tensors and modules stay its own.

    A new one defines the names below, functions among them; the methods are made of these.
    """

    NAME: str  # "torch"
    VERSION: str
    FILE: str  # where it was imported from
    lib: ModuleType  # the framework itself
    CUDA: ModuleType  # its module for GPUs
    DATA: ModuleType  # its module with DataLoader, BatchSampler and Sampler
    PROCESSES_HERE: str  # the launcher's variable: how many processes this machine has

    AXIS: str  # how a sort names its axis
    MODULE: type  # the class of all modules
    FUNCTION: type  # the class of an operator with a gradient of its own
    LAYERS: tuple[str, ...]  # where its own layers are defined
    CONTAINERS: tuple[type, ...]  # what holds modules and computes nothing; the first three run
    RECURRENT: type
    CELLS: tuple[type, ...]  # these give their output and their states
    PADDING_ROW: str  # where an Embedding keeps it
    LOAD: str  # a model's method that takes a state dict
    COPIES_TO_LOAD: bool  # that method makes a copy of the state first

    BATCH_NORMS: tuple[type, ...]
    OLDER_BATCH_NORMS: tuple[type, ...]
    BATCH_NORM: str  # the operator that all of them call, which moves the statistics
    MEAN: str
    VARIANCE: str
    BIASED_VARIANCE: bool  # kept without n / (n - 1)

    CHECKPOINT: str  # gradient checkpointing
    REST_OF_ATTENTION: tuple[str, ...]  # what comes by position behind attention's first six
    AXIS_OF_HEADS: int
    HEADS_MAY_SHARE_KEYS: bool

    # The framework's functions that something stands before (system/intercept.py), by their names
    # from its root.
    TAKE_DEVICE: Sequence[str]  # of a model's
    CALLED_FOR_GPU: Mapping[str, Callable | type]  # and what stands for it where there is none
    DRAW: Mapping[str, tuple[str, Callable]]  # random_functions.py: what, and what of its arguments
    DRAW_WRITTEN_OUT: Mapping[str, Callable]  # the same of nn.functional's that are one operator
    SEED: str
    # upcast.py: what is asked for a dtype; what takes that of NumPy's data; methods called after a
    # dtype; every way to write a narrow dtype -> the wide one, written alike.
    ASKED_FOR_DTYPE: Sequence[str]
    FROM_DATA: Sequence[str]
    CALLED_AFTER_DTYPE: Mapping[str, object]
    WIDE: Mapping[object, object]

    # ---- functions of a framework; `value` is a tensor -------------------------------------------

    is_tensor: Callable  # (anything) -> whether it is a tensor of the framework
    no_grad: Callable  # () -> a context without gradients
    cast: Callable  # (value, dtype) -> a tensor with another dtype, one of the framework's
    from_array: Callable  # (array) -> a tensor of its values and dtype on the default device
    beside: Callable  # (array, value) -> a tensor of its values on that tensor's device
    ready: Callable  # (array, value) -> what a model can copy into `value`, its own; no copy
    is_on_cpu: Callable  # (value) -> whether NumPy can see it where it is
    as_complex: Callable  # ((..., 2) floats) -> (...) complex numbers
    scale_: Callable  # (value, by): multiply it in place
    take_along: Callable  # (value, index, axis) -> the values there, in the shape of `index`
    # (scores, axis) -> where the largest score is, int64; choices.py's patch does not see it
    argmax: Callable
    order_of: Callable  # (scores) -> what sorts the last axis, largest first; equal scores stay

    use_device: Callable  # ("cpu" or "gpu"): compute there, whether or not gradients are asked for
    set_default_dtype: Callable  # (name): make floats in this dtype from now on
    seed: Callable  # (seed): seed the framework's own generators
    generator_state: Callable  # () -> its generators' states: the CPU's, each GPU's in use
    set_generator_state: Callable  # (states): put them back
    random_state: Callable  # () -> the same as bytes or text: whether anything was drawn
    # () -> this process's rank among those that a launcher started, and their number
    join_processes: Callable

    on_gpu: Callable  # (model) -> the model with all its weights on the GPU
    modules: Callable  # (model) -> (name, module) of itself, whose name is empty, and of all in it
    entries: Callable  # (model) -> (key, tensor itself) of its state dict
    # (model) -> all functions that have a part in loading one, the framework's or a model's own
    ways_to_load: Callable
    wants_gradient: Callable  # (value) -> whether a gradient is wanted for it
    want_gradient: Callable  # (value, wanted=True): ask for its gradient, or no more
    forget_gradient: Callable  # (parameter): leave it without a gradient

    by_batch: Callable  # (BatchNorm) -> whether it takes each batch's statistics: no frozen one
    # What an operator was given (*arguments, **options), in one order for all frameworks.  Of
    # BATCH_NORM: value, running mean, whether it takes the batch's statistics, which part of the
    # running ones it keeps; of F.dropout: value, p, training, the axes along which masks differ,
    # mode; of those that drop whole channels the same; of those for SELU the first three.
    of_batch_norm: Callable
    dropout_of_values: Callable
    dropout_of_channels: Callable
    alpha_dropout: Callable

    sgd: Callable  # (values, lr) -> the framework's own plain SGD
    adam: Callable  # (values, lr, betas) -> its Adam
    # ((name, parameter) pairs, names of those that decay, lr, betas, weight decay) -> its AdamW
    adamw: Callable
    set_rate: Callable  # (optimizer, lr): give it another learning rate
    moment: Callable  # (optimizer, parameter, "moment1" or "moment2") -> a tensor, or None
    remembered: Callable  # (optimizer, parameter) -> kind -> tensor of all that it keeps for it
    remind: Callable  # (optimizer, (parameter, kind -> tensor) pairs): give that back to it

    # (upcast.Spelling) -> handles of what makes narrow floats whatever it is asked for: those that
    # are there always, and those, called too often, that are there while upcasting.
    narrow_by_itself: Callable
    # (dtype, device) -> a context that watches a run in half precision, and on a CPU may emulate
    # it; it gives a sentence on who computes, an empty one for another dtype.
    half_precision: Callable
    autocast: Callable  # (dtype, device) -> a context with the framework's own mixed precision
    blanks: Callable  # () -> a context to build a model in without random values: its Blanks
    # (wanted): compute from now on what the framework is slow at in another way, or in its own
    compute_quickly: Callable
    # (site, watched) -> transplant/exact.py's Exact where float64 operators are inexact, or None
    exact_operators: Callable

    # ==== what all sides make of that: arrays and tensors =========================================

    def array(self, tensor) -> np.ndarray:
        """Return a tensor's values in its dtype; bfloat16, which NumPy lacks, in float32.

        A complex value becomes two floats along one more axis: its real and its imaginary part.
        """
        if tensor.dtype == self.lib.bfloat16:
            tensor = self.cast(tensor, self.lib.float32)
        if tensor.is_complex():
            tensor = self.lib.stack([self.lib.real(tensor), self.lib.imag(tensor)], -1)
        return tensor.detach().cpu().numpy()

    def view(self, tensor) -> np.ndarray:
        """Return the array for who is done with it before the tensor changes: a view, if it can."""
        usual = tensor.dtype in (self.lib.float32, self.lib.float64)
        if usual and hasattr(self.lib.Tensor, "__dlpack__") and self.is_on_cpu(tensor):
            return np.from_dlpack(tensor.detach())
        return self.array(tensor)

    def shape(self, tensor) -> tuple[int, ...]:
        """Return the shape that a tensor's array has."""
        return (*tensor.shape, 2) if tensor.is_complex() else tuple(tensor.shape)

    def like(self, values: np.ndarray, value):
        """Return a tensor of an array's values with another tensor's dtype, be it complex."""
        values = self.tensor(contiguous(np.asarray(values)))
        if value.is_complex():
            values = self.as_complex(values)
        return self.cast(values, value.dtype)

    def tensor(self, values):
        """Return a tensor of the values; floats take the run's dtype, other types stay."""
        values = np.asarray(values)
        dtype = self.default_dtype_name()
        half = dtype in HALF and values.dtype.kind == "f"  # NumPy has no bfloat16
        wanted = {"f": "float32" if half else dtype, "c": _COMPLEX.get(dtype)}
        made = self.from_array(np.array(values, wanted.get(values.dtype.kind, values.dtype)))
        return self.cast(made, getattr(self.lib, dtype)) if half else made

    def is_float(self, value) -> bool:
        """Return True for tensors that gradients can flow through, complex ones among them."""
        return self.is_tensor(value) and (self.lib.is_floating_point(value) or value.is_complex())

    # ---- a process -------------------------------------------------------------------------------

    def set_up(self, dtype: str, device: str, seed: int) -> None:
        """Prepare this process for a run in a precision on a device, cpu or gpu.

        Raises UserError where the GPUs are too few.
        """
        found, needed = self.CUDA.device_count(), int(os.environ.get(self.PROCESSES_HERE, "1"))
        if device == "gpu" and found < needed:
            other = next(name for name in SIDES if name != self.NAME)
            few = Kind.FEW_GPUS(found=found, needed=needed) if found else Kind.NO_GPU()
            raise UserError(Kind.GPU_MISSING(framework=self.NAME, found=few, other=other))
        self.use_device(device)
        self.set_default_dtype(dtype)
        self._seed_all(seed)

    def _seed_all(self, seed: int) -> None:
        """Seed every generator that a model may draw from: the framework's, NumPy's, Python's."""
        self.seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Draw from this seed inside; then draws go on as if nothing had been drawn."""
        states = self.generator_state(), np.random.get_state(), random.getstate()
        self._seed_all(seed)
        try:
            yield
        finally:
            self.set_generator_state(states[0])
            np.random.set_state(states[1])
            random.setstate(states[2])

    def default_dtype_name(self) -> str:
        """Return the dtype that floats are made in: float32."""
        return str(self.lib.get_default_dtype()).rpartition(".")[2]

    @contextmanager
    def default_dtype(self, dtype: str) -> Iterator[None]:
        """Inside, floats are made in this precision unless they are asked for another."""
        saved = self.default_dtype_name()
        self.set_default_dtype(dtype)
        try:
            yield
        finally:
            self.set_default_dtype(saved)

    def without_gpu(self) -> None:
        """Let everything that asks for a GPU have the CPU, from now on.

        x.cuda()    torch.zeros(3, device="cuda")    paddle.set_device("gpu")
        """
        handles = dict.fromkeys(self.TAKE_DEVICE, _on_cpu) | self.CALLED_FOR_GPU
        cuda = ("Tensor.cuda", "nn.Module.cuda", "nn.Layer.cuda")
        handles |= dict.fromkeys(cuda, lambda own, arguments, options: arguments[0])
        Intercept(self.lib, handles, held_by=("paddle",)).put()

    def of_gpu(self) -> dict[str, str]:
        """Return the GPU's name, and whether float32's products are of numbers rounded to TF32."""
        float32 = self.lib.float32
        values = self.lib.full([256, 256], 1 + 2.0**-13, dtype=float32)
        kept = self.lib.matmul(values, self.lib.eye(256, dtype=float32)) == values
        return {"gpu": self.CUDA.get_device_name(), "tf32": "off" if bool(kept.all()) else "on"}

    # ---- modules ---------------------------------------------------------------------------------

    def of_framework(self, module) -> bool:
        """Return True for the framework's own layers, which are probed as a whole."""
        return type(module).__module__.startswith(self.LAYERS)

    def is_container(self, module) -> bool:
        """Return True for what holds modules and computes nothing by itself."""
        return isinstance(module, self.CONTAINERS) and not isinstance(module, self.RECURRENT)

    def framework_class(self, module) -> str:
        """Return the framework's class that a module is or derives from; "" for the model's own."""
        for kind in type(module).__mro__:
            if kind.__module__.startswith(self.LAYERS) and kind is not self.MODULE:
                return layer_kind(kind)
        return ""

    def probed_modules(self, model) -> Iterator[tuple[str, object]]:
        """Give (name, module) of every probe: layers of the framework, the model's own modules."""
        skipped = []
        for name, module in self.modules(model):
            if name == "" or any(name.startswith(f"{outer}.") for outer in skipped):
                continue
            container = self.is_container(module)
            if self.of_framework(module) and not container:
                skipped.append(name)
            if not container:
                yield name, module

    def batch_norms(self, model) -> list:
        """Return the model's BatchNorms, by which samples of a batch see each other in training."""
        return [module for _, module in self.modules(model) if isinstance(module, self.BATCH_NORMS)]

    def keeps_unbiased(self, batch_norm) -> bool:
        """Return True for a BatchNorm whose running variance is kept with n / (n - 1)."""
        return not self.BIASED_VARIANCE or hasattr(batch_norm, "_keeps_unbiased_statistics")

    # ---- weights and gradients -------------------------------------------------------------------

    def owners(self, model) -> dict[str, Owner]:
        """Return key -> Owner of every entry of the state dict; a shared layer's have one."""
        modules = dict(self.modules(model))
        kinds = {name: self.framework_class(module) for name, module in modules.items()}
        probes = {name for name, _ in self.probed_modules(model)}
        parameters = {id(parameter) for parameter in model.parameters()}
        first = {}
        found = {}
        for key, value in self.entries(model):
            path, _, local = key.rpartition(".")
            same_as = first.setdefault(id(value), key)
            parts = path.split(".") if path else []
            above = [".".join(parts[:i]) for i in range(len(parts) + 1)]  # the root's name is empty
            if path not in modules and same_as in found:
                found[key] = found[same_as]
                continue
            found[key] = Owner(
                kinds.get(path, ""),
                local,
                self.shape(value),
                id(value) in parameters,
                same_as,
                tuple(kinds.get(name, "") for name in above[:-1]),
                next((name for name in reversed(above) if name in probes), ""),
                self._padding(modules.get(path)),
                local == self.VARIANCE and self.keeps_unbiased(modules.get(path)),
                type(modules.get(path)).__name__,
            )
        return found

    def _padding(self, module) -> int | None:
        """The row of an Embedding that is padding; None where there is none."""
        if not isinstance(module, self.lib.nn.Embedding):
            return None
        row = getattr(module, self.PADDING_ROW)
        return None if row is None or row < 0 else int(row)

    def state(self, model) -> dict[str, np.ndarray]:
        """Return the state dict as arrays, aliases of one tensor under each of their names."""
        return {key: self.array(value) for key, value in model.state_dict().items()}

    def load_state(self, model, arrays: Mapping[str, np.ndarray]) -> None:
        """Put the arrays in; the caller has checked that every key is there, and no other.

        A model that loads in a way of its own is given tensors like its own.
        """
        own = model.state_dict()
        # Whether it loads as the framework does: by copying into what it has.
        ways = (str(getattr(way, "__module__", "")) for way in self.ways_to_load(model))
        plain = all(way.split(".")[0] == self.NAME for way in ways)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an array that may only be read is only read
            make = self._to_load if plain else self.like
            made = ((key, make(values, own[key])) for key, values in arrays.items())
            if plain and self.COPIES_TO_LOAD:  # each as soon as it is made
                for key, value in made:
                    own[key].set_value(value)
                return
            own.update(made)  # what else it holds, such as versions, stays
            getattr(model, self.LOAD)(own)

    def _to_load(self, values, value):
        usual = not value.is_complex() and value.dtype != self.lib.bfloat16
        return self.ready(values, value) if usual else self.like(values, value)

    def unlearned(self, model) -> Iterator[tuple[str, np.ndarray]]:
        """Give (name, array) of every buffer, and of every parameter that is not learned.

        Not a BatchNorm's statistics, which are rows by themselves, nor what one framework alone
        keeps.
        """
        modules = dict(self.modules(model))
        learned = {id(value) for _, value in self.trainable(model)}
        found = [pair for pair in model.named_parameters() if id(pair[1]) not in learned]
        for name, value in [*found, *model.named_buffers()]:
            path, _, local = name.rpartition(".")
            kind = self.framework_class(modules[path]) if path in modules else ""
            if value is None or "BatchNorm" in kind:
                continue
            if not why_no_partner(Owner(kind, local, self.shape(value), False, name)):
                yield name, self.array(value)

    def trainable(self, model) -> list[tuple[str, object]]:
        """Return (name, parameter) of every parameter that a gradient is wanted for."""
        return [(n, value) for n, value in model.named_parameters() if self.wants_gradient(value)]

    def watch(self, value):
        """Ask for the gradient of an input, where it is a float; returns the input."""
        if self.is_float(value):
            self.want_gradient(value)
        return value

    def gradient(self, parameter) -> np.ndarray:
        """Return the parameter's gradient; zeros where the loss does not reach it."""
        if parameter.grad is None:
            return np.zeros_like(self.array(parameter))
        return self.view(parameter.grad)

    def clear_gradients(self, model) -> None:
        """Forget all gradients."""
        for value in model.parameters():
            self.forget_gradient(value)

    def assign(self, parameter, values: np.ndarray) -> None:
        """Overwrite a parameter's values."""
        with self.no_grad():
            parameter.copy_(self.like(values, parameter), False)

    def assign_gradient(self, parameter, values: np.ndarray) -> None:
        """Overwrite a parameter's gradient; one that the loss does not reach has none, not 0."""
        if parameter.grad is not None or np.any(values):
            parameter.grad = self.like(values, parameter)

    def shift(self, parameter, start, direction, by: float) -> None:
        """Set a parameter to start + by * direction, all of them tensors, and make no other."""
        with self.no_grad():
            parameter.copy_(direction, False)
            self.scale_(parameter, by)
            parameter.add_(start)
