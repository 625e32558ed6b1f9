"""The whole state of a model: saved, compared with the present one, and restored."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from taiyi_fx.passes.module_tree import named_modules
from taiyi_fx.snapshot.bitwise import SCALARS, difference, kept, leaves
from taiyi_fx.snapshot.held import Access, Entries, Opaque, accesses

_DEEPEST = 5
"""The largest depth of nested plain objects that is followed; containers do not count."""

_REGISTERED = ("_parameters", "_buffers")
_TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_PROBED = "forward"
"""The one entry that instrumenting may add to a module."""


# A deep copy would be simpler, and wrong: it breaks what objects share with the outside (an
# optimizer that a hook steps, a cache that two models have), and fails for locks, files and
# generators. So the snapshot keeps each object as itself, with a shallow copy of its entries;
# restoring writes entries back into the same object. Tensors alone are copied by content, and
# written back only if they changed, so that version counters stay, and a graph under way still
# finds its saved tensors. The identity of a module is that of its ``__dict__``: an instrumented
# model shares it with the plain one, and one snapshot serves both.


class State:
    """A snapshot of all that a model holds.

    That is: the contents of all tensors, their gradients, and of modules and of the Python objects
    in their attributes what they hold, down to hooks and what these close over. Nothing is
    deep-copied: an object is kept as itself, with a shallow copy of what it held.

    The content of classes and of Python modules is not part of it, nor are iterators.

    Args:
        model: The model.
        known: A state of the same tensors, taken before: their contents are not copied again.
    """

    def __init__(self, model: nn.Module, known: State | None = None) -> None:
        self._names = {_id(m): repr(n) if n else "the model" for n, m in named_modules(model)}
        self._known = {} if known is None else known._tensors
        self._tensors: dict[int, _Content] = {}
        self._held: list[_Held] = []
        self._seen: dict[int, Any] = {}
        self._gather(model)

    def changes(self) -> dict[str, Any]:
        """The new values of changed attributes, by path; parameters and buffers excepted."""
        found: dict[str, Any] = {}
        for held in self._held:
            if held.is_reported and not _are_same(now := held.access.read(held.holder), held.saved):
                found.update(self._changed_entries(held, now))
        for content in self._tensors.values():
            if content.path and content.has_changed():
                found.update(kept([(content.path, content.tensor)]))
        return found

    def gradients(self) -> Iterator[tuple[str, Tensor | None]]:
        """The gradients of tensors that are not parameters, by path."""
        for content in self._tensors.values():
            if content.path and content.requires_grad and content.is_leaf:
                yield f"gradient of {content.path}", content.tensor.grad

    def clear_gradients(self) -> None:
        """Sets all gradients to None."""
        for content in self._tensors.values():
            if content.is_leaf:
                content.tensor.grad = None

    def restore(self, *, but_forwards: bool = False) -> None:
        """Restores everything, in place; only things that have changed are written.

        Args:
            but_forwards: Leave the overrides of modules' forwards.
        """
        for held in self._held:
            held.restore(but_forwards)
        for content in self._tensors.values():
            content.restore()

    def _gather(self, model: nn.Module) -> None:
        # A stack of its own: models may be nested deeper than Python's allows.
        waiting: list[_Found] = [_Found(model, "the model", 0)]
        while waiting:
            found = waiting.pop()
            if isinstance(found.value, SCALARS) or _id(found.value) in self._seen:
                continue
            self._seen[_id(found.value)] = found.value  # so that its id stays its own
            waiting += reversed(list(self._parts(found)))

    def _parts(self, found: _Found) -> Iterator[_Found]:
        value = found.value
        if isinstance(value, Tensor):
            yield from self._of_tensor(found)
            return
        name = self._names.get(_id(value), found.path) if isinstance(value, nn.Module) else ""
        for access in accesses(value) if found.depth < _DEEPEST else ():
            depth = 0 if name else found.depth + (access.step == ".{}")
            held = _Held(value, access, access.read(value), found.path, name, found.is_reported)
            self._held.append(held)
            for i, (key, part) in enumerate(held.saved.items()):
                is_reported = found.is_reported and not (name and key in _REGISTERED)
                yield _Found(part, held.path_of(key, i), depth, is_reported)

    def _of_tensor(self, found: _Found) -> Iterator[_Found]:
        tensor = found.value
        path = found.path if found.is_reported else ""
        before = self._known.get(id(tensor))
        content = tensor.detach().clone() if before is None else before.content
        is_leaf = tensor.is_leaf and (tensor.is_floating_point() or tensor.is_complex())
        grad = tensor.grad if is_leaf else None
        self._tensors[id(tensor)] = _Content(
            tensor, content, path, is_leaf, grad, tensor.requires_grad
        )
        for name in _TENSOR_HOOKS:
            hooks = getattr(tensor, name, None)
            yield _Found(hooks, f"the hooks of {found.path}", found.depth, is_reported=False)

    def _changed_entries(self, held: _Held, now: Entries) -> dict[str, Any]:
        found: dict[str, Any] = {}
        keys = [*held.saved, *(key for key in now if key not in held.saved)]
        for i, key in enumerate(keys):
            if held.module and key == _PROBED:
                continue
            path = held.path_of(key, i)
            if key not in now:
                found[path] = "(deleted)"
            elif key not in held.saved or not self._is_same(held.saved[key], now[key]):
                found.update(_reported(now[key], path))
        return found

    def _is_same(self, before: Any, now: Any) -> bool:
        if isinstance(before, (*SCALARS, Opaque, Tensor)) and type(before) is type(now):
            content = self._tensors.get(id(before))
            return not difference(before if content is None else content.content, now)
        return before is now


def _id(value: Any) -> int:
    """The identity of an object; an instrumented model shares that of the plain one."""
    return id(vars(value)) if isinstance(value, nn.Module) else id(value)


def _reported(value: Any, path: str) -> dict[str, Any]:
    if isinstance(value, Opaque):
        return {path: pickle.dumps(value.value)}
    return kept(leaves(value, path))


@dataclass(frozen=True)
class _Found:
    value: Any
    path: str
    depth: int
    is_reported: bool = True


@dataclass(frozen=True)
class _Held:
    """An object, with its saved content."""

    holder: Any
    access: Access
    saved: Entries
    path: str
    module: str
    is_reported: bool

    def path_of(self, key: Any, i: int) -> str:
        """The path to an entry, the ``i``-th there is."""
        if self.module:
            return f"attribute {key!r} of {self.module}"
        is_name = self.access.step == ".{}"
        shown = key if is_name else repr(key) if isinstance(key, SCALARS) else f"key {i}"
        return self.path + self.access.step.format(shown)

    def restore(self, but_forwards: bool) -> None:
        """Restores its content, if that has changed."""
        now, saved = self.access.read(self.holder), self.saved
        if self.module and but_forwards:
            saved = {key: value for key, value in saved.items() if key != _PROBED}
            saved.update((key, now[key]) for key in [_PROBED] if key in now)
        if not _are_same(now, saved):
            self.access.write(self.holder, saved)


@dataclass(frozen=True)
class _Content:
    """A tensor, with its saved elements."""

    tensor: Tensor
    content: Tensor
    path: str
    is_leaf: bool
    grad: Tensor | None
    requires_grad: bool

    def has_changed(self) -> bool:
        return bool(difference(self.content, self.tensor))

    def restore(self) -> None:
        with torch.inference_mode(self.tensor.is_inference()):
            if self.has_changed():
                self._write()
            if self.is_leaf:
                if self.tensor.requires_grad != self.requires_grad:
                    self.tensor.requires_grad_(self.requires_grad)
                self.tensor.grad = self.grad

    def _write(self) -> None:
        # As data: what holds the tensor for a backward to come finds in it what it left there.
        data = self.tensor.data
        if (data.shape, data.dtype) == (self.content.shape, self.content.dtype):
            data.copy_(self.content)
        else:
            self.tensor.data = self.content.clone()


def _are_same(a: Entries, b: Entries) -> bool:
    """True if two objects hold the very same things, in the same order."""
    if len(a) != len(b):
        return False
    pairs = zip(a.items(), b.items(), strict=True)
    return all(_is_same_key(k, j) and (v is w or _is_state(v, w)) for (k, v), (j, w) in pairs)


def _is_same_key(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, SCALARS) and type(a) is type(b) and a == b)


def _is_state(a: Any, b: Any) -> bool:
    return isinstance(a, Opaque) and a == b
