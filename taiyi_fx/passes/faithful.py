"""What a trace may not do: the rules by which a recorded graph is, or is not, the model.

A symbolic trace records torch calls on proxies. All other Python ran once, while tracing, and is
not in the graph. These rules refuse, with a reason, every forward in which that could matter:
context managers, attribute changes, randomness, global state, tests of a value's type or
identity, torch calls made outside the graph. What remains, plain attributes that a forward read,
is kept as conditions under which the graph may stand in for the forward.
"""

from __future__ import annotations

import functools
import gc
import os
import random
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode

from taiyi_fx.passes.conditions import SIMPLE, Conditions
from taiyi_fx.passes.random_state import differ, random_state, restore_random_state
from taiyi_fx.passes.source_scan import scan
from taiyi_fx.passes.syntax import Refusal, Unbound

_TORCH = str(Path(torch.__file__).parent) + os.sep
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
)
_PURE_BUILTINS = frozenset(
    "abs all any divmod iter len max min next pow round sorted sum __build_class__".split()
)
# Python's own libraries that only compute.
_PLAIN_LIBRARIES = frozenset(
    "collections enum typing operator itertools math abc numbers types _collections_abc".split()
)
_STATE_QUERIES = ("is_grad", "is_inference", "is_autocast", "get_autocast", "get_", "set_", "_set_")
_HARMLESS_TENSOR_CALLS = frozenset(
    "__get__ __hash__ __len__ __format__ __repr__ size dim numel stride".split()
)
# Makers of the same tensor at each call, which may as well be kept.
_CONSTANTS = frozenset(
    "arange as_tensor eye full linspace ones tensor tril_indices triu_indices zeros".split()
)
_NESTED_CODE = frozenset("<listcomp> <setcomp> <dictcomp> <genexpr> <module>".split())


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
        names: What is traced: modules and their names in the whole model.
        inlined: Names of those whose forwards the trace has gone into.
        conditions: What the traced forwards relied on, as found so far.
        refusals: What they must not have done.
        has_changed: Whether what is traced holds something else than before.
    """

    def __init__(
        self,
        names: Mapping[nn.Module, str],
        inlined: Collection[str],
        current: Callable[[], str],
    ) -> None:
        self.names = names
        self.inlined = inlined
        self.current = current
        self.conditions: Conditions = {}
        self.refusals: list[Unfaithful] = []
        self._unbound: list[Unfaithful] = []
        self.has_changed = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches the body; leaves all random states as they were."""
        before, self._drawn = self._snapshot(), (drawn := random_state())
        try:
            with _NoOtherTorchCalls(self.current), _profiling(self._observe):
                yield
            self.check_random_state()
            self._refuse_changes(before)
        except Exception:
            self.has_changed = self._snapshot() != before
            raise
        finally:
            restore_random_state(drawn)
        # Only here: a forward that an error cut short has not come to all of its variables.
        self.refusals.extend(self._unbound)
        if self.refusals:
            raise self.refusals[0]

    def check_random_state(self) -> None:
        """Refuses the current module if random numbers were drawn since the last check."""
        with torch._C.DisableTorchFunction():
            state = random_state()
            if differ(self._drawn, state):
                self._refuse("draws random numbers in Python")
        self._drawn = state

    def _refuse(self, reason: str) -> None:
        self.refusals.append(Unfaithful(self.current(), reason))

    def _refuse_changes(self, before: Mapping[str, Mapping[str, Any]]) -> None:
        for name, state in self._snapshot().items():
            changed = [k for k in {**state, **before[name]} if state.get(k) != before[name].get(k)]
            self.has_changed = self.has_changed or bool(changed)
            if changed and all(refusal.module != name for refusal in self.refusals):
                self.refusals.append(Unfaithful(name, f"changes its attribute {changed[0]!r}"))

    def _snapshot(self) -> dict[str, dict[str, Any]]:
        """What every module holds, by identity, looking into plain containers."""
        return {
            name: {k: _identity(v) for k, v in vars(module).items()}
            for module, name in self.names.items()
        }

    def _observe(self, frame: FrameType, event: str, arg: Any) -> None:
        # Called at each call and return of any function: what it asks first decides what a trace
        # costs.
        if event == "c_call" and is_users(frame.f_code.co_filename):
            problem = _builtin_problem(arg)
            if problem:
                self._refuse(f"{problem} ({_place(frame)})")
        elif event == "return" and _was_called_by_model(frame):
            self._judge(frame)

    def _judge(self, frame: FrameType) -> None:
        code = frame.f_code
        if code.co_filename.startswith(_TORCH):
            inside = code.co_filename[len(_TORCH) :]
            if not inside.startswith(_PLAIN_TORCH):
                self._refuse(f"goes through torch/{inside} ({code.co_name})")
            return
        if code.co_name in _NESTED_CODE or not is_users(code.co_filename):
            self._judge_library(code)
            return
        try:
            scan(frame, self.names, self.inlined, self.conditions)
        except Refusal as refusal:
            where = f"{Path(code.co_filename).name}:{refusal.line}"
            found = self._unbound if isinstance(refusal, Unbound) else self.refusals
            found.append(Unfaithful(self.current(), f"{refusal} ({where})"))

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
            what = f"calls torch's {name} on nothing that flows in{_user_place()}"
            remedy = ": pass it in, or register it as a buffer" if name in _CONSTANTS else ""
            raise Unfaithful(self.current(), what + remedy)
        return func(*args, **(kwargs or {}))


@functools.cache
def is_users(filename: str) -> bool:
    """Whether a file is the model's own, and not torch's, Python's or the compiler's."""
    if filename.startswith((_TORCH, _PASSES, "<eval_with_key>", "<frozen")):
        return False
    return not filename.startswith(_STDLIB) or "-packages" in filename[len(_STDLIB) :]


@functools.cache
def _is_torchs(filename: str) -> bool:
    return filename.startswith(_TORCH)


def _was_called_by_model(frame: FrameType) -> bool:
    """Whether the call came from model code, or from torch as it calls a module's forward."""
    if frame.f_back is None:
        return False
    caller, filename = frame.f_back.f_code, frame.f_code.co_filename
    if is_users(caller.co_filename) and not _is_generated_by_torch(frame.f_back):
        return not filename.startswith(_PASSES)
    if not _is_torchs(caller.co_filename) or not (is_users(filename) or _is_torchs(filename)):
        return False
    is_root_call = caller.co_name == "trace"
    return caller.co_filename.endswith(
        "_symbolic_trace.py" if is_root_call else "nn/modules/module.py"
    )


def _is_generated_by_torch(frame: FrameType) -> bool:
    """Whether this is what a dataclass, or the like, made for torch: it has no file to tell by."""
    is_generated = frame.f_code.co_filename == "<string>"
    return is_generated and str(frame.f_globals.get("__name__")).startswith("torch.")


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


def _user_place() -> str:
    """The line of the model's own code that runs now."""
    frame = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return f" ({_place(frame)})" if frame is not None else ""


def _identity(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_identity(v) for v in value]
    if isinstance(value, set):
        return {id(v) for v in value}
    if isinstance(value, Mapping):
        return [(id(k), _identity(v)) for k, v in value.items()]
    return value if isinstance(value, SIMPLE) else id(value)
