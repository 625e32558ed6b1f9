"""The user's own function of a step, run again under watch: its loss is part of what is seen."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from taiyi_fx.passes.module_tree import modules_of
from taiyi_fx.passes.runtime.session import Witness
from taiyi_fx.passes.structure import tensors_in
from taiyi_fx.recorder.replay.alone import MeetsOthers, alone
from taiyi_fx.recorder.replay.calls import Call, bad_arguments
from taiyi_fx.recorder.replay.facts import has_nan
from taiyi_fx.recorder.replay.iterators import CannotRepeat, is_iterator
from taiyi_fx.recorder.replay.kept_step import KeptStep
from taiyi_fx.recorder.replay.ran import Ran, run_replayed
from taiyi_fx.recorder.replay.roots import Roots
from taiyi_fx.recorder.replay.stage import surroundings
from taiyi_fx.recorder.replay.step_function import StepCall, StepFunction, StepFunctionFailed
from taiyi_fx.recorder.replay.watched import OperationWatch, Origin
from taiyi_fx.snapshot.bitwise import difference
from taiyi_fx.snapshot.state import State

Unread = Callable[[Witness], AbstractContextManager[None]]
"""In the body, calls of the model are not read, and a witness is told of them."""


class StepEnds(BaseException):
    """Ends a function where its step is tracked, or an optimizer's step begins.

    What follows there is the training's, and not to be done again. No Exception, as functions may
    catch those.
    """


class FunctionRerun:
    """Runs the functions of steps again, on a model that stands for the training's.

    Args:
        model: The model, which has other parameters for now.
        own: The training's parameters, which no optimizer is to step.
        tensors: The parameters and buffers that the model has for now, by name.
        unread: Has the model be called without readings.
    """

    def __init__(
        self,
        model: nn.Module,
        own: Sequence[nn.Parameter],
        tensors: Mapping[str, Tensor],
        unread: Unread,
    ) -> None:
        self._model, self._own, self._unread = model, own, unread
        self._parameters = [x for x in tensors.values() if isinstance(x, nn.Parameter)]
        self._buffers = {n: x for n, x in tensors.items() if not isinstance(x, nn.Parameter)}

    def run(self, kept: KeptStep, watch: OperationWatch, ran: Ran) -> None:
        """Runs the functions of a step; its origin is the first of outputs, losses, gradients.

        Raises:
            StepFunctionFailed: A function raised an error, and what it computed until then is no
                reason for it.
        """
        witness = _Calls(kept.calls, watch, ran, self._buffers)
        with ExitStack() as stack:
            stack.enter_context(_ending_at_steps(self._own))
            stack.enter_context(_ending_at_scalers())
            stack.enter_context(_gradients_put_aside(self._own))
            for module in _modules_beside(kept.functions, self._model):
                stack.callback(State(module).restore)
            stack.enter_context(self._unread(witness))
            failed = self._run_all(kept, watch, ran, witness)
        if not failed:
            witness.end_step()
        gradients = [watch.origin_of([p.grad for p in self._parameters])]
        meant = [one for one in witness.origins if one is not None and not one.is_meant]
        found = [*meant, *(one for one in gradients if one is not None)]
        ran.origin = min(found, key=lambda one: (one.is_meant, one.number), default=None)
        if failed and ran.origin is None:
            raise StepFunctionFailed(failed)
        ran.notes += [failed] if failed else []

    def _run_all(self, kept: KeptStep, watch: OperationWatch, ran: Ran, witness: _Calls) -> str:
        """Runs the functions; returns what one of them failed at, in words, or nothing."""
        for call in kept.functions:
            doing = "making the batch anew"
            witness.has_differentiated = False
            try:
                _check_names(call.function)
                args, kwargs = call.arguments()
                if call.has_other_batch(args[0] if args else ()):
                    what = "the batch that was made anew has other bits than that of then"
                    ran.differences.append(what)
                _blame_arguments(call, args, kwargs, watch)
                doing = call.function.name
                run_replayed(lambda call=call, a=args, k=kwargs: _run(call, a, k, watch, witness))
            except StepEnds:
                continue
            except CannotRepeat as error:
                return str(error)
            except (MeetsOthers, Exception) as error:  # noqa: BLE001 - the user's own, who is told
                what = f"{doing} {_told(error)}"
                if not witness.has_differentiated:
                    return what
                ran.notes.append(f"{what}; by then backward had run")
        return ""


def _told(error: BaseException) -> str:
    if isinstance(error, MeetsOthers):
        return f"waits for other ranks ({error}), and they do not run the step again"
    return f"raised {type(error).__name__}: {error}"


class _Calls:
    """The calls of the model within the functions of a step: a witness, which compares them."""

    def __init__(
        self,
        then: Sequence[Call],
        watch: OperationWatch,
        ran: Ran,
        buffers: Mapping[str, Tensor],
    ) -> None:
        self._then, self._watch, self._ran, self._buffers = then, watch, ran, buffers
        self._count = 0
        self.origins: list[Origin | None] = []
        self.has_differentiated = False

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any], is_compiled: bool) -> int:
        """Takes a call that begins; gives its number."""
        number, self._count = self._count, self._count + 1
        with self._watch.paused():
            if number < len(self._then):
                self._compare_arguments(self._then[number], args, kwargs)
            for name, x in bad_arguments(args, kwargs):
                if self._watch.origin_of([x]) is None:
                    self._watch.blame(f"{name} of the model", x, "forward")
            if number < len(self._then):
                self._then[number].restore_arguments(args, kwargs)
                with torch.no_grad():
                    for name, x in self._then[number].buffers.items():
                        self._buffers[name].copy_(x)
        return number

    def _compare_arguments(self, then: Call, args: Any, kwargs: Any) -> None:
        if then.was_changed or not then.has_arguments:
            return
        pairs = itertools.zip_longest(
            tensors_in((then.args, then.kwargs)), tensors_in((args, kwargs))
        )
        if any(a is None or b is None or difference(a, b) for a, b in pairs):
            self._ran.differences.append("the model was given other arguments than then")

    def end(self, token: int, value: Any) -> None:
        """Takes the output of a call, and compares it."""
        with self._watch.paused(), torch.no_grad():
            if token < len(self._then):
                self._ran.compare(self._then[token], value)
            self.take([*tensors_in(value), *self._buffers.values()])

    def end_step(self) -> None:
        """Notes a number of calls that is not that of then."""
        then = len(self._then)
        if self._count != then:
            what = f"the model was called {self._count} times, and {then} times then"
            self._ran.differences.append(what)

    def take(self, tensors: Sequence[Tensor]) -> None:
        """Takes the origin of what is not finite in some tensors."""
        with self._watch.paused():
            self.origins.append(self._watch.origin_of(tensors))


def _run(
    call: StepCall,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    watch: OperationWatch,
    witness: _Calls,
) -> None:
    """Runs a function, and backward of what it returned, where it left that to its caller."""
    roots = Roots()
    try:
        with surroundings(call), roots, alone(), watch.watching():
            outputs = [*tensors_in(call.function.run(*args, **kwargs))]
            reached = {i: g for i, g in call.gradients.items() if i < len(outputs)}
            if reached and not roots.found:
                roots.found += (outputs[i] for i in reached)
                torch.autograd.backward(roots.found, [g.clone() for g in reached.values()])
    finally:
        witness.has_differentiated = roots.has_ended
        witness.take(roots.found)


def _blame_arguments(call: StepCall, args: Any, kwargs: Any, watch: OperationWatch) -> None:
    for name, x in bad_arguments(args, kwargs):
        if has_nan(x):
            watch.blame(f"{name} of {call.function.name}", x, "forward")


@contextmanager
def _ending_at_steps(own: Sequence[nn.Parameter]) -> Iterator[None]:
    """In the body, an optimizer's step ends the function: no optimizer of the training steps."""
    known = {*own}

    def end(optimizer: Optimizer, *_: Any) -> None:
        if any(p in known for group in optimizer.param_groups for p in group["params"]):
            raise StepEnds
        name = type(optimizer).__name__
        raise RuntimeError(f"it makes a step of another optimizer, {name}, which cannot be undone")

    handle = register_optimizer_step_pre_hook(end)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _ending_at_scalers() -> Iterator[None]:
    """In the body, a scaler that is to take the loss scale out ends the function.

    It does so once in a step, of the training's own gradients, and notes that it did.
    """
    scaler: Any = torch.amp.GradScaler
    held = {name: vars(scaler)[name] for name in ("unscale_", "step")}
    thread = get_ident()

    def ending(method: Callable[..., Any]) -> Callable[..., Any]:
        def end(*args: Any, **kwargs: Any) -> Any:
            if get_ident() == thread:
                raise StepEnds
            return method(*args, **kwargs)

        return end

    try:
        for name, method in held.items():
            setattr(scaler, name, ending(method))
        yield
    finally:
        for name, method in held.items():
            setattr(scaler, name, method)


@contextmanager
def _gradients_put_aside(own: Sequence[nn.Parameter]) -> Iterator[None]:
    """In the body, the training's parameters have no gradients that a function could clear."""
    held = [(p, p.grad) for p in own]
    try:
        for p in own:
            p.grad = None
        yield
    finally:
        for p, gradient in held:
            p.grad = gradient


def _modules_beside(calls: Sequence[StepCall], model: nn.Module) -> list[nn.Module]:
    """The modules that functions name, apart from the model: a loss, a teacher."""
    of_model = {id(vars(module)) for module in modules_of(model)}
    named = (x for call in calls for x in (*_named_in(call.function.run).values(), *call.args))
    modules = {id(vars(x)): x for x in named if isinstance(x, nn.Module)}
    return [
        module
        for module in modules.values()
        if of_model.isdisjoint(id(vars(part)) for part in modules_of(module))
    ]


def _check_names(function: StepFunction) -> None:
    """Refuses a function that takes from an iterator of the training.

    Raises:
        CannotRepeat: It names one.
    """
    for name, value in _named_in(function.run).items():
        if is_iterator(value):
            raise CannotRepeat(
                f"{function.name} takes from the iterator {name!r}, of which the training would "
                "miss what is taken again: give it the batch as an argument"
            )


def _named_in(function: Any) -> dict[str, Any]:
    """The values of names in a function's code, and the attributes of the object it belongs to."""
    found = dict(getattr(getattr(function, "__self__", None), "__dict__", {}))
    function = inspect.unwrap(getattr(function, "__func__", function))
    if inspect.isfunction(function):
        named = inspect.getclosurevars(function)
        found |= {**named.nonlocals, **named.globals}
    return found
