"""`instrument`: a model and a configuration become an instrumented model."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

import taiyi_fx.quantities.stock  # noqa: F401 - declares the quantities
from taiyi_fx.config.check import ConfigError, check, with_functions
from taiyi_fx.config.merged import Cfg
from taiyi_fx.config.subscriptions import Config
from taiyi_fx.findings.finding import Severity
from taiyi_fx.instrumented import (
    Instrumentation,
    InstrumentedModule,
    Options,
    face_of,
    monitor_of,
)
from taiyi_fx.monitor import Monitor
from taiyi_fx.passes.capture.captured import Capture
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.ir import OPTIMIZER_PORTS, Port, Reading
from taiyi_fx.passes.module_tree import named_modules
from taiyi_fx.passes.override import drop_copies
from taiyi_fx.passes.probes.modes import modes_off
from taiyi_fx.passes.rewrite.own_passes import Pass, apply_passes, check_passes
from taiyi_fx.passes.runtime.build import build
from taiyi_fx.recorder.recorder import Recorder, check_recorder
from taiyi_fx.recorder.sites import recorded_modules, with_sites
from taiyi_fx.runs.part import check_name
from taiyi_fx.runs.resume import next_step
from taiyi_fx.schedule import check_step
from taiyi_fx.step.optimizer_states import lacking
from taiyi_fx.step.ranks import check_groups
from taiyi_fx.step.ranks.meet import Groups
from taiyi_fx.step.whole_model import check_optimizers
from taiyi_fx.warning import warn
from taiyi_fx.watch import OnFinding, WatchOptions
from taiyi_fx.writers.protocol import Writer
from taiyi_fx.writers.store import Store

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def instrument(  # noqa: PLR0913 - options, which are given by name
    model: nn.Module,
    cfg: Cfg = None,
    *,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    start_step: int = 0,
    record_eval: bool = False,
    strict: bool = False,
    capture: Literal["auto", "whole"] = "auto",
    passes: Sequence[Pass] = (),
    epoch_statistics: Literal["exact", "streaming"] = "exact",
    process_group: ProcessGroup | Literal["auto"] | None = "auto",
    data_group: ProcessGroup | None = None,
    run: str | os.PathLike[str] | None = None,
    part: str = "",
    overwrite: bool = False,
    resume: Literal["auto"] | None = None,
    writers: Sequence[Writer] = (),
    on_finding: OnFinding = None,
    finding_severity: Severity = "alert",
    recorder: Recorder | None = None,
) -> InstrumentedModule:
    """Compiles monitoring into a model.

    The result is a second face of the same model: the same modules, parameters, buffers and
    attributes, through whichever of the two they are changed. A call of it computes exactly what
    the model computes, and is read; ``model(x)`` stays plain. There are no module hooks, and the
    model is changed only while such a call runs. Monitoring ends when the result is deleted or its
    monitor closed.

    Args:
        model: The model, before it is wrapped for parallel training or compiled.
        cfg: Modules to their quantities; the name of a preset, such as ``"transformer"``; or a list
            of these, which are added up. None is the preset that fits the model, as `presets`
            lists them: alone, or in a list. Keys are dotted names, class names, classes, patterns,
            predicates of name and module, or functions whose calls the graph shows, such as
            ``operator.add``; of torch and operator also as texts: ``"torch.nn.Linear"``. Entries
            are a quantity's name, ``[name, schedule]`` or ``[name, schedule, options]``, or a
            quantity on a schedule; and what `edit` returns.
        optimizer: The optimizer that trains the model, or several, for what is asked of the model
            as a whole; `Monitor.watch_optimizer` takes it later, and the trainers' callbacks do.
        start_step: The step of the first forward.
        record_eval: Record forwards in evaluation mode too, apart from training.
        strict: Raise errors of quantities during training instead of warning once.
        capture: ``"whole"`` insists that the model's forward becomes one graph.
        passes: Functions of a graph and the module that its nodes name parts of, each of which
            returns the graph to use. They are applied in order, once to each graph of the model,
            before probes; their graphs run at each call, in training and evaluation, even if
            nothing is due.
        epoch_statistics: The data for `Monitor.tick_epoch`: ``"exact"`` keeps an epoch's numbers
            for quantiles, up to five million; ``"streaming"`` only folds them.
        process_group: The ranks whose readings are joined, of which the first one records.
            ``"auto"`` is the default group, if torch.distributed is initialised at the first
            `Monitor.track`; with ``None`` each rank records alone. Only ranks with the same
            configuration are joined, so that each stage of a pipeline records its own.
        data_group: Those of them that the data are split over, where others see the same batch,
            as with tensor parallelism; by default all.
        run: A folder to keep all records in, for `open_run`; created if missing. With
            ``start_step`` above 0 an existing run is resumed: its data at that step and later
            are dropped.
        part: The name of this model as a part of the run, where several models write one: stages of
            a pipeline, or a generator and its critic. Its records are in a folder of that name
            inside the run's, with the name in front of modules when the run is read; and only
            ranks with the same part are joined.
        overwrite: Replace the folder's run, where this one begins at step 0.
        resume: ``"auto"`` goes on after the last step of the folder's run, if it has one and
            ``start_step`` is 0: `Monitor.next_step` says where.
        writers: Further places for the records. Copies of the instrumented model, by pickle or
            ``copy``, have neither run nor writers, and no ``on_finding``.
        on_finding: What is done with each new finding while training goes on, beside a warning: a
            function of the `Finding`; ``"stop"`` sets `Monitor.should_stop`, and has a trainer
            stop; ``"skip"`` sets `Monitor.should_skip` at steps to leave out, whose numbers
            `Monitor.track` then waits for; ``"raise_cadence"`` has `adaptive` schedules read each
            step for a while, which warnings and alerts do anyway; an address, ``"https://..."``,
            is sent the finding as JSON; or a list of these.
        finding_severity: The lowest severity of findings that are acted upon. Alerts and warnings
            are warned of, whatever it is.
        recorder: Keeps the last steps, and runs one that went wrong again: see `Recorder`.

    Raises:
        ConfigError: The configuration is wrong; everything that is, is listed.
        TypeError: The model is not a module, or is a wrapper that has to come after; a group is not
            a process group; ``part`` is not a text; a pass is not a function, or did not return a
            graph; or ``on_finding`` is none of these; or the recorder is none.
        ValueError: ``start_step`` is not a step; a run is both to be replaced and resumed, or no
            folder is given for it; ``part`` cannot be a folder's name; ``on_finding`` has a text
            that is neither an action nor an address, or ``finding_severity`` is none; a data group
            is given for a rank alone; with ``capture="whole"``, a part of the model has to stay
            Python; the run's file is damaged; or a pass made a graph that cannot run in the model's
            place.
        LookupError: The graph that a pass made names a part that the model does not have.
        OSError: The run's folder cannot be written to, is in use (``BlockingIOError``), or has a
            run already (``FileExistsError``). Where torch.distributed is initialised, the rank
            that records finds out, and warns of it, at the first `Monitor.track`.
    """
    _check_model(model)
    check_step("start_step", start_step)
    check_groups(process_group, data_group)
    check_name(part)
    watched = WatchOptions(on_finding, finding_severity)
    start_step = _first_step(start_step, run, overwrite=overwrite, resume=resume)
    optimizers = check_optimizers(optimizer)
    if recorder is not None:
        check_recorder(recorder).folder = None if run is None else Path(run, part)
    if run is not None:
        writers = [Store(run, overwrite=overwrite), *writers]
    with _no_collection(), modes_off():
        options = Options(
            record_eval,
            strict,
            capture,
            check_passes(passes),
            epoch_statistics,
            process_group,
            data_group,
            part,
        )
        made = _instrument(model, cfg, start_step, options, writers, watched, optimizers, recorder)
    monitor_of(made).watch_optimizer(*optimizers)
    return made


def _first_step(
    start_step: int, run: str | os.PathLike[str] | None, *, overwrite: bool, resume: str | None
) -> int:
    """The step to begin at: that given, or the one after a run that is resumed."""
    if resume not in (None, "auto"):
        raise ValueError(f'resume is "auto" or None, not {resume!r}: give a step as start_step=')
    if run is None and (overwrite or resume):
        raise ValueError("overwrite and resume are of a run: give its folder as run=")
    if overwrite and resume:
        raise ValueError('a run is replaced (overwrite=True) or resumed (resume="auto"), not both')
    return next_step(run) if run is not None and resume and not start_step else start_step


@contextmanager
def _no_collection() -> Iterator[None]:
    """Suspends garbage collection in the body, which makes many objects that stay."""
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
    options: Options,
    writers: Sequence[Writer],
    watched: WatchOptions,
    optimizers: Sequence[torch.optim.Optimizer],
    recorder: Recorder | None,
) -> InstrumentedModule:
    config = check(model, cfg)
    _check_states(config, optimizers)
    is_rewritten = bool(options.passes)
    recorded = () if recorder is None else recorded_modules(model)
    evaluation = options.record_eval or is_rewritten
    captured = trace(model, config.targets(evaluation=evaluation, also=recorded))
    if options.capture == "whole" and not captured.is_whole:
        raise ValueError(f"the model does not become one graph: {captured}")
    config = with_functions(config, model, captured)
    if is_rewritten:
        captured = _rewritten(captured, model, options.passes)
    plan = config.plan()
    compiled = build(
        model,
        captured,
        plan if recorder is None else with_sites(plan, model),
        record_eval=options.record_eval,
        is_rewritten=is_rewritten,
        asked=plan,
    )
    findings = {**config.passed_over, **_of_named(compiled.findings, config)}
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
        groups=Groups(options.process_group, options.data_group, options.part),
        writers=writers,
        watched=watched,
        recorder=recorder,
    )
    return face_of(Instrumentation(compiled, monitor, cfg, options, make_again))


def _check_states(config: Config, optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Checks that the optimizers keep what is asked for by name.

    Raises:
        ConfigError: None of them does.
    """
    asked = {s.quantity: s.readings for s in config.subscriptions if not s.is_optional}
    problems = [
        f"{quantity.name} is not available: {why}"
        for quantity, readings in asked.items()
        if (why := lacking(optimizers, _ports_of_optimizer(readings.values())))
    ]
    if problems:
        raise ConfigError(problems)


def _ports_of_optimizer(readings: Iterable[Reading]) -> list[Port]:
    return [r.site.port for r in readings if r.site.port in OPTIMIZER_PORTS]


def _of_named(findings: Mapping[str, str], config: Config) -> dict[str, str]:
    """The findings without those of modules that a preset alone asks for."""
    optional = {s.module for s in config.subscriptions if s.is_optional}
    named = {s.module for s in config.subscriptions if not s.is_optional}
    return {name: why for name, why in findings.items() if name not in optional - named}


def _rewritten(captured: Capture, model: nn.Module, passes: Sequence[Pass]) -> Capture:
    made = apply_passes(captured, model, passes)
    if not captured.is_whole:
        warn(f"passes apply to graphs only, and this model became {captured}")
    return made


def _check_model(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"instrument takes a torch.nn.Module, not a {type(model).__name__}")
    for name, module in named_modules(model):
        if isinstance(module, InstrumentedModule):
            what = f"the part {name!r} of the model" if name else "the model"
            raise TypeError(
                f"{what} is instrumented already: give instrument the model that it came from"
            )
    wrappers = (nn.parallel.DistributedDataParallel, torch.jit.ScriptModule)
    if isinstance(model, nn.DataParallel):
        raise TypeError(
            "DataParallel runs copies of the model in threads, which cannot be read: use "
            "DistributedDataParallel(instrument(model, cfg)), one process for each device"
        )
    if isinstance(model, wrappers) or _is_compiled(model):
        kind = type(model).__name__
        raise TypeError(
            f"instrument the model before it is wrapped: {kind}(instrument(model, cfg))"
        )
    for name, module in named_modules(model):
        if _is_compiled(module) or getattr(module, "_compiled_call_impl", None) is not None:
            what = f"the part {name!r} of the model" if name else "the model"
            context = type(getattr(module, "dynamo_ctx", None)).__name__
            if context == "DisableContext":
                raise TypeError(
                    f"{what} was wrapped by torch.compiler.disable, which hides its parts: disable "
                    "the forward of its class instead, or wrap the part after instrument"
                )
            raise TypeError(
                f"{what} was compiled by torch.compile, which hides its parts: instrument first, "
                "then compile what instrument returned, or that part of it"
            )


def _is_compiled(module: nn.Module) -> bool:
    # By its class's home: importing torch's compiler to ask takes a second.
    return type(module).__module__.startswith("torch._dynamo")


def make_again(model: nn.Module, cfg: Cfg, options: dict[str, Any]) -> InstrumentedModule:
    """An instrumented object from what a copy or a pickle of one holds."""
    drop_copies(model)
    return instrument(model, cfg, **options)
