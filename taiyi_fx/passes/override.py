"""A forward in a module's ``__dict__`` that overrides the one of its class while it is read."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch import fx, nn

from taiyi_fx.passes.module_tree import modules_of

_CALL = nn.Module._call_impl.__code__
_CALLS = {
    _CALL,
    *(code for code in _CALL.co_consts if isinstance(code, CodeType)),
    nn.Module._slow_forward.__code__,  # while torch.jit traces
}
"""Code that looks up the forward of a module that is called, and runs it."""
_OF_METHODS = frozenset(
    "__closure__ __defaults__ __func__ __globals__ __kwdefaults__ __name__ "
    "__qualname__ __self__".split()
)
_OF_CLASSES = "__annotations__", "__doc__", "__module__"
"""Attributes that a class of ours has too: only an entry of its own hides these in an object."""


class ForwardOverride:
    """A module's forward while it is read: an entry ``forward`` in its ``__dict__``.

    The model's own forward is looked up at each call, never kept, so that another class of the
    module, or a patched one, takes effect at once. A copy or a pickle of a module that has one gets
    the module's own forward.

    Attributes:
        module: The module.
        below: The entry that it covers, the user's or another override, or None.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._around: Callable[..., Any] | None = None
        self._copies: weakref.WeakSet[nn.Module] | None = None
        self._held_by = _base_with_forward(type(module)) if _is_opaque(type(module)) else None
        self._kind = type(self)
        self._kinds: dict[str, type[ForwardOverride]] = {}
        self._cover(None)

    def original_forward(self) -> Callable[..., Any]:
        """The forward that would run without this one at this moment.

        It is returned, not called, so that it takes no frame of Python's stack.
        """
        if self.below is not None:
            return self.below
        if torch.compiler.is_compiling():  # which cannot look into what classes hold
            kind, at = type(self.module), self._held_by
            forward = kind.forward if at is None else kind.__mro__[at].__dict__["forward"]
            return functools.partial(forward, self.module)
        return forward_of_class(self.module)

    def is_read_by_another(self, reader: Any) -> bool:
        """True if it reads, at this moment, for another instrumented object over the module."""
        return False

    def copy_called(self) -> nn.Module | None:
        """The shallow copy of the module that torch is calling, if it is one; else None.

        Such copies, as `torch.nn.DataParallel` makes of a part for each device, have this entry.
        Called by `__call__` alone, and not while the compiler traces.
        """
        frame = sys._getframe(2)
        if frame.f_code not in _CALLS:
            return None
        called: nn.Module = frame.f_locals["self"]
        if called is self.module or entry_of(self.module) is not None:
            return None
        # One that was given this forward alone has dictionaries of its own. Those of parameters,
        # parts and hooks of calls are what a copy is made to change.
        is_copy = called._state_dict_hooks is self.module._state_dict_hooks
        return called if is_copy else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the original forward; a subclass runs what it puts in its place."""
        return self.original_forward()(*args, **kwargs)

    def put(self) -> None:
        """Puts it over the present entry, unless that is or wraps this one and so calls it."""
        below = vars(self.module).get("forward")
        if self._is_called_by(below):
            return
        if self._around is None or entry_of(self.module) is not self._around:
            self._around = None
            self._cover(below)
            vars(self.module)["forward"] = self

    def _cover(self, below: Callable[..., Any] | None) -> None:
        """Puts it over an entry, or over the forward of the module's class."""
        self.below = below
        shown = _held_by_class(self.module) if below is None else below
        for name in _OF_CLASSES:
            vars(self)[name] = shown_by(shown, name)

    def _is_called_by(self, entry: Any) -> bool:
        """True if an entry is this one, or leads to it: a forward may have kept it for later."""
        while entry is not None and entry is not self:
            is_ours = isinstance(entry, ForwardOverride)
            entry = entry.below if is_ours else shown_by(entry, "__wrapped__")
        return entry is self

    def take_off(self) -> None:
        """Restores the entry that it covers; a wrapper put around it meanwhile stays, and runs."""
        attributes, above = vars(self.module), None
        found = attributes.get("forward")
        while isinstance(found, ForwardOverride) and found is not self:
            above, found = found, found.below
        if found is not self:
            self._around = found
        else:
            self._around = None
            if above is not None:
                above._cover(self.below)
            elif self.below is None:
                del attributes["forward"]
            else:
                attributes["forward"] = self.below
        if self._around is None and self.below is not None:
            self._cover(None)
        if self._copies is not None:
            for copied in self._copies:
                _drop_copy(copied)
            self._copies = None

    @property
    def __signature__(self) -> inspect.Signature:
        shown = forward_of_class(self.module) if self.below is None else self.below
        return inspect.signature(shown)

    @property
    def __code__(self) -> CodeType:
        # Models ask it for the names of arguments; torch.compile marks that of a graph module's
        # forward, and then looks for the mark on the code that runs.
        is_marked = isinstance(self.module, fx.GraphModule)
        return type(self).__call__.__code__ if is_marked else self._shown().__code__

    def __getattr__(self, name: str) -> Any:
        """An attribute of the method in whose place this stands."""
        if name.startswith("_") and name not in _OF_METHODS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._shown(), name)

    def _shown(self) -> Any:
        if self.below is None and torch.compiler.is_compiling():
            return type(self.module).forward
        return forward_of_class(self.module) if self.below is None else self.below

    def take_own_code(self, key: str) -> None:
        """Gives this one, for a set of due readings, a class with a code object of its own."""
        if key not in self._kinds:
            call = with_own_code(self._kind.__call__, type(self.module))
            own = {"__call__": call, "__module__": self._kind.__module__}
            self._kinds[key] = type(self._kind.__name__, (self._kind,), own)
        self.__class__ = self._kinds[key]  # pyright: ignore[reportAttributeAccessIssue] - of its kind

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., Any]:
        if self.below is not None:
            return copy.deepcopy(self.below, memo)
        copied = copy.deepcopy(self.module, memo)
        self._copies = self._copies or weakref.WeakSet()
        self._copies.add(copied)
        return forward_of_class(copied)

    def __reduce__(self) -> Any:  # pickle's own untyped protocol
        return getattr, (self.module, "forward")


def put_all(overrides: Iterable[ForwardOverride]) -> None:
    """Puts many overrides, nearly all of which cover no entry."""
    for override in overrides:
        attributes = vars(override.module)
        if "forward" in attributes or override._around is not None:
            override.put()
        else:
            attributes["forward"] = override


def take_off_all(overrides: Iterable[ForwardOverride]) -> None:
    """Restores the entries that many overrides cover, nearly all of which cover none."""
    for override in overrides:
        attributes = vars(override.module)
        is_alone = override.below is None and override._copies is None
        if is_alone and attributes.get("forward") is override:
            del attributes["forward"]
        else:
            override.take_off()


def forward_of_class(module: nn.Module) -> Callable[..., Any]:
    """The forward of a module's class, bound to the module."""
    kind = type(module)
    held = _held_by_class(module)
    return held.__get__(module, kind) if hasattr(type(held), "__get__") else held


def _held_by_class(module: nn.Module) -> Any:
    return next(vars(c)["forward"] for c in type(module).__mro__ if "forward" in vars(c))


def _base_with_forward(kind: type[nn.Module]) -> int:
    return next(i for i, base in enumerate(kind.__mro__) if "forward" in vars(base))


def _is_opaque(kind: type[nn.Module]) -> bool:
    """True if the compiler takes calls of the class for one operation: `allow_in_graph` names it.

    It asks such a class for no attribute, and looks into the dictionaries of its bases only.
    """
    rules = sys.modules.get("torch._dynamo.trace_rules")  # who names a class imports it
    return rules is not None and rules.is_callable_allowed(kind)


def entry_of(module: nn.Module) -> Callable[..., Any] | None:
    """The user's own entry ``forward`` in a module's ``__dict__``; our overrides are skipped."""
    found = vars(module).get("forward")
    while isinstance(found, ForwardOverride):
        found = found.below
    return found


def shown_by(entry: Any, name: str) -> Any:
    """An attribute of a forward; None where it has none, or answers by an error of its own."""
    try:
        return getattr(entry, name, None)
    except Exception:  # noqa: BLE001 - nothing but a call is asked of it in the plain model
        return None


def drop_copies(model: nn.Module) -> None:
    """Deletes, in a copied model, the entries ``forward`` that copied overrides left."""
    for module in modules_of(model):
        _drop_copy(module)


def _drop_copy(module: nn.Module) -> None:
    found = vars(module).get("forward")
    if isinstance(found, MethodType) and found == forward_of_class(module):
        del vars(module)["forward"]


def with_own_code(forward: Any, kind: type[nn.Module]) -> Any:
    """A copy of a function, as the forward of one module, with a code object of its own.

    torch.compile keeps what it compiled by code object, up to eight graphs for each. By the name it
    remembers which sizes have changed.
    """
    code = forward.__code__.replace(co_name=f"forward_of_{kind.__name__}")
    return FunctionType(
        code, forward.__globals__, forward.__name__, forward.__defaults__, forward.__closure__
    )
