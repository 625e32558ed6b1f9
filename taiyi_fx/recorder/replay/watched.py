"""Operations watched as they run: which one brought numbers that are not finite."""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from threading import get_ident
from typing import Any

import torch
from torch import Tensor
from torch._C._autograd import _get_sequence_nr
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from taiyi_fx.passes.structure import tensors_in
from taiyi_fx.recorder.replay.band import Size
from taiyi_fx.recorder.replay.facts import TensorFacts, facts_of, has_nan, has_non_finite
from taiyi_fx.recorder.replay.places import Phase, Place, place_of


@dataclass(frozen=True)
class Origin:
    """An operation whose inputs were finite, and one of whose outputs was not.

    Attributes:
        number: Its number among all operations of the step, from 0 on; -1 for what was not finite
            before any.
        operation: Its name, as torch's library has it; in backward that of autograd's node first:
            ``"SqrtBackward0: div"``.
        place: Where it was called; in backward, where the forward's operation was.
        inputs: The facts about its tensors as it was called.
        outputs: The facts about what it made, or changed.
        is_meant: True if it brought what was to be: the -inf of a mask.
    """

    number: int
    operation: str
    place: Place
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    is_meant: bool = False


# Which operation is to blame? Not the first that gives a NaN or an Inf: a mask of -inf is as it
# should be, and a softmax behind it heals it. So each tensor that is not finite carries its origin
# on, the earliest of those that it was computed from, and the caller asks for the origin of what
# came out in the end: an output, a gradient, a parameter. An Inf that was meant comes after all
# others: one that a fill brought (`masked_fill(mask, -inf)`), or that a tensor from outside had. A
# NaN that is made of such an Inf has an origin of its own.
#
# Tensors are known by their storage, so that views and changes in place are followed. An entry is
# asked for only where numbers really are not finite, and made anew by each operation, so that a
# storage that is freed and used again does no harm.
class OperationWatch(TorchDispatchMode):
    """Watches all operations of a step, with the origins of what is not finite.

    Args:
        names: The names of the model's modules, by the identity of their ``__dict__``.
        is_on: False for one that sees nothing.
        takes_sizes: Keep the sizes of all numbers.

    Attributes:
        count: The number of operations so far.
        owners: For an optimizer's step, the parameters by the storages that belong to them: their
            own, their gradients' and their moments'.
        sizes: The sizes of all operations' numbers, if they are kept.
        is_on: False for one that sees nothing.
    """

    def __init__(
        self, names: Mapping[int, str], *, is_on: bool = True, takes_sizes: bool = False
    ) -> None:
        super().__init__()
        self.is_on, self._takes_sizes = is_on, takes_sizes
        self.sizes: list[Size] = []
        self.count = 0
        self.owners: dict[int, str] = {}
        self._names = names
        self._origins: dict[int, Origin] = {}
        # Weak references: as long as there is one, the address of a storage belongs to no other.
        self._makers: dict[StorageWeakRef, int] = {}
        self._thread = get_ident()
        self._ends: list[int] = []
        self._is_paused = False
        self._places: list[Place] = []

    def watching(self) -> AbstractContextManager[Any]:
        """In the body, operations are watched."""
        return self if self.is_on else nullcontext()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """In the body, operations run unwatched, although it is on."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    def origin_of(self, tensors: Iterable[Tensor | None]) -> Origin | None:
        """The origin of the numbers in some tensors that are not finite; None if all are."""
        if not self.is_on:
            return None
        dense = (x for x in tensors if x is not None and _is_plain(x))
        return self._earliest([x for x in dense if has_non_finite(x)])

    def blame(self, name: str, x: Tensor, phase: Phase) -> None:
        """Makes what is not finite in a tensor from outside an origin of its own."""
        place = Place("", 0, "", "", phase)
        self._origins[_storage(x)] = Origin(-1, name, place, (), (facts_of(x),))

    def __torch_dispatch__(
        self,
        func: Any,  # torch's own untyped protocol
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Runs an operation, and looks at its tensors before and after."""
        kwargs = kwargs or {}
        if self._is_paused:
            return func(*args, **kwargs)
        read = _read(func, args, kwargs)
        bad = [x for x in read if has_non_finite(x)]
        had_nan = any(map(has_nan, bad))
        needs_facts = func._schema.is_mutable or self._takes_sizes
        before = tuple(map(facts_of, read)) if needs_facts else None
        makers = tuple(map(self._maker, read)) if self._takes_sizes else ()
        result = func(*args, **kwargs)
        place = self._note_place()
        written = [*_made(func, result), *_changed(func, args, kwargs)]
        worse = [x for x in written if has_non_finite(x)]
        if worse:
            origin = self._earliest(bad)
            if origin is None or (origin.is_meant and not had_nan and any(map(has_nan, worse))):
                is_meant = bool(bad) and origin is None and not any(map(has_nan, worse))
                inputs = before or tuple(map(facts_of, read))
                is_meant |= _fills(func, args, kwargs)
                if place.phase == "optimizer":
                    place = replace(place, module=self._owner([*worse, *read]) or place.module)
                origin = self._origin(func, place, inputs, worse, is_meant)
            self._origins.update((_storage(x), origin) for x in worse)
        if before is not None and self._takes_sizes:
            self._note_makers(read, written, is_change=func._schema.is_mutable)
            after = tuple(map(facts_of, written))
            self.sizes.append(Size(_name(func), place, before, after, makers))
        self.count += 1
        return result

    def _maker(self, x: Tensor) -> int | None:
        return self._makers.get(StorageWeakRef(x.untyped_storage()))

    def _note_makers(
        self, read: Iterable[Tensor], written: Iterable[Tensor], *, is_change: bool
    ) -> None:
        """Notes the operation under way as the one that wrote storages; a view writes none."""
        known = set() if is_change else set(map(_storage, read))
        for x in written:
            if _storage(x) not in known:
                self._makers[StorageWeakRef(x.untyped_storage())] = len(self.sizes)

    def _earliest(self, bad: Iterable[Tensor]) -> Origin | None:
        known = (self._origins.get(_storage(x)) for x in bad)
        found = [o for o in known if o is not None]
        return min(found, key=lambda o: (o.is_meant, o.number), default=None)

    def _origin(
        self,
        func: Any,
        place: Place,
        inputs: tuple[TensorFacts, ...],
        worse: list[Tensor],
        is_meant: bool,
    ) -> Origin:
        name, node = _name(func), torch._C._current_autograd_node()
        if place.phase == "backward" and node is not None:
            name = f"{node.name()}: {name}"
        return Origin(self.count, name, place, inputs, tuple(map(facts_of, worse)), is_meant)

    def own(self, name: str, tensors: Iterable[Tensor | None]) -> None:
        """Makes tensors those of a parameter, which belongs to the named module."""
        for x in tensors:
            if x is not None and _is_plain(x):
                self.owners[_storage(x)] = name

    def _owner(self, tensors: Iterable[Tensor]) -> str | None:
        return next((self.owners[s] for s in map(_storage, tensors) if s in self.owners), None)

    def _note_place(self) -> Place:
        """The place of the operation under way, which is kept for its backward."""
        place = place_of(sys._getframe(2), self._names)
        if get_ident() == self._thread:
            # By now autograd has made the operation's node, if it needs one. Backward runs the
            # forward again in activation checkpoints; threads of a device count on their own.
            self._ends.append(_get_sequence_nr())
            self._places.append(place)
        if place.phase != "backward":
            return place
        node = torch._C._current_autograd_node()
        if place.file or node is None:  # the user's own backward, or a forward run again
            return place
        return self._forward_of(node, place)

    def _forward_of(self, node: Any, place: Place) -> Place:
        i = bisect_right(self._ends, node._sequence_nr())
        return replace(self._places[i], phase="backward") if i < len(self._places) else place


def _name(func: Any) -> str:
    return func._schema.name.removeprefix("aten::")


def _is_plain(x: Tensor) -> bool:
    return x.layout is torch.strided and not x.is_nested and not x.is_quantized and not x.is_meta


def _storage(x: Tensor) -> int:
    return x.untyped_storage()._cdata


_OVERWRITE = frozenset(
    "copy_ _foreach_copy_ fill_ zero_ _foreach_zero_ normal_ uniform_ random_ bernoulli_ set_ "
    "exponential_ geometric_ cauchy_ log_normal_".split()
)
_FRESH = ("empty", "new_empty", "resize_")
_FILLS = (
    "masked_fill full full_like new_full fill where index_fill scatter masked_scatter "
    "constant_pad_nd scalar_tensor copy clone detach lift_fresh"
).split()


def _read(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors whose numbers an operation's result depends on."""
    first = 1 if _name(func) in _OVERWRITE else 0
    out = {a.name for a in func._schema.arguments if a.kwarg_only and _is_written(a)}
    named = [value for name, value in kwargs.items() if name not in out]
    return [x for x in tensors_in((args[first:], named)) if _is_plain(x)]


def _made(func: Any, result: Any) -> list[Tensor]:
    """The tensors that an operation gave; none for memory that holds nothing yet."""
    if _name(func).startswith(_FRESH):
        return []
    return [x for x in tensors_in(result) if _is_plain(x)]


def _changed(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors that an operation changes in place."""
    if not func._schema.is_mutable or _name(func).startswith(_FRESH):
        return []
    written = [(i, a.name) for i, a in enumerate(func._schema.arguments) if _is_written(a)]
    values = [
        kwargs[name] if name in kwargs else args[i]
        for i, name in written
        if i < len(args) or name in kwargs
    ]
    return [x for x in tensors_in(values) if _is_plain(x)]


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _fills(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """True if the operation puts an infinite literal in places of a tensor, as masks do."""
    literals = [x for x in (*args, *kwargs.values()) if isinstance(x, float)]
    return _name(func).rstrip("_") in _FILLS and any(map(math.isinf, literals))
