"""Edits: nodes of the graph that change the value or the gradient that passes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils.hooks import RemovableHandle

from taiyi_fx.passes.ir import VALUE_PORTS, Change
from taiyi_fx.passes.note import add_note
from taiyi_fx.passes.probes.compiling import one_operation
from taiyi_fx.passes.structure import (
    Call,
    alias_of,
    find_tensor,
    replace_picked,
    replace_tensor,
    stands_in,
    tensors_in,
)


class Edited:
    """A node of the graph that changes the value at a site, or its gradient.

    It stands before the probe of its site: consumers and readings get the changed value, and the
    gradient is read as it comes from the consumers, before it is changed.

    Attributes:
        module: The name of the module at whose calls it stands.
        changes: The changes, in the order of the configuration.
        gradient_changes: Those of the gradient, in reverse: the last one put in the path is the
            first to see the gradient.
        is_fresh: True if the value was just made and shares memory with nothing before it.
        leaves_fresh: The same for the changed value.
    """

    def __init__(self, module: str, changes: Iterable[Change], *, is_fresh: bool = False) -> None:
        self.module = module
        self.changes = tuple(changes)
        self.value_changes = tuple(c for c in self.changes if c.site.port in VALUE_PORTS)
        behind = [c for c in self.changes if c.site.port not in VALUE_PORTS]
        self.gradient_changes = tuple(reversed(behind))
        self.is_output = self.changes[0].site.port.startswith("output")
        # The result of a user's function may be shared with anything.
        self.is_fresh = self.leaves_fresh = is_fresh and not self.value_changes
        side = "output" if self.is_output else "input"
        self.place = f"the {side} of {module or 'the model'!r}"
        self.gradient_edits = [
            (c, GradientEdit(self.place, c.function)) for c in self.gradient_changes
        ]
        # torch.fx names a called object in the generated code by these two.
        self.__name__ = f"{module or 'model'}.{side}.edit"
        self.__module__ = "taiyi_fx"

    def __repr__(self) -> str:
        return f"Edited({self.__name__!r}, {len(self.changes)} changes)"

    def __call__(self, value: Any, given: Any = None) -> Any:
        """Changes a value, and installs the changes of its gradients.

        Args:
            value: The value, any structure of tensors.
            given: For an output, the input of its call, if the one may be the other.
        """
        for change in self.value_changes:
            tensor = self._find(value, change)
            made = self._changed(change, tensor)
            value = replace_picked(value, change.site.pick, tensor, made)
        if torch.is_grad_enabled():
            for change, edit in self.gradient_edits:
                tensor = self._find(value, change)
                if tensor.requires_grad:
                    value = self._with_edit(value, tensor, given, edit)
        return value

    def _find(self, value: Any, change: Change) -> Tensor:
        tensor = find_tensor(value, change.site.pick)
        if tensor is None:
            picked = "" if change.site.pick is None else f" at {_shown(change.site.pick)}"
            raise LookupError(
                f"the edit at {self.place} finds no tensor{picked}: the value there is "
                f"{_described(value)}"
            )
        return tensor

    def _changed(self, change: Change, tensor: Tensor) -> Tensor:
        made = _run(change.function, tensor, f"in the edit of the value at {self.place}")
        if not isinstance(made, Tensor):
            raise TypeError(
                f"the edit of the value at {self.place} returned {_described(made)}; it has to "
                "return the tensor to pass on"
            )
        return made

    def _with_edit(self, value: Any, tensor: Tensor, given: Any, edit: GradientEdit) -> Any:
        if torch.compiler.is_compiling():
            return replace_tensor(value, tensor, CompiledEdit.apply(tensor, edit))
        if torch._C._are_functorch_transforms_active():
            return replace_tensor(value, tensor, TransformedEdit.apply(tensor, edit))
        if self._is_apart(value, tensor, given):
            return replace_tensor(value, tensor, EagerEdit.apply(tensor, edit))
        # A Function would separate the tensor from its other names; a hook is also cheaper.
        if self.is_output and not tensor.is_leaf:
            hook_first(tensor, edit)
            return value
        # In-place operations on a view reach all names. A hook on the input itself would see the
        # gradient of its other uses too, and one on a leaf would outlive the step.
        alias = alias_of(tensor)
        hook_first(alias, edit)
        return replace_tensor(value, tensor, alias)

    def _is_apart(self, value: Any, tensor: Tensor, given: Any) -> bool:
        if self.is_output:
            # A view that is changed in place loses its hooks. A hook on an input of the call would
            # see the gradient of its other uses, too.
            is_given = any(tensor is other for other in tensors_in(given))
            is_fresh_view = self.is_fresh and tensor._is_view()
            return (is_given or is_fresh_view) and stands_in(value, tensor)
        return not tensor._is_view()


def is_edit(node: fx.Node) -> bool:
    """True if a node is an edit."""
    return node.op == "call_function" and isinstance(node.target, Edited)


class GradientEdit:
    """A function of a gradient, as a tensor's hook or an autograd Function calls it."""

    def __init__(self, place: str, function: Callable[[Tensor], Tensor]) -> None:
        self.what = f"the edit of the gradient at {place}"
        self.function = function

    def __call__(self, g: Tensor) -> Tensor:
        """The gradient to pass on, made without a graph of its own."""
        return UnderivedEdit.apply(g, self) if torch.is_grad_enabled() else self.changed(g)

    def changed(self, g: Tensor) -> Tensor:
        """The changed gradient.

        Raises:
            TypeError: The function returned something else than a tensor.
            ValueError: Its result differs from the gradient in shape, dtype or device, or it wrote
                into the gradient.
        """
        version = None if torch._C._are_functorch_transforms_active() else g._version
        made = self.checked(g, _run(self.function, g, f"in {self.what}"))
        if version is not None and g._version != version:
            raise ValueError(
                f"{self.what} changed the gradient in place, but others may hold it: return a "
                "new tensor instead"
            )
        return made

    def checked(self, g: Tensor, made: Any) -> Tensor:
        """The function's result, if it can take the gradient's place."""
        if not isinstance(made, Tensor):
            raise TypeError(
                f"{self.what} returned {_described(made)} for {_described(g)}; it has to return "
                "the gradient to pass on"
            )
        if made.shape != g.shape or made.dtype != g.dtype or made.device != g.device:
            raise ValueError(
                f"{self.what} returned {_described(made)} for {_described(g)}; "
                "both need the same shape, dtype and device"
            )
        return made


def hook_first(tensor: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Registers a hook that runs before all other hooks of a tensor.

    A change that comes later in the forward sees the gradient earlier.
    """
    _ = tensor.grad_fn  # otherwise torch 2.13 crashes where a view's base was changed in place
    handle = tensor.register_hook(hook)
    hooks = tensor._backward_hooks
    assert hooks is not None
    for key in [key for key in hooks if key != handle.id]:
        # Not by move_to_end: autograd uses the order of a plain dictionary.
        hooks[key] = hooks.pop(key)
    return handle


def has_edit(tensor: Tensor) -> bool:
    """True if a tensor has a hook that edits its gradient."""
    return any(isinstance(hook, GradientEdit) for hook in (tensor._backward_hooks or {}).values())


def _run(function: Callable[[Tensor], Any], x: Tensor, note: str) -> Any:
    if torch.compiler.is_compiling():
        return function(x)
    try:
        return function(x)
    except Exception as error:
        add_note(error, note)
        raise


def _described(value: Any) -> str:
    if isinstance(value, Call):
        return f"a call with {len(value.args) + len(value.kwargs)} arguments"
    if not isinstance(value, Tensor):
        return "None" if value is None else f"a {type(value).__name__}"
    kind = str(value.dtype).removeprefix("torch.")
    return f"a tensor of shape {tuple(value.shape)}, {kind} on {value.device}"


def _shown(pick: Any) -> str:
    position, name = pick if isinstance(pick, tuple) else (None, pick)
    return repr(name or position)


class EagerEdit(torch.autograd.Function):
    """The identity; its backward changes the gradient.

    It returns ``x.detach()`` for the reasons that a probe's does.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, edit: GradientEdit) -> Tensor:
        """``x``; ``ctx`` is autograd's untyped context."""
        ctx.edit = edit
        ctx.set_materialize_grads(False)
        return x.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        """The changed gradient, where there is one."""
        (g,) = grads
        return (None if g is None else ctx.edit(g)), None


class TransformedEdit(torch.autograd.Function):
    """The same in the slower form that transforms of ``torch.func`` need."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, edit: GradientEdit) -> Tensor:
        """``x``."""
        return x.detach()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, GradientEdit], output: Tensor) -> None:
        """Keeps the edit; ``ctx`` is autograd's untyped context."""
        ctx.edit = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """The changed gradient."""
        return ctx.edit(grads[0]), None


class UnderivedEdit(torch.autograd.Function):
    """A change of a gradient whose own backward raises: it cannot be differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(g: Tensor, edit: GradientEdit) -> Tensor:
        """The changed gradient."""
        return edit.changed(g)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, GradientEdit], output: Tensor) -> None:
        """Keeps the edit; ``ctx`` is autograd's untyped context."""
        ctx.edit = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """Refuses.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(f"{ctx.edit.what} has no derivative: it runs under no_grad")


class CompiledEdit(torch.autograd.Function):
    """The same as `EagerEdit`, in the form that the compiler needs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, edit: GradientEdit) -> Tensor:
        """``x``, as memory of its own."""
        ctx.edit = edit
        return own_copy(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """The changed gradient."""
        with torch.no_grad():
            made = ctx.edit.function(grads[0])
        return ctx.edit.checked(grads[0], made), None


@one_operation
def own_copy(x: Tensor) -> Tensor:
    """A copy of a Function's input for it to return, with memory of its own.

    With ``detach``, AOTAutograd mixes up outputs that share memory: their gradients would go past
    the Function, or be lost.
    """
    if not (_views_keep_strides(x) or _is_expanded(x)):
        return x.new_empty_strided(x.shape, x.stride()).copy_(x)
    return torch.ops.aten._unsafe_view(x, x.shape)


def _views_keep_strides(x: Tensor) -> bool:
    """True if a view of the same shape has the same strides, as the compiler assumes of all.

    Kernels set the strides of axes of size 1 by the axes inside of them, whatever they were before;
    a convolution may infer the memory format from these strides.
    """
    axes = list(zip(x.shape, x.stride(), strict=True))
    return all(
        stride == inner_size * inner_stride
        for (size, stride), (inner_size, inner_stride) in pairwise(axes)
        if _is_known(size == 1)
    )


def _is_expanded(x: Tensor) -> bool:
    """True if elements share memory, so that it cannot be copied into the same strides.

    For such a tensor, the strides of axes of size 1 do not decide the memory format.
    """
    axes = zip(x.shape, x.stride(), strict=True)
    return any(_is_known(stride == 0) and size != 1 for size, stride in axes)


def _is_known(claim: bool | torch.SymBool) -> bool:
    """True if a claim on sizes holds for all that the compiler left open."""
    if isinstance(claim, bool):
        return claim
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # imports sympy

    return statically_known_true(claim)
