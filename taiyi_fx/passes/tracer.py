"""A symbolic tracer that marks the calls of targets and refuses what a graph cannot hold."""

from __future__ import annotations

import sys
import types
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.fx.node import map_aggregate
from torch.nn.utils import parametrize

from taiyi_fx.passes.faithful import Unfaithful, Watch
from taiyi_fx.passes.marks import behind_marks, leave, mark_call, mark_value
from taiyi_fx.passes.proxies import InPlaceProxy

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_BUILT = (tuple, list, dict, torch.Size, immutable_list, immutable_dict)
_SPELLED = (bool, int, float, complex, str)


@dataclass(frozen=True)
class Wanted:
    """What gets marks.

    Attributes:
        modules: Names of the modules whose calls are marked.
        functions: Functions whose calls are marked, wherever a graph shows them.
        evaluation: Whether forwards in evaluation mode are read too.
    """

    modules: Collection[str]
    functions: Collection[Callable[..., Any]] = ()
    evaluation: bool = False


@dataclass(frozen=True)
class Passed:
    """What a call that went into a graph was given and returned, as the graph has it.

    Attributes:
        module: The module's name.
        inputs: The names of the nodes that made what was given.
        outputs: The names of those that made what was returned.
    """

    module: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass
class Seen:
    """What one trace came across.

    Attributes:
        inlined: Modules whose forwards went into the graph.
        passed: The calls of these, but for the first and those that pass unknown structures.
        calls: How often each target was called.
        functions: The function of each call of one, by the name of its site.
        in_place: Sites of those that are told to change an input, or to write into another.
    """

    inlined: list[str] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    in_place: set[str] = field(default_factory=set)


class MarkingTracer(fx.Tracer):
    """A symbolic tracer of one part of a model.

    Attributes:
        names: The names of all modules in the whole model, whose own is the first that they have.
        current: The name of the module whose forward is being traced.
        deepest: Where the trace was when an exception first passed.
        seen: What it came across.
        watch: What observes the trace.
    """

    watch: Watch

    def __init__(
        self, part: str, names: Mapping[nn.Module, str], wanted: Wanted, python: Mapping[str, str]
    ) -> None:
        super().__init__()
        self.proxy_buffer_attributes = True
        self.current = self.deepest = part
        self.names = names
        self.wanted = wanted
        self.python = python
        self.seen = Seen(inlined=[part])
        self._names_of_tensors: dict[int, str] | None = None

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """A proxy with in-place operators."""
        return InPlaceProxy(node, self)

    def create_arg(self, a: Any) -> Any:
        """A node's argument; fx's signature. Refuses what generated code could not spell."""
        if isinstance(a, (bool, int, float, complex, str)) and type(a) not in _SPELLED:
            kind = f"{type(a).__module__}.{type(a).__name__}"
            raise Unfaithful(self.current, f"computes with a {kind}, {a!r}")
        if (
            isinstance(a, (tuple, list, dict))
            and type(a) not in _BUILT
            and not hasattr(a, "_fields")
        ):
            raise Unfaithful(self.current, f"makes a {type(a).__name__}, which a graph cannot")
        return super().create_arg(a)

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **named: Any
    ) -> fx.Proxy:
        """Records one operation; fx's signature. Marks a call of a function that is asked for."""
        observe = sys.getprofile()
        sys.setprofile(None)  # fx's own work is most of all calls, and none of the model's
        try:
            return self._recorded(kind, target, args, kwargs, *more, **named)
        finally:
            sys.setprofile(observe)

    def _recorded(
        self, kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **named: Any
    ) -> fx.Proxy:
        function = self._wanted_function(kind, target)
        if function is None:
            return super().create_proxy(kind, target, args, kwargs, *more, **named)
        site = self._site(function)
        self.seen.functions[site] = function
        call = self._count(site)
        if any(a is True for a in args) or kwargs.get("inplace") or "out" in kwargs:
            self.seen.in_place.add(site)
        args, kwargs = mark_call(self, args, kwargs, site, call)
        made = super().create_proxy(kind, target, args, kwargs, *more, **named)
        made.node.meta["site"] = site, call
        return mark_value(self, leave, made, site, call)

    def _site(self, function: Callable[..., Any]) -> str:
        name = function_name(function)
        site = f"{self.current}.{name}()".lstrip(".")
        if self.seen.functions.get(site, function) is not function:
            site = f"{self.current}.{function.__module__}.{name}()".lstrip(".")
        return site

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What a forward reads of a module; fx's signature. A parameter becomes a node.

        fx looks through all of the model's parameters at each read.
        """
        name = (
            self._tensor_names().get(id(attr_val)) if isinstance(attr_val, torch.Tensor) else None
        )
        if name is None:
            return attr_val
        # A buffer may be another one at each read.
        if name not in parameter_proxy_cache or not isinstance(attr_val, nn.Parameter):
            parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {})
        return parameter_proxy_cache[name]

    def _tensor_names(self) -> dict[int, str]:
        if self._names_of_tensors is None:
            tensors = (*self.root.named_buffers(), *self.root.named_parameters())
            self._names_of_tensors = {id(tensor): name for name, tensor in tensors}
        return self._names_of_tensors

    def _wanted_function(self, kind: str, target: Any) -> Callable[..., Any] | None:
        if not self.wanted.functions or kind not in ("call_function", "call_method"):
            return None
        found = getattr(torch.Tensor, target, None) if kind == "call_method" else target
        # By identity: a function's own equality may be anything.
        return next((f for f in self.wanted.functions if f is found), None)

    def _may_call_wanted(self, m: nn.Module) -> bool:
        return bool(self.wanted.functions) and not type(m).__module__.startswith("torch.")

    def _count(self, site: str) -> int:
        call, self.seen.calls[site] = self.seen.calls[site], self.seen.calls[site] + 1
        return call

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Modules without parts are called as they are, so that what they read stays live.

        One of the user's own is looked into where calls of functions are asked for.
        """
        return (
            self.names.get(m) in self.python
            or (next(m.children(), None) is None and not self._may_call_wanted(m))
            or parametrize.is_parametrized(m)
            or is_torch_composite(m)
        )

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        """Traces one call; fx's signature. Enters the call's marks for a target."""
        name = self.names[m]
        if name not in self.wanted.modules:
            return self._call(m, name, forward, args, kwargs)
        if any(map(_holds_container, (*args, *kwargs.values()))):
            # Behind a mark it would be another container than the one that is handed in.
            raise Unfaithful(self.current, f"hands a list or dictionary to {name!r}")
        call = self._count(name)
        args, kwargs = mark_call(self, args, kwargs, name, call)
        return mark_value(self, leave, self._call(m, name, forward, args, kwargs), name, call)

    def _call(self, m: nn.Module, name: str, forward: Any, args: Any, kwargs: Any) -> Any:
        if self.is_leaf_module(m, self.path_of_module(m)):
            if any(map(_holds_container, (*args, *kwargs.values()))):
                raise Unfaithful(self.current, f"hands a list or dictionary to {name!r}")
            return super().call_module(m, forward, args, kwargs)
        refuse_special(m, name)
        if m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or m._backward_pre_hooks:
            raise Unfaithful(name, "has hooks registered on it")
        with self._inside(name):
            self.seen.inlined.append(name)
            value = super().call_module(m, forward, args, kwargs)
        made, given = _nodes_in(value), _nodes_in((args, kwargs))
        if made is not None and given is not None:
            self.seen.passed.append(Passed(name, given, made))
        return value

    @contextmanager
    def _inside(self, name: str) -> Iterator[None]:
        outer, self.current = self.current, name
        try:
            yield
            self.watch.check_random_state()
        except Exception as error:
            if not hasattr(error, "_taiyi_seen"):
                self.deepest, error._taiyi_seen = name, True  # pyright: ignore[reportAttributeAccessIssue]
            raise
        finally:
            self.current = outer


def function_name(function: Callable[..., Any]) -> str:
    """A function as users write it: ``operator.add``, ``scaled_dot_product_attention``."""
    name = getattr(function, "__name__", repr(function))
    if isinstance(function, types.MethodDescriptorType):
        return f"Tensor.{name}"
    return f"operator.{name}" if getattr(function, "__module__", None) == "_operator" else name


def refuse_special(m: nn.Module, name: str) -> None:
    """Refuses a module that answers otherwise than its class's forward says.

    Raises:
        Unfaithful: It does.
    """
    if not _own_names(m).isdisjoint(("__getattr__", "__getattribute__")):
        raise Unfaithful(name, "has a __getattr__ of its own")
    if "forward" in vars(m):
        raise Unfaithful(name, "was replaced on the instance")


def is_torch_composite(module: nn.Module) -> bool:
    """Whether a module of torch's own has parts, which it may call in ways of its own."""
    return (
        type(module).__module__.startswith(("torch.nn", "torch.ao.nn"))
        and not isinstance(module, _CONTAINERS)
        and next(module.children(), None) is not None
    )


def _holds_container(value: Any) -> bool:
    # A part could change it, and the trace would not see that.
    if isinstance(value, tuple):
        return any(map(_holds_container, value))
    return isinstance(value, (list, dict, set))


def _nodes_in(value: Any) -> tuple[str, ...] | None:
    """The names of the nodes that made a value; None if it may hold more than can be seen."""
    parts: list[Any] = []
    map_aggregate(value, parts.append)
    if not all(part is None or isinstance(part, (fx.Proxy, *_SPELLED)) for part in parts):
        return None
    nodes = behind_marks([part.node for part in parts if isinstance(part, fx.Proxy)])
    return tuple(node.name for node in nodes)


def _own_names(m: nn.Module) -> set[str]:
    return {name for c in type(m).__mro__ if c not in (nn.Module, object) for name in vars(c)}
