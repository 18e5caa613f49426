"""Build a torch model without the random values that its weights overwrite at once.

    with Blanks() as blanks:          inside, random functions draw nothing: what they would fill is
        model = build(config)         blank, and so is what is computed of it
    ...                               put the weights in
    blanks.left(model)                True where something is blank still: build without this

A model of 100 million parameters takes longer to initialise than to run.  What nobody overwrites
must be as if this were not there, so every operator is looked at while a model is built: whatever
is computed of a blank value is blank, until it is overwritten as a whole; and where a blank value
would become a number, a truth value or an array of NumPy's, `Read` is raised.
common/sides/blank_in_paddle.py does the same for Paddle, which has no such look at operators.
"""

import gc
from contextlib import ExitStack

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from twincheck.common.system.intercept import Intercept

_Tensor = torch.Tensor
_own_storage = _Tensor.untyped_storage
# Ways out of the framework that are no operator.
_WAYS_OUT = (
    "numpy tolist data_ptr storage untyped_storage _typed_storage share_memory_ __array__ "
    "__deepcopy__ __dlpack__ __format__ __reduce_ex__ __repr__"
).split()
_OVERWRITES = ("aten::zero_", "aten::fill_", "aten::copy_")
# torch.nn.init's that compute with what they draw, or look at it.
_INITIALISERS = ("nn.init.trunc_normal_", "nn.init.orthogonal_", "nn.init.sparse_")


class Read(RuntimeError):
    """The constructor goes on with a value that would have been drawn."""


class Blanks:
    """The blank tensors of a process, by the memory that they lie in: views of it are blank too."""

    def __init__(self):
        self.read = False  # a blank value has become something that is no tensor
        self._blank: dict[int, StorageWeakRef] = {}
        self._inside = ExitStack()

    def __enter__(self) -> "Blanks":
        self._inside.enter_context(_Operators(self))
        handles = dict.fromkeys(_INITIALISERS, self._initialise)
        handles |= {f"Tensor.{name}": self._look for name in _WAYS_OUT}
        self._inside.enter_context(Intercept(torch, handles))
        return self

    def __exit__(self, *error: object) -> None:
        self._inside.close()

    def _initialise(self, own, arguments, options):
        tensor = arguments[0] if arguments else options["tensor"]
        self.add(tensor)
        return tensor

    def _look(self, own, arguments, options):
        """A method that makes something else of a tensor than a tensor."""
        if self.has(arguments[0]):
            self.read = True
            raise Read(own.__name__)
        return own(*arguments, **options)

    def add(self, tensor) -> None:
        """Take this tensor's memory as blank from now on."""
        storage = _storage(tensor)
        self._blank[storage._cdata] = StorageWeakRef(storage)

    def overwritten(self, tensor) -> None:
        """The tensor has proper values; so has its memory, if there is no more of it."""
        storage = _storage(tensor)
        if tensor.numel() * tensor.element_size() == storage.nbytes():
            self._blank.pop(storage._cdata, None)

    def has(self, tensor) -> bool:
        """Return whether a tensor is blank."""
        return tensor.layout == torch.strided and _storage(tensor)._cdata in self._blank

    def in_constants(self, model) -> bool:
        """True where a buffer, or a parameter that is not learned, would have been drawn."""
        fixed = [value for value in model.parameters() if not value.requires_grad]
        return any(self.has(value) for value in (*model.buffers(), *fixed))

    def left(self, model) -> bool:
        """True where something is blank still, now that the model has its weights."""
        for value in model.state_dict(keep_vars=True).values():
            self.overwritten(value)
        if self._alive():
            gc.collect()  # what a constructor has used and dropped may wait in a cycle
        return self.read or self._alive()

    def _alive(self) -> bool:
        return not all(reference.expired() for reference in self._blank.values())


class _Operators(TorchDispatchMode):
    """Sees every operator that runs, whoever calls it."""

    def __init__(self, blanks: Blanks):
        super().__init__()
        self.blanks = blanks

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # its compiler, which nothing here needs, would be imported: seconds

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        options, blanks, name = options or {}, self.blanks, function._schema.name
        given = [v for v in tree_leaves((arguments, options)) if isinstance(v, _Tensor)]
        if torch.Tag.nondeterministic_seeded in function.tags:
            made = _undrawn(function, name, arguments, options)
            for value in tree_leaves(made):
                if isinstance(value, _Tensor):
                    blanks.add(value)
            return made
        if not any(map(blanks.has, given)):
            return function(*arguments, **options)
        if name in _OVERWRITES and not any(map(blanks.has, given[1:])):
            blanks.overwritten(given[0])
        made = function(*arguments, **options)
        if not any(map(blanks.has, given)):
            return made
        for value in tree_leaves(made):
            if isinstance(value, _Tensor):
                blanks.add(value)
            elif value is not None:
                blanks.read = True
                raise Read(name)
        for argument, value in zip(function._schema.arguments, arguments, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for written in tree_leaves(value):
                    if isinstance(written, _Tensor):
                        blanks.add(written)
        return made


def _undrawn(function, name: str, arguments, options):
    """Return a random operator's result with whatever values; a large one costs nothing."""
    options = {key: value for key, value in options.items() if key != "generator"}
    if name.endswith("_") and isinstance(arguments[0], _Tensor):
        return arguments[0]
    if name in ("aten::rand", "aten::randn"):
        return torch.empty(arguments[0], **options)
    if name in ("aten::rand_like", "aten::randn_like"):
        return torch.empty_like(arguments[0], **options)
    if function == torch.ops.aten.normal.float_float:
        return torch.empty(arguments[2], **options)
    return function(*arguments, **options)


def _storage(tensor):
    with torch._C.DisableTorchFunction():
        return _own_storage(tensor)
