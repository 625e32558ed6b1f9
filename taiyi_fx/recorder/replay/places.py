"""The place in a program that an operation comes from: file, line, module and phase."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

import torch
from torch import nn
from torch.optim import Optimizer

Phase = Literal["forward", "backward", "optimizer"]

_ENGINE = "_engine_run_backward"
"""The function of torch that calls autograd's engine: what is below it did not compute anything."""

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_PYTHON = {
    os.path.abspath(path) + os.sep
    for path in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
}
_PACKAGES = tuple(
    os.path.abspath(sysconfig.get_path(kind)) + os.sep for kind in ("purelib", "platlib")
)
_GENERATED = ("<frozen ", "<string>", "<eval_with_key>")


@dataclass(frozen=True)
class Place:
    """The place of an operation.

    Attributes:
        file: The file of the innermost line that is not torch's, Python's or this package's; of
            torch's module or optimizer, where there is no other. Empty if no Python led to it.
        line: The line.
        function: The name of the function.
        module: The innermost module under way, ``""`` for the model itself.
        phase: The phase of the step.
        stack: All such lines, ``file:line in function``, outermost first.
        is_outside: True if no module of the model was under way.
    """

    file: str
    line: int
    function: str
    module: str
    phase: Phase
    stack: tuple[str, ...] = ()
    is_outside: bool = False


def place_of(frame: FrameType | None, names: Mapping[int, str]) -> Place:
    """The place that a frame is at.

    Args:
        frame: The frame of the operation.
        names: The names of the model's modules, by the identity of their ``__dict__``.
    """
    frames = [*_frames(frame)]
    own = [f for f in frames if not _is_machinery(f.f_code.co_filename)]
    shown = own or [f for f in frames if _is_torchs_own(f)][:1]
    module, phase = _module(frames, names), _phase(frames)
    if not shown:
        return Place("", 0, "", module or "", phase, is_outside=module is None)
    first = shown[0]
    file, line = first.f_code.co_filename, first.f_lineno
    stack = tuple(f"{f.f_code.co_filename}:{f.f_lineno} in {_name(f)}" for f in reversed(shown))
    return Place(file, line, _name(first), module or "", phase, stack, module is None)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames from an operation outwards, up to a backward's call or the replay's own."""
    while frame is not None and frame.f_code.co_name not in (_ENGINE, "run_replayed"):
        yield frame
        frame = frame.f_back


def _name(frame: FrameType) -> str:
    return getattr(frame.f_code, "co_qualname", frame.f_code.co_name)


def _module(frames: list[FrameType], names: Mapping[int, str]) -> str | None:
    for frame in frames:
        if isinstance(held := _self(frame), nn.Module) and id(vars(held)) in names:
            return names[id(vars(held))]
    return None


def _phase(frames: list[FrameType]) -> Phase:
    if torch._C._current_graph_task_id() != -1:
        return "backward"
    is_step = any(isinstance(_self(f), Optimizer) for f in frames)
    return "optimizer" if is_step else "forward"


def _self(frame: FrameType) -> Any:
    return frame.f_locals.get("self") if "self" in frame.f_code.co_varnames else None


def _is_machinery(file: str) -> bool:
    if file.startswith((_OURS, _TORCH, *_GENERATED)):
        return True
    return not file.startswith(_PACKAGES) and any(map(file.startswith, _PYTHON))


_OWN = tuple(_TORCH + os.path.join(*path) + os.sep for path in (("nn", "modules"), ("optim",)))


def _is_torchs_own(frame: FrameType) -> bool:
    """True for a line of a module or an optimizer of torch."""
    names = ("_call_impl", "_wrapped_call_impl", "maybe_fallback", "wrapper", "_use_grad")
    return frame.f_code.co_filename.startswith(_OWN) and frame.f_code.co_name not in names
