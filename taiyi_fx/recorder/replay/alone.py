"""A rank that runs a step again alone: other ranks do not, and would not answer it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from taiyi_fx.passes.module_tree import modules_of, named_buffers

_COLLECTIVES = frozenset(
    ("c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional")
)
"""The libraries whose operations wait for other ranks."""


class MeetsOthers(BaseException):
    """A step that is run again would wait for other ranks here; the message names the operation.

    No Exception, as a model or a function may catch those, and wait all the same.
    """


def are_several_ranks() -> bool:
    """True if gradients come from other ranks as well, of which a replay knows nothing."""
    return dist.is_initialized() and dist.get_world_size() > 1


def alone() -> AbstractContextManager[Any]:
    """In the body, an operation that waits for other ranks raises `MeetsOthers` instead."""
    return _Alone() if are_several_ranks() else nullcontext()


class _Alone(TorchDispatchMode):
    def __torch_dispatch__(
        self,
        func: Any,  # torch's own untyped protocol
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        library, _, name = func._schema.name.partition("::")
        if library in _COLLECTIVES:
            raise MeetsOthers(name.rstrip("_"))
        return func(*args, **(kwargs or {}))


def wrapper_under_way() -> DistributedDataParallel | None:
    """The wrapper for ranks that a call of the model is within."""
    return DistributedDataParallel._active_ddp_module


def sent_buffers(wrapper: DistributedDataParallel, model: nn.Module) -> dict[str, Tensor]:
    """Copies of the buffers that a wrapper keeps equal on all ranks, by their names in a model."""
    if not (wrapper.modules_buffers and _is_of(wrapper, model)):
        return {}
    sent = {id(x) for x in wrapper.modules_buffers}
    return {name: x.detach().clone() for name, x in named_buffers(model) if id(x) in sent}


@contextmanager
def without_wrapper(wrapper: DistributedDataParallel | None, model: nn.Module) -> Iterator[None]:
    """In the body, the wrapper of a model calls it, and prepares no exchange between ranks.

    Otherwise it would send buffers to ranks that do not wait for them, and count on gradients that
    the model's own parameters do not get in a replay.
    """
    if wrapper is None or not _is_of(wrapper, model):
        yield
        return

    def forward(*args: Any, **kwargs: Any) -> Any:
        if wrapper.device_ids:
            given = wrapper.to_kwargs(args, kwargs, wrapper.device_ids[0])
            args, kwargs = given[0][0], given[1][0]
        return wrapper.module(*args, **kwargs)

    held = vars(wrapper)
    before = {"forward": held["forward"]} if "forward" in held else {}
    held["forward"] = forward
    try:
        yield
    finally:
        del held["forward"]
        held.update(before)


def _is_of(wrapper: DistributedDataParallel, model: nn.Module) -> bool:
    return any(vars(part) is vars(model) for part in modules_of(wrapper.module))
