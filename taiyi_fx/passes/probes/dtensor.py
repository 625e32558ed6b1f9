"""Tensors that several ranks hold together (DTensor): the part that each rank reduces."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch import distributed as dist
from torch.nn import Parameter
from torch.utils._python_dispatch import _disable_current_modes

from taiyi_fx.passes.ir import Foldable, capabilities
from taiyi_fx.passes.module_tree import modules_of, named_parameters, parameters_of


def is_spread(x: Tensor) -> bool:
    """True if a tensor is one of torch.distributed.tensor, held by the ranks of a mesh."""
    if type(x) is Tensor or type(x) is Parameter:
        return False
    module = sys.modules.get("torch.distributed.tensor")  # not imported: no such tensor exists
    return module is not None and isinstance(x, module.DTensor)


def of_parameters(
    tensors: list[Tensor], reduction: Foldable, members: Sequence[int] | None
) -> list[Tensor]:
    """The tensors that this rank has to reduce, of some that several ranks hold together.

    Where the reduction allows it, that is the part that it holds, if no joined rank before it holds
    the same; otherwise the whole, made by a collective, on the first of the ranks.

    Args:
        tensors: Parameters or their gradients, detached.
        reduction: Reduces them.
        members: The ranks whose results are joined; None if this one's is not.

    Raises:
        RuntimeError: A part is held by a rank that is not joined.
    """
    return [x for x in each_of_parameters(tensors, reduction, members) if x is not None]


def each_of_parameters(
    tensors: Sequence[Tensor], reduction: Foldable, members: Sequence[int] | None
) -> Sequence[Tensor | None]:
    """The same of each tensor, in order; None where this rank has nothing to reduce."""
    if not any(map(is_spread, tensors)):
        return tensors
    if members is None:
        return [whole(x) if is_spread(x) else x for x in tensors]
    return [_held(x, capabilities(reduction).is_over_elements, members) for x in tensors]


def at_call(x: Tensor, reduction: Foldable, *, is_joined: bool) -> Tensor | None:
    """The part of a tensor at a call that this rank has to reduce; None if others have the same.

    Args:
        x: A tensor that ranks hold in parts.
        reduction: Reduces it.
        is_joined: True if the results of the ranks are joined.
    """
    if not _takes_whole(x, reduction, is_joined=is_joined):
        return _local(x) if _is_first(x) else None
    counts = not is_joined or _is_first(x, every_dimension=True)
    return whole(x) if counts else _after(whole(x))


def stand_in(x: Tensor, reduction: Foldable, *, is_joined: bool) -> Tensor:
    """A tensor with the shape of the part that ranks reduce, made without a collective."""
    local = _local(x)
    is_whole = _takes_whole(x, reduction, is_joined=is_joined)
    return local.new_empty(x.shape) if is_whole else local


def tensor_parallel(model: nn.Module) -> str | None:
    """The name of a parameter that ranks with one batch hold in parts; None if there is none.

    ``fully_shard`` splits parameters over ranks that have batches of their own.
    """
    sharded = [part for part in modules_of(model) if _is_fully_sharded(part)]
    of_fsdp = {p for part in sharded for p in parameters_of(part)}
    for name, parameter in named_parameters(model):
        if is_spread(parameter) and _parted(parameter) > (parameter in of_fsdp):
            return name
    return None


def _is_fully_sharded(module: nn.Module) -> bool:
    # By torch's note in the module: its class changes on the instrumented object alone.
    contract = sys.modules.get("torch.distributed._composable.contract")
    return contract is not None and "fully_shard" in (contract._get_registry(module) or ())


def _parted(x: Tensor) -> int:
    """The number of mesh dimensions that a tensor is sharded over."""
    sizes = _spread(x).device_mesh.shape
    pairs = zip(sizes, _placements(x), strict=True)
    return sum(size > 1 and not (p.is_replicate() or p.is_partial()) for size, p in pairs)


def ranks_of(x: Tensor) -> tuple[int, ...]:
    """The ranks that hold a tensor together."""
    with _disable_current_modes():  # while compiling, the mesh is a tensor like any other
        return tuple(_spread(x).device_mesh.mesh.flatten().tolist())


def whole(x: Tensor) -> Tensor:
    """All of a tensor that ranks hold in parts, by a collective of the ranks of its mesh."""
    return _plain(_spread(x).full_tensor())


def _held(x: Tensor, parts: bool, members: Sequence[int]) -> Tensor | None:
    is_first = dist.get_rank() == members[0]
    if not is_spread(x):
        return x if is_first else None
    ranks = ranks_of(x)
    if members[0] not in ranks:  # a copy, as with data parallel groups of tensor parallel ranks
        return None
    if not parts or _is_partial(x):
        return whole(x) if is_first else _after(whole(x))
    strangers = sorted(set(ranks).difference(members))
    if strangers:
        raise RuntimeError(f"the ranks {strangers} hold parts of it and are not joined")
    return _local(x) if _is_first(x) else None


def _after(_: Tensor) -> None:
    """Discards the result: this rank only takes part in the collective."""


def _takes_whole(x: Tensor, reduction: Foldable, *, is_joined: bool) -> bool:
    return not is_joined or _is_partial(x) or not _may_be_parts(x, reduction)


def _may_be_parts(x: Tensor, reduction: Foldable) -> bool:
    """True if a reduction may treat the parts of a tensor at a call as rows of it."""
    can = capabilities(reduction)
    if can.is_over_elements:
        return True
    if x.ndim < 2 or can.takes_whole:
        return False
    sharded = {placement.dim % x.ndim for placement in _placements(x) if placement.is_shard()}
    axis = can.feature_axis
    if axis is None:
        return sharded <= {0}  # of samples
    return isinstance(axis, int) and axis % x.ndim not in sharded


def _is_partial(x: Tensor) -> bool:
    return any(placement.is_partial() for placement in _placements(x))


def _is_first(x: Tensor, *, every_dimension: bool = False) -> bool:
    """True if no rank before this one holds the same."""
    coordinate = _spread(x).device_mesh.get_coordinate()
    return coordinate is not None and all(
        at == 0
        for at, placement in zip(coordinate, _placements(x), strict=True)
        if every_dimension or placement.is_replicate()
    )


def _local(x: Tensor) -> Tensor:
    return _plain(_spread(x).to_local())


def _plain(x: Any) -> Tensor:
    # Waits for a collective that is still running.
    return x.wait() if hasattr(x, "wait") else x


def _placements(x: Tensor) -> Sequence[Any]:
    return _spread(x).placements


def _spread(x: Tensor) -> Any:  # DTensor: importing it for its type would take seconds
    return x
