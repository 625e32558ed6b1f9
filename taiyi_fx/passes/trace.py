"""Model to graph: symbolic traces that are the model, with marks around the calls of targets."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.fx.proxy import Attribute
from torch.nn.utils import parametrize

from taiyi_fx.passes.clone import clone_tree
from taiyi_fx.passes.faithful import Condition, Unfaithful, Watch
from taiyi_fx.passes.structure import Call

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_BUILT = (tuple, list, dict, torch.Size, immutable_list, immutable_dict)
_SPELLED = (bool, int, float, complex, str)
# Names that generated code has for itself, which a parameter of the same name would hide.
_TAKEN_NAMES = frozenset("torch device inf nan NoneType fx_pytree pytree taiyi_fx".split())
_IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift"
IN_PLACE_OPERATORS = frozenset(getattr(operator, name) for name in _IN_PLACE.split())


@dataclass
class CapturedGraph:
    """A graph that stands in for the root's forward while its conditions hold.

    Attributes:
        graph: The trace, with `enter` and `leave` marks around each call of a target.
        conditions: Plain attributes that the traced forwards read, and the values they had.
        inlined: Names of the modules whose forwards are in the graph.
    """

    graph: fx.Graph
    conditions: tuple[Condition, ...]
    inlined: tuple[str, ...]


@dataclass
class Capture:
    """What became of a model.

    Attributes:
        graphs: The model as graphs, one for each way its forward goes in training and in
            evaluation. Empty where the root's own forward stayed Python.
        python: Modules whose forward stayed Python, by name, and why.
    """

    graphs: list[CapturedGraph] = field(default_factory=list)
    python: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.python:
            return "one graph"
        kept = "\n".join(
            f"  {name or 'the model itself'}: {why}" for name, why in self.python.items()
        )
        return f"{'graph' if self.graphs else 'no graph'}; Python stays in\n{kept}"


def enter(value: Any, module: str, call: int) -> Any:
    """Mark: what enters a target's call; the insertion pass turns it into a probe."""
    return value


def leave(value: Any, module: str, call: int) -> Any:
    """Mark: what leaves a target's call; the insertion pass turns it into a probe."""
    return value


def pack(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """A call's arguments as one value, so that a mark can stand at all of them."""
    return Call(tuple(args), dict(kwargs))


def unpack(value: Any, path: tuple[Any, ...]) -> Any:
    """One part of a structure that passed a mark."""
    for step in path:
        value = getattr(value, step[1:]) if _is_field(step) else value[step]
    return value


def _is_field(step: Any) -> bool:
    return step in (".args", ".kwargs")


def trace(root: nn.Module, targets: Collection[str]) -> Capture:
    """Traces the root with torch.fx, going on without each part that no graph can stand in for.

    The root is left as it was: tracing runs on a clone, with random states restored.

    Args:
        root: The model.
        targets: Names of the modules whose calls get marks.
    """
    python = _inside_torch(root, targets)
    if "forward" in vars(root):
        return Capture(python={**python, "": "was replaced on the instance"})
    while True:
        try:
            graphs = _trace_modes(root, targets, python)
        except _Stays as stays:
            new = _alike(root, stays.refusals)
            if new.keys() <= python.keys():
                # Refused for what a part does that stays Python already: then the whole does.
                new = {"": next(iter(new.values()))}
            if "" in new:
                return Capture(python={**python, **new})
            python.update(new)
        else:
            return Capture(graphs, _reached(python, graphs))


def _reached(python: dict[str, str], graphs: list[CapturedGraph]) -> dict[str, str]:
    called = {node.target for g in graphs for node in g.graph.nodes if node.op == "call_module"}
    return {name: why for name, why in python.items() if name in called}


class _Stays(Exception):
    def __init__(self, refusals: list[Unfaithful]) -> None:
        super().__init__(*refusals)
        self.refusals = refusals


def _inside_torch(root: nn.Module, targets: Collection[str]) -> dict[str, str]:
    return {
        name: f"{type(module).__name__} is torch's own and calls its parts itself"
        for name, module in root.named_modules()
        if name and _is_torch_composite(module) and any(t.startswith(f"{name}.") for t in targets)
    }


def _is_torch_composite(module: nn.Module) -> bool:
    return (
        type(module).__module__.startswith(("torch.nn", "torch.ao.nn"))
        and not isinstance(module, _CONTAINERS)
        and next(module.children(), None) is not None
    )


def _alike(root: nn.Module, refusals: list[Unfaithful]) -> dict[str, str]:
    """The refused modules and all others of their classes, which would be refused in turn."""
    by_class: dict[type[nn.Module], str] = {}
    found: dict[str, str] = {}
    for refusal in refusals:
        # A forward is judged when it returns, after what it called: the last reason says most.
        found[refusal.module] = refusal.reason
        by_class[type(root.get_submodule(refusal.module))] = refusal.reason
    for name, module in root.named_modules():
        if name and type(module) in by_class:
            found.setdefault(name, by_class[type(module)])
    return found


def _trace_modes(
    root: nn.Module, targets: Collection[str], python: Mapping[str, str]
) -> list[CapturedGraph]:
    train = _trace_once(root, targets, python, training=True)
    if all(attr != "training" for _, attr, _ in train.conditions):
        return [train]
    return [train, _trace_once(root, targets, python, training=False)]


def _trace_once(
    root: nn.Module, targets: Collection[str], python: Mapping[str, str], *, training: bool
) -> CapturedGraph:
    scratch = clone_tree(root)
    for module in scratch.modules():
        vars(module)["training"] = training
    tracer = MarkingTracer(targets, python)
    watch = tracer.watch = Watch(scratch, lambda: tracer.current)
    try:
        with watch.watching():
            graph = tracer.trace(scratch)
    except Exception as error:  # Whatever the forward does with a proxy, it stays Python.
        failed = error if isinstance(error, Unfaithful) else _untraceable(tracer, error)
        raise _Stays(watch.refusals or [failed]) from error
    for node in graph.nodes:
        node.type = None  # of no use to us, and some annotations cannot be written as code
    taken = [n.target for n in graph.find_nodes(op="placeholder") if n.target in _TAKEN_NAMES]
    if taken:
        raise _Stays([Unfaithful("", f"has a parameter named {taken[0]!r}")])
    if "" in targets:
        _mark_root(graph)
    conditions = tuple((name, attr, value) for (name, attr), value in watch.conditions.items())
    return CapturedGraph(graph, conditions, ("", *dict.fromkeys(tracer.inlined)))


def _untraceable(tracer: MarkingTracer, error: Exception) -> Unfaithful:
    message = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return Unfaithful(tracer.deepest, f"cannot be traced: {message}")


class MarkingTracer(fx.Tracer):
    """A symbolic tracer that marks the calls of targets and keeps in-place operators in place.

    Attributes:
        current: The name of the module whose forward is being traced.
        deepest: Where the trace was when an exception first passed.
        inlined: Modules whose forwards went into the graph.
        watch: What observes the trace.
    """

    watch: Watch

    def __init__(self, targets: Collection[str], python: Collection[str]) -> None:
        super().__init__()
        self.proxy_buffer_attributes = True
        self.targets = targets
        self.python = python
        self.current = self.deepest = ""
        self.inlined: list[str] = []
        self.calls: Counter[str] = Counter()

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

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Modules without parts are called as they are, so that what they read stays live."""
        return (
            module_qualified_name in self.python
            or next(m.children(), None) is None
            or parametrize.is_parametrized(m)
            or _is_torch_composite(m)
        )

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        """Traces one call; fx's signature. Enters the call's marks for a target."""
        name = self.path_of_module(m)
        if name not in self.targets:
            return self._call(m, name, forward, args, kwargs)
        call, self.calls[name] = self.calls[name], self.calls[name] + 1
        args, kwargs = self._marked_call(args, kwargs, name, call)
        return self._marked(leave, self._call(m, name, forward, args, kwargs), name, call)

    def _call(self, m: nn.Module, name: str, forward: Any, args: Any, kwargs: Any) -> Any:
        if self.is_leaf_module(m, name):
            if any(map(_holds_container, (*args, *kwargs.values()))):
                raise Unfaithful(self.current, f"hands a list or dictionary to {name!r}")
            return super().call_module(m, forward, args, kwargs)
        if m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or m._backward_pre_hooks:
            raise Unfaithful(name, "has hooks registered on it")
        if not _own_names(m).isdisjoint(("__getattr__", "__getattribute__")):
            raise Unfaithful(name, "has a __getattr__ of its own")
        if "forward" in vars(m):
            raise Unfaithful(name, "was replaced on the instance")
        with self._inside(name):
            self.inlined.append(name)
            return super().call_module(m, forward, args, kwargs)

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

    def _marked_call(self, args: Any, kwargs: Any, name: str, call: int) -> tuple[Any, Any]:
        if len(args) == 1 and not kwargs and isinstance(args[0], fx.Proxy):
            return (self._marked(enter, args[0], name, call),), kwargs
        packed = self.create_proxy("call_function", pack, (args, kwargs), {})
        marked = self.create_proxy("call_function", enter, (packed, name, call), {})
        args = tuple(self._unpacked(marked, a, (".args", i)) for i, a in enumerate(args))
        return args, {k: self._unpacked(marked, v, (".kwargs", k)) for k, v in kwargs.items()}

    def _marked(self, mark: Any, value: Any, name: str, call: int) -> Any:
        marked = self.create_proxy("call_function", mark, (value, name, call), {})
        return marked if isinstance(value, fx.Proxy) else self._unpacked(marked, value, ())

    def _unpacked(self, marked: fx.Proxy, value: Any, path: tuple[Any, ...]) -> Any:
        if isinstance(value, fx.Proxy):
            return self.create_proxy("call_function", unpack, (marked, path), {})
        if type(value) in (tuple, list):
            return type(value)(self._unpacked(marked, v, (*path, i)) for i, v in enumerate(value))
        if type(value) is dict:
            return {k: self._unpacked(marked, v, (*path, k)) for k, v in value.items()}
        return value


def _holds_container(value: Any) -> bool:
    # A part could change it, and the trace would not see that.
    if isinstance(value, tuple):
        return any(map(_holds_container, value))
    return isinstance(value, (list, dict, set))


def _own_names(m: nn.Module) -> set[str]:
    return {name for c in type(m).__mro__ if c not in (nn.Module, object) for name in vars(c)}


def _refuse_value(proxy: fx.Proxy, *_: Any) -> Any:
    name = proxy.tracer.current if isinstance(proxy.tracer, MarkingTracer) else ""
    raise Unfaithful(name, "turns a value into a text or a key")


_refuse: Any = _refuse_value


class InPlaceProxy(fx.Proxy):
    """A proxy that records ``x += y`` as the in-place operation that it is.

    As a text or a key, a proxy says something else than the value would: both are refused.
    """

    __str__ = __format__ = __hash__ = _refuse

    def __getattr__(self, k: str) -> Attribute:
        return InPlaceAttribute(self, k)


class InPlaceAttribute(Attribute):
    """An attribute of such a proxy."""

    __str__ = __format__ = __hash__ = _refuse


def _record(function: Any) -> Any:
    def in_place(self: fx.Proxy, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    return in_place


for _operator in IN_PLACE_OPERATORS:
    setattr(InPlaceProxy, f"__{_operator.__name__}__", _record(_operator))


def _mark_root(graph: fx.Graph) -> None:
    """Marks the root's own call; its inputs are the graph's."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    following = placeholders[-1].next if placeholders else next(iter(graph.nodes))
    with graph.inserting_before(following):
        packed = graph.call_function(pack, (tuple(placeholders), {}))
        marked = graph.call_function(enter, (packed, "", 0))
        for i, node in enumerate(placeholders):
            unpacked = graph.call_function(unpack, (marked, (".args", i)))
            node.replace_all_uses_with(unpacked, delete_user_cb=lambda user: user is not packed)
    (output,) = (node for node in graph.nodes if node.op == "output")
    with graph.inserting_before(output):
        output.args = (graph.call_function(leave, (output.args[0], "", 0)),)
