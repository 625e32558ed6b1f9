"""A batch, copied for each run of the model, and a loss of any output."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from taiyi_fx.snapshot.bitwise import kept, leaves

Loss = Callable[[Any], Tensor]


@dataclass(frozen=True)
class Batch:
    """The arguments of a forward.

    Attributes:
        args: Those by position.
        kwargs: Those by name.
        leaves: The tensors that get the gradients of those that others were made of, by path.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: Mapping[str, Tensor] = field(default_factory=dict)

    def fresh(self) -> Batch:
        """A copy that a run may change, with strides and shared memory as in the original.

        Raises:
            TypeError: Something in it cannot be copied.
        """
        made_of_others = {path: x for path, x in self.tensors() if not x.is_leaf}
        new = {path: x.detach().clone().requires_grad_() for path, x in made_of_others.items()}
        with torch.enable_grad():  # leaves themselves may not be changed in place
            memo = {id(x): new[path].clone() for path, x in made_of_others.items()}
        try:
            args, kwargs = copy.deepcopy((self.args, self.kwargs), memo)
        except Exception as error:
            raise TypeError(
                "verify runs the model several times, each on a copy of the batch, but copying it "
                f"raised {type(error).__name__}: {error}"
            ) from error
        made = Batch(args, kwargs, new)
        for _, tensor in made.tensors():
            if tensor.is_leaf:
                tensor.grad = None
        return made

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors among its arguments, by path."""
        found = (*leaves(self.args, "input"), *leaves(self.kwargs, "input"))
        return ((path, leaf) for path, leaf in found if isinstance(leaf, Tensor))

    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for calling the model."""
        return self.args, self.kwargs

    def left(self) -> dict[str, Any]:
        """The batch after a run, which may have changed it, with its gradients."""
        tensors = dict(self.tensors())
        found = {path: x for path, x in tensors.items() if x.is_leaf and x.requires_grad}
        gradients = {f"gradient of {path}": x.grad for path, x in {**found, **self.leaves}.items()}
        return kept((f"{path} itself", x) for path, x in tensors.items()) | kept(gradients.items())


def loss_of(output: Any, function: Loss | None) -> Tensor | None:
    """A scalar of an output; None if nothing in it takes a gradient.

    Raises:
        TypeError: The function of the user's returned something other than a tensor of one element.
    """
    if function is not None:
        found = function(output)
        if not isinstance(found, Tensor) or found.numel() != 1:
            shape = (
                f"a tensor of shape {tuple(found.shape)}" if isinstance(found, Tensor) else found
            )
            raise TypeError(f"loss takes the model's output and returns a scalar, not {shape!r}")
        return found if found.requires_grad else None
    own = getattr(output, "loss", None)
    if isinstance(own, Tensor) and own.numel() == 1 and own.requires_grad:
        return own
    return _weighted_sum(output)


def _weighted_sum(output: Any) -> Tensor | None:
    """A sum over all elements of all outputs, each with a weight of its own."""
    tensors = [leaf for _, leaf in leaves(output) if isinstance(leaf, Tensor)]
    flat = [_flat(tensor) for tensor in tensors if tensor.requires_grad]
    if not flat:
        return None
    sums = [_weighted(i, x).to(flat[0].device) for i, x in enumerate(flat)]
    return torch.stack([x.to(sums[0].dtype) for x in sums]).sum()


def _flat(x: Tensor) -> Tensor:
    if x.is_nested:
        return torch.cat([part.reshape(-1) for part in x.unbind()])
    x = x.to_dense()
    return (torch.view_as_real(x) if x.is_complex() else x).reshape(-1)


def _weighted(i: int, x: Tensor) -> Tensor:
    # Cosines, as random numbers would be another draw. Half precision is summed in float32.
    x = x.float() if x.element_size() < 4 else x
    weights = torch.cos(torch.arange(x.numel(), dtype=x.dtype, device=x.device) + i)
    # Masked places hold infinities, which would leave nothing but NaN.
    return (x.nan_to_num(0.0, 0.0, 0.0) * weights).sum()
