"""The story in a few lines: a model and a configuration become an instrumented model."""

from __future__ import annotations

import copy
import functools
import gc
import os
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import fx, nn

import taiyi_fx.quantities  # noqa: F401 - declares the quantities
from taiyi_fx.config import Cfg, check
from taiyi_fx.functions import unseen_calls
from taiyi_fx.monitor import Monitor
from taiyi_fx.notice import warn
from taiyi_fx.passes.capture.captured import Capture
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.clone import slots_of
from taiyi_fx.passes.compiler import Instrumented, compile_probes
from taiyi_fx.passes.own_passes import Pass, apply_passes, check_passes
from taiyi_fx.passes.stand import is_probed, with_own_code
from taiyi_fx.ranks import check_groups
from taiyi_fx.schedule import check_step
from taiyi_fx.writers.protocol import Writer
from taiyi_fx.writers.store import Store

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def instrument(  # noqa: PLR0913 - options, which are given by name
    model: nn.Module,
    cfg: Cfg,
    *,
    start_step: int = 0,
    record_eval: bool = False,
    strict: bool = False,
    capture: Literal["auto", "whole"] = "auto",
    passes: Sequence[Pass] = (),
    epoch_statistics: Literal["exact", "streaming"] = "exact",
    process_group: ProcessGroup | Literal["auto"] | None = "auto",
    data_group: ProcessGroup | None = None,
    run: str | os.PathLike[str] | None = None,
    writers: Sequence[Writer] = (),
) -> InstrumentedModule:
    """Compiles monitoring into a model.

    The result computes exactly what the model computes, has the same parameters and buffers
    (the same tensors) and ``state_dict`` keys, and no module hooks. The model is left untouched.

    Args:
        model: The model, before it is wrapped for parallel training or compiled.
        cfg: Modules to their quantities. Keys are dotted names, class names, classes, patterns,
            predicates of name and module, or functions whose calls the graph shows, such as
            ``operator.add``; of torch and operator also as texts: ``"torch.nn.Linear"``. Entries
            are a quantity's name, ``[name, schedule]`` or ``[name, schedule, options]``, or a
            quantity on a schedule; and what `edit` returns.
        start_step: The step of the first forward.
        record_eval: Whether forwards in evaluation mode are recorded too, apart from training.
        strict: Raise what goes wrong in a quantity during training instead of warning once.
        capture: ``"whole"`` insists that the model's forward becomes one graph.
        passes: Functions of a graph and the module that its nodes name parts of, each of which
            returns the graph to go on with. They are applied in order, once to each graph of the
            model, before probes; what they make runs at each call, in training and evaluation,
            whatever is due.
        epoch_statistics: What `Monitor.tick_epoch` summarises from: ``"exact"`` keeps an epoch's
            numbers for quantiles, ``"streaming"`` only folds them.
        process_group: The ranks whose readings are joined, of which the first one records.
            ``"auto"`` is the default group, if torch.distributed is initialised at the first
            `Monitor.track`; ``None`` is each rank for itself. Of them, those are joined that have
            the same configuration, so that each stage of a pipeline records its own.
        data_group: Those of them that the data are split over, where others see the same batch,
            as with tensor parallelism; by default all.
        run: A folder to keep all records in, for `open_run`: made if it is not there. With
            ``start_step`` above 0 a run that is there is resumed, and what it has of that step and
            later ones dropped.
        writers: Where records go, besides. Copies of the instrumented model, by pickle or
            ``copy``, have neither run nor writers.

    Raises:
        ConfigError: The configuration is wrong; everything that is, is listed.
        TypeError: The model is no module, or a wrapper that has to come after; a group is none; or
            a pass is none, or returned no graph.
        ValueError: ``start_step`` is no step; a data group is given for a rank alone; with
            ``capture="whole"``, a part of the model has to stay Python; the run's file is damaged;
            or a pass made a graph that cannot run in the model's place.
        LookupError: The graph that a pass made names a part that the model does not have.
        OSError: The run's folder cannot be written to, is in use (``BlockingIOError``), or has a
            run already (``FileExistsError``). Where torch.distributed is initialised, the rank
            that records finds out, and warns of it, at the first `Monitor.track`.
    """
    _check_model(model)
    check_step("start_step", start_step)
    check_groups(process_group, data_group)
    if run is not None:
        writers = [Store(run), *writers]
    with _no_collection():
        options = _Options(
            record_eval,
            strict,
            capture,
            check_passes(passes),
            epoch_statistics,
            process_group,
            data_group,
        )
        return _instrument(model, cfg, start_step, options, writers)


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection in the body: it makes many objects that stay, and drops few."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _instrument(
    model: nn.Module,
    cfg: Cfg,
    start_step: int,
    options: _Options,
    writers: Sequence[Writer],
) -> InstrumentedModule:
    config = check(model, cfg)
    is_rewritten = bool(options.passes)
    captured = trace(model, config.targets(evaluation=options.record_eval or is_rewritten))
    if options.capture == "whole" and not captured.is_whole:
        raise ValueError(f"the model does not become one graph: {captured}")
    config = config.with_functions(model, captured)
    if is_rewritten:
        captured = _rewritten(captured, model, options.passes)
    compiled = compile_probes(
        model,
        captured,
        config.plan(),
        record_eval=options.record_eval,
        is_rewritten=is_rewritten,
    )
    unseen = unseen_calls(config.targets().functions, model, captured)
    findings = {**config.passed_over, **compiled.findings, **unseen}
    if findings:
        lines = "\n".join(f"  - {name!r}: {why}" for name, why in findings.items())
        what = "probes or edits" if config.edits else "probes"
        warn(f"some {what} will see nothing:\n{lines}")
    monitor = Monitor(
        config,
        compiled,
        start_step=start_step,
        strict=options.strict,
        epoch_statistics=options.epoch_statistics,
        groups=(options.process_group, options.data_group),
        writers=writers,
    )
    return _facade(_Instrumented(compiled, monitor, cfg, options))


def _rewritten(captured: Capture, model: nn.Module, passes: Sequence[Pass]) -> Capture:
    made = apply_passes(captured, model, passes)
    if not captured.is_whole:
        warn(f"passes see graphs alone, and of this model there is {captured}")
    return made


@dataclass(frozen=True)
class _Options:
    record_eval: bool
    strict: bool
    capture: Literal["auto", "whole"]
    passes: tuple[Pass, ...]
    epoch_statistics: Literal["exact", "streaming"]
    process_group: ProcessGroup | Literal["auto"] | None
    data_group: ProcessGroup | None


def _check_model(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"instrument takes a torch.nn.Module, not a {type(model).__name__}")
    for name, module in model.named_modules():
        if isinstance(module, InstrumentedModule) or is_probed(module):
            what = f"the part {name!r} of the model" if name else "the model"
            raise TypeError(
                f"{what} is instrumented already; instrument the model it came from with both "
                "configurations in one"
            )
    wrappers = (nn.DataParallel, nn.parallel.DistributedDataParallel, torch.jit.ScriptModule)
    if isinstance(model, wrappers) or _is_compiled(model):
        kind = type(model).__name__
        raise TypeError(
            f"instrument the model before it is wrapped: {kind}(instrument(model, cfg))"
        )
    for name, module in model.named_modules():
        if _is_compiled(module) or getattr(module, "_compiled_call_impl", None) is not None:
            what = f"the part {name!r} of the model" if name else "the model"
            raise TypeError(
                f"{what} was compiled by torch.compile, which hides its parts: instrument first, "
                "then compile what instrument returned, or that part of it"
            )


def _is_compiled(module: nn.Module) -> bool:
    # By its class's home: importing torch's compiler to ask takes a second.
    return type(module).__module__.startswith("torch._dynamo")


class InstrumentedModule(fx.GraphModule):
    """What `instrument` returns: a graph module that is an instance of the model's class as well.

    It shares its attributes with the cloned model whose forward it runs: what the model answers,
    it answers. Names of its own come first here, and the model's come first inside the model.

    Attributes:
        monitor: Schedules and records.
        capture: What became a graph, and what stayed Python and why.
        graph: The probed graph of the training forward, to look at.
    """

    def __init_subclass__(cls) -> None:
        """Keeps the model's class from taking note of an instrumented one as another model."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A plain model, for a method that makes another of its own: ``type(self)(...)``."""
        return cls._instrumented.model_class(*args, **kwargs)

    _instrumented: _Instrumented
    _lineno_map = None  # torch.compile asks a graph module for it

    @property
    def monitor(self) -> Monitor:
        """Schedules and records."""
        return self._instrumented.monitor

    @property
    def capture(self) -> Capture:
        """What became a graph, and what stayed Python and why."""
        return self._instrumented.compiled.capture

    @property
    def graph(self) -> fx.Graph:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The probed graph of the training forward, to look at; changing it changes nothing."""
        return self._instrumented.compiled.graph

    _graph = graph

    @property
    def code(self) -> str:
        """The probed graph as Python."""
        return self.graph.python_code("self").src

    _code = code

    def recompile(self) -> Any:
        """Refuses: the graph is there to look at.

        Raises:
            TypeError: Always.
        """
        raise TypeError("an instrumented model's graph is compiled from the model and cfg alone")

    def _apply(self, fn: Any, recurse: bool = True) -> Any:  # torch's own untyped function
        moved = super()._apply(fn, recurse)
        self._instrumented.compiled.table.drop()
        return moved

    def __deepcopy__(self, memo: dict[int, Any]) -> InstrumentedModule:
        with self._instrumented.compiled.installation.removed() as root:
            copied = copy.deepcopy(root, memo)
        made = _rebuild(copied, *self._arguments())
        memo[id(self)] = made
        return made

    def __copy__(self) -> InstrumentedModule:
        return _rebuild(self._plain(), *self._arguments())

    def __reduce__(self) -> Any:  # pickle's own untyped protocol
        cfg, options = self._arguments()
        # A process group cannot travel: the default one is taken instead, as torch's wrappers do.
        is_alone = options["process_group"] is None
        options.update(process_group=None if is_alone else "auto", data_group=None)
        return _rebuild, (self._plain(), cfg, options)

    def _plain(self) -> nn.Module:
        return self._instrumented.compiled.installation.plain()

    def _arguments(self) -> tuple[Cfg, dict[str, Any]]:
        made = self._instrumented
        return made.cfg, {**vars(made.options), "start_step": self.monitor.next_step}


@dataclass(frozen=True)
class _Instrumented:
    compiled: Instrumented
    monitor: Monitor
    cfg: Cfg
    options: _Options

    @property
    def model_class(self) -> type[nn.Module]:
        """The model's own class."""
        return type(self.compiled.root)


def _rebuild(model: nn.Module, cfg: Cfg, options: dict[str, Any]) -> InstrumentedModule:
    return instrument(model, cfg, **options)


def _facade(made: _Instrumented) -> InstrumentedModule:
    root = made.compiled.root
    installation = made.compiled.installation

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return installation.forward(*args, **kwargs)

    named = functools.wraps(type(root).forward)(with_own_code(forward, type(root)))
    body = {"forward": named, "_instrumented": made, "__module__": type(root).__module__}
    facade = object.__new__(_facade_class(type(root), body))
    # One namespace for both: what is set on one is there on the other.
    facade.__dict__ = root.__dict__
    for name, value in slots_of(root):
        object.__setattr__(facade, name, value)
    return facade


def _facade_class(model_class: type[nn.Module], body: dict[str, Any]) -> type[InstrumentedModule]:
    name = model_class.__name__
    try:
        bases = (InstrumentedModule, model_class)
        return types.new_class(name, bases, exec_body=lambda n: n.update(body))
    except TypeError:  # a class that allows no subclasses: its attributes are answered instead

        def answer(self: nn.Module, name: str) -> Any:
            return getattr(body["_instrumented"].compiled.root, name)

        body = {**body, "__getattr__": answer}
        return types.new_class(name, (InstrumentedModule,), exec_body=lambda n: n.update(body))
