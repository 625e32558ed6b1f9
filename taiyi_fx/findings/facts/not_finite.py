"""Modules whose parameters or buffers are not finite now, as the model itself tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class NotFinite(NamedTuple):
    """The modules of which something is NaN or Inf at a moment.

    Attributes:
        parameters: Those with a parameter that is.
        buffers: Those with a buffer that is, as the running statistics of a BatchNorm.
        finite_buffers: Those whose buffers are all finite.
    """

    parameters: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    finite_buffers: tuple[str, ...] = ()


class MadeBy(NamedTuple):
    """The operation that made a NaN or Inf, as the step showed that was run again.

    Attributes:
        operation: Its name.
        module: The module that it belongs to; empty for the model's own forward.
        phase: ``"forward"``, ``"backward"`` or ``"optimizer"``.
        place: The file and the line that called it.
    """

    operation: str
    module: str
    phase: str
    place: str


def not_finite_of(modules: Mapping[str, Any]) -> NotFinite:
    """The modules with a parameter, or a buffer, of their own that is not finite.

    Waits for the device, and takes as long as reading all of them once.

    Args:
        modules: The modules by name. A run is read without torch, hence `Any`.
    """
    parameters = {name: [*_of_numbers(m._parameters)] for name, m in modules.items()}
    buffers = {name: [*_of_numbers(m._buffers)] for name, m in modules.items()}
    odd = tuple(name for name, own in buffers.items() if not all(map(_is_finite, own)))
    return NotFinite(
        tuple(name for name, own in parameters.items() if not all(map(_is_finite, own))),
        odd,
        tuple(name for name, own in buffers.items() if own and name not in odd),
    )


def _of_numbers(tensors: Mapping[str, Any]) -> Iterator[Any]:
    """Those that lie whole on a device, of numbers with a point: no others can be infinite."""
    for tensor in tensors.values():
        is_plain = type(tensor).__name__ in ("Parameter", "Tensor") and tensor.numel() > 0
        if is_plain and tensor.is_floating_point() and tensor.device.type != "meta":
            yield tensor.detach()


def _is_finite(tensor: Any) -> bool:
    # A NaN is the least and the largest; a mask of all elements would take memory.
    least, largest = (float(end) for end in tensor.aminmax())
    return least - least == 0 and largest - largest == 0
