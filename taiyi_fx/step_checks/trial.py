"""A step of a training, run again and again under conditions that are known."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from taiyi_fx.instrumented import InstrumentedModule
from taiyi_fx.passes.module_tree import modules_of
from taiyi_fx.passes.runtime.random_state import random_state, restore_random_state
from taiyi_fx.snapshot.state import State
from taiyi_fx.step_checks.backwards import backward
from taiyi_fx.step_checks.batch import Batch
from taiyi_fx.step_checks.calls import Call, recorded
from taiyi_fx.step_checks.optimizers import trained_by
from taiyi_fx.step_checks.stand_ins import learned, stand_ins
from taiyi_fx.step_checks.widened import widened


class Seen(NamedTuple):
    """One run of a step.

    Attributes:
        loss: What it returned.
        calls: The calls of modules, in the order in which they returned, if they were asked for.
        gradients: Those of parameters, by name, if they were asked for; None where there is none.
        generator: The state of torch's generator behind it.
    """

    loss: Tensor
    calls: list[Call]
    gradients: Mapping[str, Tensor | None]
    generator: Tensor


class Update(NamedTuple):
    """A parameter before and behind a step of an optimizer.

    Attributes:
        before: Its elements before.
        gradient: Its gradient.
        after: Its elements afterwards.
    """

    before: Tensor
    gradient: Tensor
    after: Tensor


@dataclass(frozen=True)
class Trial:
    """A step with the models that it trains, which are as they were before each run.

    Attributes:
        models: The models by name, the one that is looked at first, as ``""``.
        step: The function of a batch that returns the loss.
        batch: The batch.
        parameters: What is learned of the first model, by name.
        copies: The parameters that stand in for others, by the identity of these.
        trains: Whether modules are in training mode.
        dtype: The type of floating-point numbers; None if each has its own.
        states: What all models hold.
    """

    models: Mapping[str, nn.Module]
    step: Callable[..., Any]
    batch: Batch
    parameters: Mapping[str, nn.Parameter]
    copies: Mapping[int, nn.Parameter]
    dtype: torch.dtype | None
    trains: bool = True
    states: tuple[State, ...] = field(default=(), repr=False)

    @property
    def is_exact(self) -> bool:
        """True in float64, in which sums of another order differ by next to nothing."""
        return self.dtype == torch.float64

    @property
    def tolerance(self) -> float:
        """The relative difference of numbers that are the same but for their rounding."""
        return 1e-9 if self.is_exact else 1e-4

    def evaluating(self) -> Trial:
        """The same step with all modules in evaluation mode."""
        return replace(self, trains=False)

    def of(self, batch: Batch) -> Trial:
        """The same step of another batch."""
        return replace(self, batch=batch)

    def run(
        self,
        *,
        seed: int = 0,
        records: bool = False,
        differentiates: bool = False,
        within: AbstractContextManager[Any] | None = None,
        copy: Batch | None = None,
    ) -> Seen:
        """Runs the step.

        Args:
            seed: What all random numbers are drawn from.
            records: Whether to take down the calls of modules.
            differentiates: Whether to compute gradients.
            within: What the step's own code runs in.
            copy: A copy of the batch that it runs with; made if there is none.

        Raises:
            TypeError: The step returns no loss.
        """
        batch = copy or self.batch.converted(self.dtype)
        watched = recorded(self.models[""], records)
        with self._ready(seed), watched as calls:
            with within or nullcontext():
                loss = loss_of(self.step(*batch.args, **batch.kwargs))
            # Before models are put back, which changes in place what the graph may have saved.
            gradients = self._gradients(loss) if differentiates else {}
            return Seen(loss, calls, gradients, torch.get_rng_state())

    def _gradients(self, loss: Tensor) -> dict[str, Tensor | None]:
        backward(loss, [*self.parameters.values()])
        return {name: parameter.grad for name, parameter in self.parameters.items()}

    def loss(self, *, seed: int = 0) -> float:
        """The loss alone."""
        return self.run(seed=seed).loss.item()

    def called_again(self, call: Call, batch: Batch | None = None) -> list[Call]:
        """Calls a module as it was called, or with other arguments, and takes down all calls."""
        batch = batch or call.given
        module = self.models[""].get_submodule(call.module)
        with self._ready(0), torch.no_grad(), recorded(self.models[""], True) as calls:
            module(*batch.args, **batch.kwargs)
        return calls

    def train(self, optimizers: Sequence[Optimizer], steps: int) -> list[float]:
        """Trains on the batch, from what all models hold, and returns the losses."""
        losses: list[float] = []
        with self._ready(0):
            for _ in range(steps):
                losses.append(self._differentiated(optimizers).item())
                _step(optimizers)
        return losses

    def update(self, optimizers: Sequence[Optimizer]) -> dict[str, Update]:
        """Takes one step of optimizers, and returns what became of parameters with a gradient."""
        with self._ready(0):
            self._differentiated(optimizers)
            seen = {
                name: (parameter.detach().clone(), gradient.clone())
                for name, parameter in self.parameters.items()
                if (gradient := parameter.grad) is not None
            }
            _step(optimizers)
            after = {name: self.parameters[name].detach().clone() for name in seen}
        return {name: Update(*pair, after[name]) for name, pair in seen.items()}

    def _differentiated(self, optimizers: Sequence[Optimizer]) -> Tensor:
        """The loss, of which the parameters of optimizers have gradients."""
        batch = self.batch.converted(self.dtype)
        loss = loss_of(self.step(*batch.args, **batch.kwargs))
        backward(loss, trained_by(optimizers))
        return loss

    @contextmanager
    def _ready(self, seed: int) -> Iterator[None]:
        """Sets modes and random numbers; afterwards all models are as before."""
        try:
            for model in self.models.values():
                for module in modules_of(model):
                    module.training = module.training and self.trains
            _seed(seed)
            with widened() if self.is_exact else nullcontext():
                yield
        finally:
            for state in self.states:
                state.restore()


@contextmanager
def trial(
    models: Mapping[str, nn.Module],
    step: Callable[..., Any],
    batch: Batch,
    optimizers: Sequence[Optimizer],
    dtype: torch.dtype | None,
    *,
    shakes: bool = True,
) -> Iterator[Trial]:
    """A step that can be tried in the body; behind it, models and random numbers are as before.

    Args:
        models: The models by name, the one that is looked at first, as ``""``.
        step: The function of a batch that returns the loss.
        batch: The batch.
        optimizers: What has the parameters that are to be learned; none if all are.
        dtype: The type that floating-point numbers are converted to; None leaves each its own.
        shakes: Whether to move the parameters a little: where some are zero, as the last layer of
            a branch at first, much has no effect that has one a step later.
    """
    drawn = random_state()
    with ExitStack() as stack:
        stack.callback(restore_random_state, drawn)
        for model in models.values():
            if isinstance(model, InstrumentedModule) and not model.monitor.is_paused:
                model.monitor.pause()
                stack.callback(model.monitor.resume)
        if any(is_lazy(p) for model in models.values() for p in model.parameters()):
            raise ValueError("a lazy module has no parameters yet: call the model once before")
        copies = stack.enter_context(stand_ins(models, dtype))
        for model in models.values():
            if not model.training:
                model.train()
        found = learned(models[""])
        if optimizers:
            held = {id(copies.get(id(p))) for p in trained_by(optimizers)}
            found = {name: parameter for name, parameter in found.items() if id(parameter) in held}
        if shakes:
            _shake(found)
        states = tuple(map(State, models.values()))
        yield Trial(models, step, batch, found, copies, dtype, states=states)


Trials = Callable[..., AbstractContextManager[Trial]]
"""Of a type of floating-point numbers, and whether to move parameters: the step to be tried."""


def _step(optimizers: Sequence[Optimizer]) -> None:
    for optimizer in optimizers:
        optimizer.step()


def loss_of(found: Any) -> Tensor:
    """The loss among what a step returns.

    Raises:
        TypeError: There is none.
    """
    if isinstance(found, Tensor):
        loss = found
    elif isinstance(found, Mapping) and "loss" in found:
        loss = found["loss"]
    else:
        loss = getattr(found, "loss", None)
    if isinstance(loss, Tensor) and loss.numel() == 1:
        return loss.reshape(())
    seen = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
    what = seen if loss is not None or found is None else f"a {type(found).__name__} without a loss"
    raise TypeError(
        f"step returns the loss of a batch, a tensor of one element with its graph, but gave {what}"
    )


_SHAKEN = 0.05
"""What parameters are moved by, relative to their size."""
_SMALLEST = 1e-2
"""The size of a parameter of zeros, for this."""


def _shake(parameters: Mapping[str, nn.Parameter]) -> None:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in parameters.values():
            if parameter.is_floating_point():
                size = parameter.float().square().mean().sqrt().clamp(min=_SMALLEST).item()
                drawn = torch.randn(parameter.shape, generator=generator)
                parameter.add_(drawn.to(parameter), alpha=_SHAKEN * size)


def _seed(seed: int) -> None:
    torch.manual_seed(seed)  # also those of GPUs
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
