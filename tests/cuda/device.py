"""A device under test: streams, graphs and waits of a GPU, and on a CPU what does without."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import nn


class Device:
    """A device, by the name of its kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.is_cuda = kind == "cuda"

    def move(self, x: nn.Module) -> nn.Module:
        return x.to(self.kind)

    def randn(self, *shape: int) -> torch.Tensor:
        """The same numbers on every device."""
        return torch.randn(*shape).to(self.kind)

    @contextlib.contextmanager
    def side_stream(self) -> Iterator[None]:
        """Another stream, which begins when the current one is done, and which it then waits for."""
        if not self.is_cuda:
            yield
            return
        outer, inner = torch.cuda.current_stream(), torch.cuda.Stream()
        inner.wait_stream(outer)
        with torch.cuda.stream(inner):
            yield
        outer.wait_stream(inner)

    @contextlib.contextmanager
    def no_waiting(self) -> Iterator[None]:
        """Where the host would wait for the device, an error is raised."""
        if not self.is_cuda:
            yield
            return
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def captured(self, run: Callable[[], None]) -> Callable[[], None]:
        """What replays a call's kernels on the same memory, without its Python."""
        if not self.is_cuda:
            return run
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return graph.replay
