"""Memory for checkpoints: on the host or in a file, allocated once and used in turn."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

_PIECE = 2**20


class CheckpointMemory:
    """Makes room for the tensors of one checkpoint after the other.

    Args:
        folder: A folder for files that hold the tensors, or None for memory.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._free: list[Mapping[str, Tensor]] = []
        self._used: Mapping[str, Tensor] = {}

    def give_back(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes the memory of a checkpoint that nobody needs any more."""
        self._free.append(tensors)

    def begin(self) -> None:
        """Begins a checkpoint."""
        self._used = self._free.pop() if self._free else {}

    def allocate(self, name: str, like: Tensor) -> Tensor:
        """Memory on the host for a tensor.

        Raises:
            OSError: The folder has no room.
        """
        held = self._used.get(name)
        if held is not None and (held.shape, held.dtype) == (like.shape, like.dtype):
            return held
        if self._folder is None or not like.numel():
            return torch.empty(like.shape, dtype=like.dtype, device="cpu")
        return _in_file(self._folder, like)


def _in_file(folder: Path, like: Tensor) -> Tensor:
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".checkpoint-", dir=folder)
    try:
        _reserve(descriptor, like.nbytes)
    except OSError:
        os.unlink(name)
        raise
    finally:
        os.close(descriptor)
    found = torch.from_file(name, shared=True, size=like.numel(), dtype=like.dtype)
    # The mapping stays where the name is gone, and with it nothing is left behind by a crash.
    if os.name == "posix":
        os.unlink(name)
    else:
        weakref.finalize(found.untyped_storage(), _remove, name)
    return found.reshape(like.shape)


def _reserve(descriptor: int, size: int) -> None:
    """Takes the room of a file on the disk.

    A mapped file without it ends the process by SIGBUS, as its first page is written and the disk
    is full.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
        return
    with open(descriptor, "wb", closefd=False) as file:
        for at in range(0, size, _PIECE):
            file.write(bytes(min(_PIECE, size - at)))


def _remove(name: str) -> None:
    Path(name).unlink(missing_ok=True)
