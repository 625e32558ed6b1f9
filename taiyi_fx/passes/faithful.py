"""What a trace may not do: the rules by which a recorded graph is, or is not, the model.

A symbolic trace records torch calls on proxies. All other Python ran once, while tracing, and is
not in the graph. These rules refuse, with a reason, every forward in which that could matter:
context managers, attribute changes, randomness, global state, tests of a value's type or
identity, torch calls made outside the graph. What remains, plain attributes that a forward read,
is kept as conditions under which the graph may stand in for the forward.
"""

from __future__ import annotations

import ast
import functools
import gc
import linecache
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode

_TORCH = str(Path(torch.__file__).parent)
_PASSES = str(Path(__file__).parent)
_STDLIB = str(Path(random.__file__).parent)
# Python inside torch that keeps a trace faithful; any other (autograd functions, checkpointing,
# autocast, compiled code, function transforms) changes how operations run, not which.
_PLAIN_TORCH = (
    "fx/",
    "nn/functional.py",
    "nn/modules/container.py",
    "nn/modules/module.py",
    "nn/parameter.py",
    "nn/utils/parametrize.py",
    "functional.py",
    "overrides.py",
    "_jit_internal.py",
    "jit/_trace.py",
    "_tensor.py",
    "__init__.py",
)
_PURE_BUILTINS = frozenset(
    ["abs", "all", "any", "divmod", "getattr", "hasattr", "callable", "isinstance", "issubclass", "iter", "len", "max", "min", "next", "pow", "round", "sorted", "sum", "__build_class__"]
)
# Python's own libraries that only compute; "string" and "eval_with_key" are code that
# dataclasses and torch.fx made.
_PLAIN_LIBRARIES = frozenset(
    ["functools", "collections", "enum", "typing", "operator", "itertools", "math", "copy", "dataclasses", "abc", "numbers", "types", "_collections_abc", "string"]
)
_TYPE_TESTS = frozenset(
    ["isinstance", "issubclass", "type", "hasattr", "getattr", "setattr", "delattr", "callable", "id", "vars", "dir"]
)
_STATE_QUERIES = ("is_grad", "is_inference", "is_autocast", "get_autocast", "get_", "set_", "_set_")
_HARMLESS_TENSOR_CALLS = frozenset(
    ["__get__", "__hash__", "__len__", "__format__", "__repr__", "size", "dim", "numel", "stride"]
)
_SIMPLE = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)
_NESTED_CODE = frozenset(["<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>"])

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Condition = tuple[str, str, Any]
"""A module's name, the name of an attribute it holds, and the value that a trace relied on."""


class Unfaithful(Exception):
    """A forward that no graph can stand in for.

    Attributes:
        module: The dotted name of the module whose forward it is.
        reason: What it does, and where.
    """

    def __init__(self, module: str, reason: str) -> None:
        super().__init__(f"forward of {module!r} {reason}" if module else f"forward {reason}")
        self.module = module
        self.reason = reason


class Watch:
    """Observes a trace and raises `Unfaithful` at its end for what it must not have done.

    Attributes:
        conditions: What the traced forwards read, as found so far.
    """

    def __init__(self, root: nn.Module, current: Callable[[], str]) -> None:
        self.root = root
        self.current = current
        self.names = {module: name for name, module in root.named_modules()}
        self.conditions: dict[tuple[str, str], Any] = {}
        self.refusals: list[Unfaithful] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches the body; leaves all random states as they were."""
        before, self._drawn = _snapshot(self.root), (drawn := _random_state())
        try:
            with _NoOtherTorchCalls(self.current), _profiling(self._observe):
                yield
            self.check_random_state()
            self._refuse_changes(before)
        finally:
            _restore_random_state(drawn)
        if self.refusals:
            raise self.refusals[0]

    def check_random_state(self) -> None:
        """Refuses the current module if random numbers were drawn since the last check."""
        with torch._C.DisableTorchFunction():
            state = _random_state()
            if _differ(self._drawn, state):
                self._refuse("draws random numbers in Python")
        self._drawn = state

    def _refuse(self, reason: str) -> None:
        self.refusals.append(Unfaithful(self.current(), reason))

    def _refuse_changes(self, before: Mapping[str, Mapping[str, Any]]) -> None:
        for name, state in _snapshot(self.root).items():
            changed = [k for k in {**state, **before[name]} if state.get(k) != before[name].get(k)]
            if changed and all(refusal.module != name for refusal in self.refusals):
                self.refusals.append(Unfaithful(name, f"changes its attribute {changed[0]!r}"))

    def _observe(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call" and _is_users(frame.f_code):
            problem = _builtin_problem(arg)
            if problem:
                self._refuse(f"{problem} ({_place(frame)})")
        elif event == "return" and _was_called_by_model(frame):
            self._judge(frame)

    def _judge(self, frame: FrameType) -> None:
        code = frame.f_code
        if code.co_filename.startswith(_TORCH):
            inside = code.co_filename[len(_TORCH) + 1 :]
            if not inside.startswith(_PLAIN_TORCH):
                self._refuse(f"goes through torch/{inside} ({code.co_name})")
            return
        if code.co_name in _NESTED_CODE or not _is_users(code):
            self._judge_library(code)
            return
        try:
            for node in _definitions(code):
                _Scan(frame, self.names, self.conditions).check(node)
        except _Refusal as refusal:
            where = f"{Path(code.co_filename).name}:{refusal.line}"
            self._refuse(f"{refusal} ({where})")

    def _judge_library(self, code: CodeType) -> None:
        library = code.co_filename.removeprefix(_STDLIB).strip("/<>").removeprefix("frozen ")
        library = library.partition("/")[0].removesuffix(".py")
        if code.co_name not in _NESTED_CODE and library not in _PLAIN_LIBRARIES:
            self._refuse(f"calls {library}.{code.co_name}")


@contextmanager
def _profiling(observe: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Sends each call and return in the body to a function.

    Without garbage collection: its callbacks run in the middle of the model's code, and are not
    the model's doing.
    """
    profiler, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(observe)
    try:
        yield
    finally:
        sys.setprofile(profiler)
        if collects:
            gc.enable()


class _NoOtherTorchCalls(TorchFunctionMode):
    """Refuses torch calls that no proxy takes part in: they would run once, while tracing."""

    def __init__(self, current: Callable[[], str]) -> None:
        self.current = current

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # torch's own untyped protocol
        name = getattr(func, "__name__", str(func))
        if not any(issubclass(t, fx.Proxy) for t in types) and name not in _HARMLESS_TENSOR_CALLS:
            raise Unfaithful(self.current(), f"calls torch's {name} on nothing that flows in")
        return func(*args, **(kwargs or {}))


class _Refusal(Exception):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class _Scan:
    """Checks one function, by its source, with the values that its names had when it returned."""

    def __init__(
        self,
        frame: FrameType,
        names: Mapping[nn.Module, str],
        conditions: dict[tuple[str, str], Any],
    ) -> None:
        self.locals = frame.f_locals
        self.globals = frame.f_globals
        self.first = frame.f_code.co_varnames[0] if frame.f_code.co_argcount else None
        self.free = frame.f_code.co_freevars
        self.names = names
        self.conditions = conditions

    def check(self, function: Function) -> None:
        for name in self.free:
            if name != "__class__" and not isinstance(self.locals.get(name), FunctionType):
                raise _Refusal(f"closes over the variable {name!r}", _first_line(function))
        body = [function.body] if isinstance(function, ast.Lambda) else function.body
        for statement in body:
            for node in ast.walk(statement):
                problem = self._problem(node)
                if problem:
                    raise _Refusal(problem, getattr(node, "lineno", 0))

    def _problem(self, node: ast.AST) -> str | None:
        match node:
            case ast.With() | ast.AsyncWith():
                return f"uses `with {ast.unparse(node.items[0])}`"
            case ast.Try() | ast.Match() | ast.Yield() | ast.YieldFrom() | ast.Await():
                return f"uses `{type(node).__name__.lower()}`"
            case ast.Global() | ast.Nonlocal():
                return f"changes the outer variable {node.names[0]!r}"
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                return f"changes `{ast.unparse(node)}`"
            case ast.Compare():
                return self._identity_test(node)
            case ast.Call():
                return self._call(node)
            case ast.Attribute(ctx=ast.Load()):
                return self._attribute(node)
            case ast.Name(ctx=ast.Load()):
                return self._global(node)
        return None

    def _identity_test(self, node: ast.Compare) -> str | None:
        operands = [node.left, *node.comparators]
        for i, operator in enumerate(node.ops):
            if isinstance(operator, (ast.Is, ast.IsNot)) and not any(
                self._belongs_to_module(operand) for operand in operands[i : i + 2]
            ):
                return f"tests the identity of a value, `{ast.unparse(node)}`"
        return None

    def _call(self, node: ast.Call) -> str | None:
        match node.func:
            case ast.Name(id="print" | "input" | "open" | "exec" | "eval" as name):
                return f"calls `{name}`"
            case ast.Name(id=name) if name in _TYPE_TESTS:
                if not (node.args and self._belongs_to_module(node.args[0])):
                    return f"tests the type of a value, `{ast.unparse(node)}`"
            case ast.Attribute(attr="forward", value=value) if not _is_super(value):
                return f"calls `{ast.unparse(node.func)}` directly"
        return None

    def _belongs_to_module(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        if not (isinstance(node, ast.Name) and node.id == self.first):
            return False
        return isinstance(self.locals.get(node.id), nn.Module)

    def _attribute(self, node: ast.Attribute) -> str | None:
        """Follows ``self.a.b`` through modules; notes or refuses the plain value it ends at."""
        chain, base = [node.attr], node.value
        while isinstance(base, ast.Attribute):
            chain.append(base.attr)
            base = base.value
        if not isinstance(base, ast.Name):
            return None
        owner = self.locals.get(base.id)
        if not isinstance(owner, nn.Module):
            return None if _is_plain_owner(owner) else f"reads `{ast.unparse(node)}`, an object's"
        for attr in reversed(chain):
            if not isinstance(owner, nn.Module):
                return None
            if attr in vars(owner):
                problem = self._plain_value(owner, attr, stable=base.id == self.first)
                if problem:
                    return f"{problem}, `{ast.unparse(node)}`"
            owner = _stored(owner, attr)
        return None

    def _plain_value(self, owner: nn.Module, attr: str, stable: bool) -> str | None:
        value = vars(owner)[attr]
        if isinstance(value, (nn.Module, torch.Tensor)) or (attr.startswith("_") and attr in _OWN):
            return None
        if not (_is_simple(value) and stable and owner in self.names):
            return "reads an attribute whose value may change"
        self.conditions[self.names[owner], attr] = value
        return None

    def _global(self, node: ast.Name) -> str | None:
        if node.id in self.locals or node.id not in self.globals:
            return None
        value = self.globals[node.id]
        # A constant by the convention of its name is taken for one.
        if callable(value) or isinstance(value, ModuleType):
            return None
        if node.id.isupper() and _is_simple(value):
            return None
        return f"reads the global variable {node.id!r}"


_OWN = frozenset(vars(nn.Module()))


def _is_simple(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_simple(item) for item in value)
    return isinstance(value, _SIMPLE) or isinstance(value, type) or isinstance(value, FunctionType)


def _is_plain_owner(owner: Any) -> bool:
    kinds = (fx.Proxy, ModuleType, type, str, int, float, list, tuple, dict, FunctionType)
    return owner is None or isinstance(owner, kinds)


def _stored(owner: nn.Module, attr: str) -> Any:
    for place in (vars(owner), owner._modules):
        if attr in place:
            return place[attr]
    return None


def _is_super(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    )


def _is_users(code: CodeType) -> bool:
    name = code.co_filename
    if name.startswith(_STDLIB):
        return "-packages" in name[len(_STDLIB) :]
    return not name.startswith((_TORCH, _PASSES, "<"))


def _was_called_by_model(frame: FrameType) -> bool:
    """Whether the call came from model code, or from torch as it calls a module's forward."""
    caller, code = frame.f_back, frame.f_code
    if caller is None or code.co_filename.startswith(_PASSES):
        return False
    if _is_users(caller.f_code):
        return True
    if not (_is_users(code) or code.co_filename.startswith(_TORCH)):
        return False
    is_root_call = caller.f_code.co_name == "trace"
    return caller.f_code.co_filename.endswith(
        "_symbolic_trace.py" if is_root_call else "nn/modules/module.py"
    )


def _builtin_problem(function: Any) -> str | None:
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if not isinstance(owner, ModuleType):
        return None
    if owner.__name__.startswith("torch") and name.startswith(_STATE_QUERIES):
        return f"asks for or changes torch's state, `{name}`"
    if owner.__name__.startswith("torch") or owner.__name__ in ("math", "_operator", "itertools"):
        return None
    if owner.__name__ == "builtins" and name in _PURE_BUILTINS:
        return None
    return f"calls `{owner.__name__}.{name}`"


def _place(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


@functools.lru_cache(maxsize=4096)
def _definitions(code: CodeType) -> tuple[Function, ...]:
    """The function's syntax tree (every candidate, where several lambdas share a line)."""
    tree = _syntax(code.co_filename)
    if tree is None:
        raise _Refusal("has no source to check", code.co_firstlineno)
    found = tuple(
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        and _first_line(node) == code.co_firstlineno
    )
    if not found:
        raise _Refusal("has no source to check", code.co_firstlineno)
    return found


@functools.lru_cache(maxsize=256)
def _syntax(filename: str) -> ast.Module | None:
    lines = linecache.getlines(filename)
    return ast.parse("".join(lines)) if lines else None


def _first_line(node: Function) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(d.lineno for d in decorators)])


def _snapshot(root: nn.Module) -> dict[str, dict[str, Any]]:
    """What every module holds, by identity, looking into plain containers."""
    return {
        name: {k: _identity(v) for k, v in vars(module).items()}
        for name, module in root.named_modules()
    }


def _identity(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_identity(v) for v in value]
    if isinstance(value, set):
        return {id(v) for v in value}
    if isinstance(value, Mapping):
        return [(id(k), _identity(v)) for k, v in value.items()]
    return value if isinstance(value, _SIMPLE) else id(value)


def _random_state() -> dict[str, Any]:
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if "numpy" in sys.modules:
        state["numpy"] = sys.modules["numpy"].random.get_state()
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def _restore_random_state(state: Mapping[str, Any]) -> None:
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        sys.modules["numpy"].random.set_state(state["numpy"])
    if "cuda" in state:
        torch.cuda.set_rng_state_all(state["cuda"])


def _differ(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping):
        return any(_differ(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return any(_differ(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, torch.Tensor):
        return not torch.equal(a, b)
    return bool((a != b).any()) if hasattr(a, "any") else bool(a != b)
