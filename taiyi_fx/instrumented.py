"""The instrumented object: a second face of a model, whose calls are read."""

from __future__ import annotations

import contextlib
import copy
import functools
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import fx, nn
from torch.jit import _script as torchscript

from taiyi_fx.config.merged import Cfg
from taiyi_fx.monitor import Monitor
from taiyi_fx.passes.capture.captured import Capture
from taiyi_fx.passes.module_tree import named_modules
from taiyi_fx.passes.override import forward_of_class, with_own_code
from taiyi_fx.passes.probes.compiling import stays_python
from taiyi_fx.passes.rewrite.own_passes import Pass
from taiyi_fx.passes.runtime.build import Instrumented
from taiyi_fx.passes.structure import slots_of_class

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@dataclass(frozen=True)
class Options:
    """The options of `instrument`, without run and writers."""

    record_eval: bool
    strict: bool
    capture: Literal["auto", "whole"]
    passes: tuple[Pass, ...]
    epoch_statistics: Literal["exact", "streaming"]
    process_group: ProcessGroup | Literal["auto"] | None
    data_group: ProcessGroup | None
    part: str = ""


@dataclass
class Instrumentation:
    """The state of an instrumented object.

    Attributes:
        compiled: The model with its probes.
        monitor: Schedules and records.
        cfg: The configuration as it was given.
        options: The options.
        make: Makes an instrumented object of a model, a configuration and options.
        compiled_call: Its call as `nn.Module.compile` made it.
    """

    compiled: Instrumented
    monitor: Monitor
    cfg: Cfg
    options: Options
    make: Callable[[nn.Module, Cfg, dict[str, Any]], InstrumentedModule]
    compiled_call: Any = None

    @property
    def model(self) -> nn.Module:
        """The model that was instrumented, of which this is the other face."""
        return self.compiled.root

    def arguments(self) -> tuple[Cfg, dict[str, Any]]:
        """The configuration and the options for another instance that continues from here."""
        return self.cfg, {**vars(self.options), "start_step": self.monitor.next_step}

    def again(self, model: nn.Module) -> InstrumentedModule:
        """Another model, instrumented in the same way, that continues from here."""
        made = self.make(model, *self.arguments())
        made._instrumentation.compiled.shown.take_edits(self.compiled.shown)
        return made


class _Ours:
    """An attribute of the instrumented object, where the model has none of that name."""

    def __init__(self, get: Any) -> None:
        self._get = get
        self.__doc__ = get.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, face: Any, owner: type | None = None) -> Any:
        if face is None:
            return self
        for kept in ("_modules", "_parameters", "_buffers"):  # torch looks here last
            if self._name in vars(face).get(kept, {}):
                return vars(face)[kept][self._name]
        answer = type(type(face)._instrumentation.model).__getattr__
        if answer is not nn.Module.__getattr__:  # the model answers names of its own
            with contextlib.suppress(AttributeError):
                return answer(face, self._name)
        return self._get(face)


class InstrumentedModule(fx.GraphModule):
    """An instrumented model: a graph module that is an instance of the model's class as well.

    It shares the model's namespace: attributes set on one are set on the other. The model's own
    names come before these; `taiyi_fx.monitor_of`, `graph_of` and `capture_of` always work.

    Attributes:
        monitor: Schedules and records.
        capture: The parts that became graphs, and those that stayed Python with the reasons.
        graph: The graph of the forward in the model's mode, with marks where probes are; edits of
            it run from the next `recompile` on.
        code: The same as Python.
    """

    _instrumentation: Instrumentation
    _lineno_map = None  # torch.compile asks a graph module for it

    @_Ours
    def monitor(self) -> Monitor:
        """Schedules and records."""
        return self._instrumentation.monitor

    @_Ours
    def capture(self) -> Capture:
        """The parts that became graphs, and those that stayed Python with the reasons."""
        return self._instrumentation.compiled.capture

    @_Ours
    def graph(self) -> fx.Graph:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The graph of the forward in the model's mode; `recompile` puts an edit to use."""
        return self._instrumentation.compiled.shown.graph

    @_Ours
    def _graph(self) -> fx.Graph:
        return self._instrumentation.compiled.shown.graph

    @_Ours
    def code(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The graph as Python."""
        return self._instrumentation.compiled.shown.graph.python_code("self").src

    @_Ours
    def _code(self) -> str:
        return self._instrumentation.compiled.shown.graph.python_code("self").src

    @_Ours
    def recompile(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Takes over the graph as it is now: it runs at each call from here on, with its probes.

        Where the model's code depends on its mode, this is for the present mode.

        Raises:
            TypeError: The model is not one graph.
            ValueError: The graph cannot run in the model's place.
            LookupError: It names a module or tensor that the model does not have.
        """
        return self._instrumentation.compiled.shown.recompile

    @_Ours
    def to_folder(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Writes the graph as a package of torch's code alone, as `torch.fx.GraphModule` does."""
        return self._instrumentation.compiled.shown.written().to_folder


_UNUSED = "__jit_unused_properties__"
"""The attribute of a class that names properties which TorchScript leaves alone."""


def _of_graph_module(name: str) -> _Ours:
    return _Ours(lambda face: getattr(super(InstrumentedModule, face), name))


_OTHERS = {*dir(nn.Module), *vars(InstrumentedModule), _UNUSED}
for _name in vars(fx.GraphModule).keys() - _OTHERS:
    setattr(InstrumentedModule, _name, _of_graph_module(_name))
    vars(InstrumentedModule)[_name].__set_name__(InstrumentedModule, _name)


class _Forward:
    """The forward of an instrumented object: the model's at the time of the attribute access.

    So a wrapper put around it calls the same forward as one put around the model's.
    """

    def __init__(self, forward: Any) -> None:
        self.__wrapped__ = forward

    def __get__(self, face: Any, owner: type | None = None) -> Any:
        if face is None:
            return self.__wrapped__
        compiled = type(face)._instrumentation.compiled
        installation, session = compiled.installation, compiled.session
        held = forward_of_class(installation.root)
        if not getattr(torchscript, "_TOPLEVEL", True):
            return held  # TorchScript compiles the source of what it is given

        def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            # If it is still the model's present forward, the call is read like one of the model.
            is_own = held == forward_of_class(installation.root)
            called = installation.dispatchers[""] if is_own else held
            return session(called, args, kwargs)

        made = functools.wraps(self.__wrapped__)(with_own_code(forward, type(installation.root)))
        return types.MethodType(made, face)


class _Face:
    """The methods that come before those of the model's class: calls, copies, moves."""

    _instrumentation: Instrumentation
    _class_of_model: type[nn.Module]

    def __init_subclass__(cls) -> None:
        """Does nothing, so that the model's class does not register this as another model."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A plain model, for a method that makes another instance: ``type(self)(...)``."""
        return type(cls._instrumentation.model)(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the model, and reads the call."""
        compiled = self._instrumentation.compiled_call
        if compiled is not None:
            return compiled(*args, **kwargs)
        return self._call_impl(*args, **kwargs)  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def _compiled_call_impl(self) -> Any:  # of the face alone, after its `compile()`
        return self._instrumentation.compiled_call

    @_compiled_call_impl.setter
    def _compiled_call_impl(self, call: Any) -> None:
        self._instrumentation.compiled_call = call

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "graph" and isinstance(value, fx.Graph) and "graph" not in vars(self):
            self._instrumentation.compiled.shown.graph = value
        else:
            super().__setattr__(name, value)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:  # torch's own untyped function
        self._instrumentation.model._apply(fn, recurse)
        self._instrumentation.compiled.table.drop()
        return self

    def _replicate_for_data_parallel(self) -> nn.Module:
        raise RuntimeError(
            "DataParallel runs copies of the model in threads, and what they read would be lost: "
            "use DistributedDataParallel(instrument(model, cfg)), one process for each device"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> InstrumentedModule:
        made = self._instrumentation.again(copy.deepcopy(self._instrumentation.model, memo))
        memo[id(self)] = made
        return made

    def __copy__(self) -> InstrumentedModule:
        return self._instrumentation.again(copy.copy(self._instrumentation.model))

    def __reduce_ex__(self, protocol: Any) -> Any:  # pickle's own untyped protocol
        if self._instrumentation.compiled.shown.is_edited:
            raise TypeError(
                "the graph of this instrumented model was edited, and cannot be pickled"
            )
        cfg, options = self._instrumentation.arguments()
        # A process group cannot travel: the default one is taken instead, as torch's wrappers do.
        is_alone = options["process_group"] is None
        options.update(process_group=None if is_alone else "auto", data_group=None)
        return self._instrumentation.make, (self._instrumentation.model, cfg, options)


def face_of(made: Instrumentation) -> InstrumentedModule:
    """The instrumented object of a model."""
    model = made.model
    face = object.__new__(_class_of_face(made))
    # One namespace for both: an attribute set on one is set on the other.
    face.__dict__ = model.__dict__
    weakref.finalize(face, made.compiled.installation.close).atexit = False
    return face


def _class_of_face(made: Instrumentation) -> type[Any]:
    """The class of an instrumented object while its model has the present one."""
    model, kind = made.model, type(made.model)
    call = with_own_code(_call, kind)
    stays_python(call)
    slots = {name: _slot(model, of_class) for name, of_class in slots_of_class(kind).items()}
    body: dict[str, Any] = {
        "_call_impl": call,
        "forward": _Forward(kind.forward),
        "_instrumentation": made,
        "_class_of_model": kind,
        "__class__": property(lambda self: type(model), _set_class),
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
        _UNUSED: [*getattr(kind, _UNUSED, ()), "_compiled_call_impl", *slots],
        **slots,
    }
    own = () if issubclass(InstrumentedModule, kind) else (kind,)
    try:
        bases = (_Face, *own, InstrumentedModule)
        return types.new_class(kind.__name__, bases, exec_body=lambda n: n.update(body))
    except TypeError:  # a class that allows no subclasses: its attributes are answered instead

        def answer(self: nn.Module, name: str) -> Any:
            return getattr(body["_instrumentation"].model, name)

        body = {**body, "__getattr__": answer}
        bases = (_Face, InstrumentedModule)
        return types.new_class(kind.__name__, bases, exec_body=lambda n: n.update(body))


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls the model of an instrumented object, read.

    It has no closure: torch 2.6 compiles a call of the object by what it finds in the class that
    the object says it has, which is the model's.
    """
    compiled = self._instrumentation.compiled
    model, session = compiled.root, compiled.session
    if not torch.compiler.is_compiling() and type(model) is not type(self)._class_of_model:
        _follow_class(self)
    if torch._C._get_tracing_state() is not None and type(model).__call__ is _CALL:
        # torch.jit.trace names what it records by the module that it was given: this one.
        return session(functools.partial(nn.Module._call_impl, self), args, kwargs)
    return session(model.__call__, args, kwargs)


def _slot(model: nn.Module, slot: MemberDescriptorType) -> property:
    """An attribute of the instrumented object that is kept in a slot of its model."""
    return property(
        lambda face: slot.__get__(model),
        lambda face, value: slot.__set__(model, value),
        lambda face: slot.__delete__(model),
    )


_CALL = nn.Module.__call__
_CLASS = vars(object)["__class__"]


def _follow_class(face: Any) -> None:
    """Makes an instrumented object one of its model's present class."""
    _CLASS.__set__(face, _class_of_face(face._instrumentation))


def _set_class(face: Any, kind: type[nn.Module]) -> None:
    """Gives a model another class, as parametrizations do, through its instrumented object."""
    face._instrumentation.model.__class__ = kind
    _follow_class(face)


def instrumentation_of(model: nn.Module) -> Instrumentation:
    """The instrumentation of an instrumented object, or of the one that is a part of a model.

    Raises:
        LookupError: No part of the model is instrumented.
        ValueError: Several are.
    """
    found = {
        name: type(module)._instrumentation
        for name, module in named_modules(model)
        if isinstance(module, InstrumentedModule)
    }
    if not found:
        raise LookupError(
            f"no part of the {type(model).__name__} is instrumented: give the trainer "
            "taiyi_fx.instrument(model, cfg) in place of the model, or of a part of it"
        )
    if len(found) > 1:
        raise ValueError(
            f"several parts are instrumented, {', '.join(map(repr, found))}: instrument "
            "the one module that holds them instead"
        )
    (made,) = found.values()
    return made


def monitor_of(model: nn.Module) -> Monitor:
    """The monitor of an instrumented model, wrapped or not, or of the one part that is.

    Raises:
        LookupError: No part of the model is instrumented.
        ValueError: Several are.
    """
    return instrumentation_of(model).monitor


def graph_of(model: nn.Module) -> fx.Graph:
    """The graph of an instrumented model, found as by `monitor_of`."""
    return instrumentation_of(model).compiled.shown.graph


def capture_of(model: nn.Module) -> Capture:
    """The capture of an instrumented model, found as by `monitor_of`."""
    return instrumentation_of(model).compiled.capture


stays_python(_Face.__call__)
stays_python(_Face._compiled_call_impl.fget)
