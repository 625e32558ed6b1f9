"""A bad step as a file: what it takes to run it again elsewhere, with what was found."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taiyi_fx.passes.module_tree import buffers_of, named_buffers, named_parameters, parameters_of
from taiyi_fx.recorder.replay.band import OF_ALERTS, Band
from taiyi_fx.recorder.replay.calls import Call, as_numbers
from taiyi_fx.recorder.replay.checkpoint import Checkpoint, OptimizerState
from taiyi_fx.recorder.replay.kept_step import KeptStep
from taiyi_fx.recorder.replay.plain import CannotSave, Plain, value_of
from taiyi_fx.recorder.replay.replayer import CannotReplay, replay_step
from taiyi_fx.recorder.replay.rerun import Ways
from taiyi_fx.recorder.replay.result import Replay
from taiyi_fx.recorder.replay.safetensors_file import read_tensors, write_tensors
from taiyi_fx.recorder.replay.stand_ins import with_training, without_training
from taiyi_fx.recorder.replay.step_function import StepCall, StepFunction
from taiyi_fx.recorder.replay.told_by_hooks import told_by_hooks
from taiyi_fx.version import __version__

_KEY = "taiyi_fx.bad_step"
_FORMAT = 1

Values: TypeAlias = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class BadStep:
    """A bad step, as a file has it.

    Attributes:
        replay: What was found as it was run again where it happened.
        steps: The step, with the state that it began from; before it those that it was compared
            with, where its numbers are finite and too large.
        optimizers: The classes of the optimizers.
        device: The device that the model was on.
        torch: The version of torch.
        no_function: The reason why it has no calls of a step's function, where there were some.
        band: The steps that it is compared with, where its numbers are finite and too large.
    """

    replay: Replay
    steps: tuple[KeptStep, ...]
    optimizers: tuple[str, ...]
    device: str
    torch: str
    no_function: str = ""
    band: Band | None = None

    def run_on(self, model: nn.Module, step: Callable[..., Any] | None = None) -> Replay:
        """Runs the step again, on a model of the same shape: on its device, with its code.

        Args:
            model: The model.
            step: The function of the step, as `Recorder.step` was given it: it is called with the
                arguments of then, this model in place of the training's. Without it the calls of
                the model are run again alone, and not its loss.

        Raises:
            ValueError: The model has not the same parameters and buffers; or a function is given,
                and the file has no calls of one.
            CannotReplay: No state in the file is finite, or none leads to the step; or it went
                wrong in the step of an optimizer that is not one of torch's.
            StepFunctionFailed: The function raised an error.
        """
        _check_model(model, self.steps[0])
        optimizers, unknown = _made_optimizers(self.optimizers, model)
        if unknown and self.replay.phase == "optimizer":
            raise CannotReplay(
                f"it went wrong in the optimizer's step, and {unknown[0]}; where it happened, it "
                f"was\n{self.replay}"
            )
        steps = self.steps
        if step is not None:
            self._check_function()
            steps = [_with_function(one, step, model, optimizers) for one in steps]

        def forward(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return model(*args, **kwargs)

        ways = Ways(forward, unread=None if step is None else told_by_hooks(model))
        try:
            found, _ = replay_step(
                self.replay.step,
                steps,
                model,
                ways,
                optimizers,
                is_live=False,
                band=self.band if self._is_of_size else None,
            )
        except CannotReplay as error:
            raise CannotReplay("; ".join([str(error), *unknown])) from error
        return _with_notes(found, [*self._differences(model), *unknown])

    @property
    def _is_of_size(self) -> bool:
        is_finite = all(x.is_finite for x in self.replay.outputs)
        return bool(self.replay.operation) and is_finite

    def _check_function(self) -> None:
        if not any(one.is_of_functions for one in self.steps):
            why = self.no_function or "the model was called outside of one that recorder.step has"
            raise ValueError(f"the file has no calls of a function of the step: {why}")

    def _differences(self, model: nn.Module) -> list[str]:
        here = _device_of(model)
        found = []
        if here.partition(":")[0] != self.device.partition(":")[0]:
            found.append(f"it ran on {self.device} then, and on {here} now")
        if torch.__version__ != self.torch:
            found.append(f"torch was {self.torch} then, and is {torch.__version__} now")
        return found


def save_bad_step(
    file: Path,
    replay: Replay,
    steps: Sequence[KeptStep],
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    initial: Values = MappingProxyType({}),
    band: Band | None = None,
) -> None:
    """Writes a step that was replayed, and all that it takes to run it again, to a file.

    Args:
        file: The file.
        replay: What was found.
        steps: The steps that were run.
        model: The model.
        optimizers: The optimizers that train it.
        initial: The plain values that modules had as they were made, which the file leaves out: so
            a model whose constants were mended keeps them.
        band: The steps that it was compared with, if it was looked at for its sizes.

    Raises:
        CannotSave: An argument of the model is of a class that a file cannot hold.
        TypeError: A tensor is of a type that it cannot hold.
        OSError: The file cannot be written.
    """
    plain = Plain()
    functions, no_function = _functions(plain, steps, model, optimizers)
    content = {
        "format": _FORMAT,
        "taiyi_fx": __version__,
        "torch": str(torch.__version__),
        "python": sys.version.split()[0],
        "device": _device_of(model),
        "optimizers": [f"{type(o).__module__}.{type(o).__qualname__}" for o in optimizers],
        "replay": plain.value("replay", replay.as_dict()),
        "steps": [_step(plain, i, kept, initial) for i, kept in enumerate(steps)],
        "band": None if band is None else [band.back, band.factor],
        "functions": functions,
        "no_function": no_function,
    }
    write_tensors(file, plain.tensors, {_KEY: json.dumps(content)})


def load_bad_step(file: Path) -> BadStep:
    """A bad step from a file. Nothing that the file holds is run.

    Raises:
        ValueError: It is not such a file.
        OSError: It cannot be read.
    """
    tensors, metadata = read_tensors(file)
    if _KEY not in metadata:
        raise ValueError(f"{file} has tensors, and no step to be run again")
    content = json.loads(metadata[_KEY])
    if content["format"] != _FORMAT:
        raise ValueError(
            f"{file} was written by taiyi_fx {content['taiyi_fx']}, in another form: read it there"
        )
    replay = Replay.of_dict(value_of(content["replay"], tensors))
    steps = [_loaded_step(one, tensors) for one in content["steps"]]
    for kept, calls in zip(steps, content.get("functions", []), strict=False):
        kept.functions = [_loaded_function(one, tensors) for one in calls]
    names, why = tuple(content["optimizers"]), content.get("no_function", "")
    # Files of before, which have none, are of alerts.
    band = OF_ALERTS if content.get("band") is None else Band(*content["band"])
    return BadStep(replay, tuple(steps), names, content["device"], content["torch"], why, band)


def _step(plain: Plain, i: int, kept: KeptStep, initial: Values) -> dict[str, Any]:
    state = kept.checkpoint
    return {
        "step": kept.step,
        "ranks": kept.ranks,
        "had_gradients": kept.had_gradients,
        "has_other_calls": kept.has_other_calls,
        "values": plain.value("values", _changed(kept.values, initial)),
        "norms": {
            str(of): [None if x is None else float(x) for x in norms]
            for of, norms in kept.norms.items()
        },
        "settings": plain.value(
            f"steps.{i}.settings", {str(o): g for o, g in kept.settings.items()}
        ),
        "calls": [_call(plain, f"steps.{i}.calls.{j}", c) for j, c in enumerate(kept.calls)],
        "checkpoint": None if state is None else _checkpoint(plain, f"steps.{i}.state", state),
    }


def _functions(
    plain: Plain, steps: Sequence[KeptStep], model: nn.Module, optimizers: Sequence[Optimizer]
) -> tuple[list[Any], str]:
    """For each step the calls of its function; nothing, and the reason, if a file cannot hold them.

    Without them, a step can still be run again by the calls of the model.
    """
    try:
        every = [
            [
                _function(plain, f"steps.{i}.functions.{j}", call, model, optimizers)
                for j, call in enumerate(kept.functions if kept.is_of_functions else ())
            ]
            for i, kept in enumerate(steps)
        ]
    except CannotSave as error:
        return [], str(error).partition("functions.")[2]
    return every, ""


def _function(
    plain: Plain, path: str, call: StepCall, model: nn.Module, optimizers: Sequence[Optimizer]
) -> dict[str, Any]:
    given: tuple[Any, Any] = call.args, call.kwargs
    if call.function.batch is not None:
        try:
            given = call.arguments()
        except Exception as error:
            raise CannotSave(
                f"functions.the batch could not be made anew: {type(error).__name__}: {error}"
            ) from error
    args, kwargs = without_training(*given, model, optimizers)
    return {
        "args": plain.value(f"{path}.args", args),
        "kwargs": plain.value(f"{path}.kwargs", kwargs),
        "random": _random(plain, f"{path}.random", call.random),
        "autocast": plain.value(path, dict(call.autocast)),
        "gradients": [
            [i, plain.tensor(f"{path}.gradients.{i}", x)] for i, x in call.gradients.items()
        ],
    }


def _call(plain: Plain, path: str, call: Call) -> dict[str, Any]:
    return {
        "args": plain.value(f"{path}.args", tuple(call.args)),
        "kwargs": plain.value(f"{path}.kwargs", dict(call.kwargs)),
        "is_compiled": call.is_compiled,
        "is_complete": call.is_complete,
        "random": _random(plain, f"{path}.random", call.random),
        "autocast": plain.value(path, dict(call.autocast)),
        "outputs": [as_numbers(one) for one in call.outputs],
        "buffers": [
            [name, plain.tensor(f"{path}.buffers.{name}", x)] for name, x in call.buffers.items()
        ],
        "gradients": [
            [i, plain.tensor(f"{path}.gradients.{i}", x)] for i, x in call.gradients.items()
        ],
    }


def _checkpoint(plain: Plain, path: str, state: Checkpoint) -> dict[str, Any]:
    names = {name: plain.tensor(f"{path}.{name}", x) for name, x in state.tensors.items()}
    optimizers = [
        {
            "groups": [plain.value("a group of the optimizer", dict(g)) for g in o.groups],
            "states": plain.value("a state of the optimizer", dict(o.states)),
        }
        for o in state.optimizers
    ]
    return {
        "step": state.step,
        "tensors": names,
        "optimizers": optimizers,
        "random": _random(plain, f"{path}.random", state.random),
    }


def _changed(values: Values, initial: Values) -> dict[str, dict[str, Any]]:
    """The values that are others than at first, without those that JSON has no form for."""
    found: dict[str, dict[str, Any]] = {}
    for module, held in values.items():
        first = initial.get(module, {})
        other = {k: v for k, v in held.items() if k not in first or first[k] != v}
        found[module] = {k: v for k, v in other.items() if not isinstance(v, (bytes, complex))}
    return found


def _random(plain: Plain, path: str, state: Mapping[str, Any]) -> Any:
    found = dict(state)
    if "numpy" in found:
        name, keys, *rest = found["numpy"]
        found["numpy"] = (name, torch.from_numpy(keys.astype("int64")), *rest)
    return plain.value(path, found)


def _loaded_step(found: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> KeptStep:
    state = found["checkpoint"]
    return KeptStep(
        found["step"],
        None if state is None else _loaded_checkpoint(state, tensors),
        found["had_gradients"],
        value_of(found["values"], tensors),
        [_loaded_call(one, tensors) for one in found["calls"]],
        {int(of): _loaded_norms(norms) for of, norms in found["norms"].items()},
        {int(of): groups for of, groups in value_of(found["settings"], tensors).items()},
        is_tracked=True,
        has_other_calls=found.get("has_other_calls", True),
        ranks=found.get("ranks", 1),
    )


def _loaded_function(found: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> StepCall:
    return StepCall(
        StepFunction(_not_given),
        value_of(found["args"], tensors),
        value_of(found["kwargs"], tensors),
        (),
        _loaded_random(found["random"], tensors),
        value_of(found["autocast"], tensors),
        {i: value_of(x, tensors).detach() for i, x in found["gradients"]},
    )


def _not_given(*_: Any, **__: Any) -> None:
    raise ValueError("a file does not have the function of a step: give it as step=")


def _with_function(
    kept: KeptStep, step: Callable[..., Any], model: nn.Module, optimizers: Sequence[Optimizer]
) -> KeptStep:
    """A step whose calls are those of a function, with the model and optimizers of here."""
    calls = []
    for call in kept.functions:
        args, kwargs = with_training(call.args, call.kwargs, model, optimizers)
        calls.append(replace(call, function=StepFunction(step), args=args, kwargs=kwargs))
    return replace(kept, functions=calls)


def _loaded_norms(norms: Sequence[float | None]) -> list[Tensor | None]:
    return [None if x is None else torch.tensor(x, dtype=torch.float64) for x in norms]


def _loaded_call(found: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Call:
    return Call(
        value_of(found["args"], tensors),
        value_of(found["kwargs"], tensors),
        found["is_compiled"],
        _loaded_random(found["random"], tensors),
        value_of(found["autocast"], tensors),
        tuple(None if p is None else tuple(map(torch.tensor, p)) for p in found["outputs"]),
        {i: value_of(x, tensors).detach() for i, x in found["gradients"]},
        found["is_complete"],
        buffers={name: value_of(x, tensors) for name, x in found.get("buffers", [])},
    )


def _loaded_checkpoint(found: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Checkpoint:
    optimizers = tuple(
        OptimizerState(
            tuple(value_of(g, tensors) for g in o["groups"]), value_of(o["states"], tensors)
        )
        for o in found["optimizers"]
    )
    return Checkpoint(
        found["step"],
        {name: tensors[held["tensor"]] for name, held in found["tensors"].items()},
        optimizers,
        _loaded_random(found["random"], tensors),
    )


def _loaded_random(found: Any, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    state = value_of(found, tensors)
    if "numpy" in state:
        name, keys, *rest = state["numpy"]
        state["numpy"] = (name, keys.numpy().astype("uint32"), *rest)
    if not torch.cuda.is_available():
        state.pop("cuda", None)
    return state


def _device_of(model: nn.Module) -> str:
    return next((str(x.device) for x in (*parameters_of(model), *buffers_of(model))), "cpu")


def _check_model(model: nn.Module, first: KeptStep) -> None:
    assert first.checkpoint is not None
    kept = {
        name.partition(".")[2]: tuple(x.shape)
        for name, x in first.checkpoint.tensors.items()
        if name.startswith("model.")
    }
    named = (*named_parameters(model), *named_buffers(model))
    here = {name: tuple(x.shape) for name, x in named}
    wrong = [
        f"{n} is {here.get(n, 'not there')} here, and was {kept.get(n, 'not there')} then"
        for n in {**kept, **here}
        if kept.get(n) != here.get(n)
    ]
    if wrong:
        raise ValueError(
            "the model is not the one of the step: "
            + "; ".join(wrong[:3])
            + (f"; and {len(wrong) - 3} more" if len(wrong) > 3 else "")
        )


def _made_optimizers(names: Sequence[str], model: nn.Module) -> tuple[list[Optimizer], list[str]]:
    """Optimizers of torch's classes, and a text where one is of another class."""
    found: list[Optimizer] = []
    for name in names:
        home, _, kind = name.rpartition(".")
        # Of torch's own alone: a file does not choose the code that is run.
        of_class = getattr(torch.optim, kind, None) if home.startswith("torch.optim") else None
        if of_class is None:
            return [], [f"the optimizer {name} is not one of torch's, and its step was left out"]
        found.append(of_class(parameters_of(model)))
    return found, []


def _with_notes(replay: Replay, notes: Sequence[str]) -> Replay:
    return replace(replay, note="; ".join([*([replay.note] if replay.note else []), *notes]))
