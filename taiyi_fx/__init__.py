"""Monitoring compiled into a PyTorch model: no module hooks, no change, numbers that hold.

To read the code, begin with ``instrument.py``, and follow a number on its way: ``config`` (what is
asked for), ``passes`` (the compiler, which puts probes into the model's graphs), ``reductions``
(what a probe keeps of a tensor), ``step`` (what is due at a step, collected and computed),
``quantities`` (what it is computed by), ``records``, and from there to ``findings``, ``writers``,
``runs`` and ``pictures``. ``docs/explanation/architecture.md`` has all folders, with pictures.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import TYPE_CHECKING, Any

from taiyi_fx.version import __version__ as __version__

if TYPE_CHECKING:
    from taiyi_fx.config.check import ConfigError
    from taiyi_fx.config.edits import Edit, edit
    from taiyi_fx.config.presets import Preset, preset, presets
    from taiyi_fx.coordinates import CoordinateCheck, coordinate_check
    from taiyi_fx.findings import Finding
    from taiyi_fx.instrument import instrument
    from taiyi_fx.instrumented import InstrumentedModule, capture_of, graph_of, monitor_of
    from taiyi_fx.monitor import Monitor
    from taiyi_fx.optimizers import TrainedParameter, describe_optimizer
    from taiyi_fx.passes.ir import CallReduction, PairReduction, Reduction
    from taiyi_fx.pictures.diagram import Diagram, diagram
    from taiyi_fx.pictures.report import report
    from taiyi_fx.quantities.catalogue import Quantities, QuantityInfo, quantities
    from taiyi_fx.quantities.declare import NoValue, Quantity, quantity
    from taiyi_fx.quantities.health import Verdict
    from taiyi_fx.quantities.places import (
        buffer,
        call,
        input,
        input_grad,
        output,
        output_grad,
        pair,
        parameter,
        parameter_grad,
        previous,
        weight,
        weight_grad,
    )
    from taiyi_fx.recorder import Recorder, Recording, Replay
    from taiyi_fx.records.epochs import EpochSummary
    from taiyi_fx.records.grid import Grid
    from taiyi_fx.records.record import NonFiniteSite, Record, Records
    from taiyi_fx.reductions import fingerprint
    from taiyi_fx.runs import Run, open_run
    from taiyi_fx.schedule import adaptive, at_steps, every, linear
    from taiyi_fx.step_checks import step_check
    from taiyi_fx.verification import Verification, verify
    from taiyi_fx.warning import MonitorWarning
    from taiyi_fx.writers.visualization import Visualization

__all__ = [
    "CallReduction",
    "ConfigError",
    "CoordinateCheck",
    "Diagram",
    "Edit",
    "EpochSummary",
    "Finding",
    "Grid",
    "InstrumentedModule",
    "Monitor",
    "MonitorWarning",
    "NoValue",
    "NonFiniteSite",
    "PairReduction",
    "Preset",
    "Quantities",
    "Quantity",
    "QuantityInfo",
    "Record",
    "Recorder",
    "Recording",
    "Records",
    "Reduction",
    "Replay",
    "Run",
    "TrainedParameter",
    "Verdict",
    "Verification",
    "Visualization",
    "adaptive",
    "at_steps",
    "buffer",
    "call",
    "capture_of",
    "coordinate_check",
    "describe_optimizer",
    "diagram",
    "edit",
    "every",
    "fingerprint",
    "graph_of",
    "input",
    "input_grad",
    "instrument",
    "linear",
    "monitor_of",
    "open_run",
    "output",
    "output_grad",
    "pair",
    "parameter",
    "parameter_grad",
    "preset",
    "presets",
    "previous",
    "quantities",
    "quantity",
    "report",
    "step_check",
    "verify",
    "weight",
    "weight_grad",
]

# The same as the imports above, at the first use of a name: importing torch takes a second, and
# the command line and reading runs need none.
_HOMES = {
    "Quantities": "quantities.catalogue",
    "QuantityInfo": "quantities.catalogue",
    "quantities": "quantities.catalogue",
    "ConfigError": "config.check",
    "Diagram": "pictures.diagram",
    "diagram": "pictures.diagram",
    "Edit": "config.edits",
    "edit": "config.edits",
    "Preset": "config.presets",
    "preset": "config.presets",
    "presets": "config.presets",
    "CoordinateCheck": "coordinates",
    "coordinate_check": "coordinates",
    "EpochSummary": "records.epochs",
    "Finding": "findings",
    "Recorder": "recorder",
    "Recording": "recorder",
    "Replay": "recorder",
    "Grid": "records.grid",
    "InstrumentedModule": "instrumented",
    "capture_of": "instrumented",
    "graph_of": "instrumented",
    "monitor_of": "instrumented",
    "instrument": "instrument",
    "Monitor": "monitor",
    "MonitorWarning": "warning",
    "TrainedParameter": "optimizers",
    "describe_optimizer": "optimizers",
    "CallReduction": "passes.ir",
    "PairReduction": "passes.ir",
    "Reduction": "passes.ir",
    "buffer": "quantities.places",
    "call": "quantities.places",
    "input": "quantities.places",
    "input_grad": "quantities.places",
    "output": "quantities.places",
    "output_grad": "quantities.places",
    "pair": "quantities.places",
    "parameter": "quantities.places",
    "parameter_grad": "quantities.places",
    "previous": "quantities.places",
    "weight": "quantities.places",
    "weight_grad": "quantities.places",
    "NoValue": "quantities.declare",
    "Quantity": "quantities.declare",
    "quantity": "quantities.declare",
    "NonFiniteSite": "records.record",
    "Record": "records.record",
    "Records": "records.record",
    "fingerprint": "reductions",
    "report": "pictures.report",
    "Run": "runs",
    "open_run": "runs",
    "adaptive": "schedule",
    "at_steps": "schedule",
    "every": "schedule",
    "linear": "schedule",
    "step_check": "step_checks",
    "Verdict": "quantities.health",
    "Verification": "verification",
    "verify": "verification",
    "Visualization": "writers.visualization",
}

_WITHOUT_TORCH = frozenset(
    ("findings", "quantities.health", "pictures.report", "records.grid", "records.record", "runs")
)


def __getattr__(name: str) -> Any:
    """A public name or a module of the package, imported at first use."""
    home = _HOMES.get(name)
    if home is None:
        full_name = f"{__name__}.{name}"
        if name.startswith("_") or "." in name or importlib.util.find_spec(full_name) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return importlib.import_module(full_name)
    if home not in _WITHOUT_TORCH:
        importlib.import_module(f"{__name__}.instrument")  # declares all quantities
    found = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(types.ModuleType):
    """Keeps the function `instrument` from being hidden by the module it stands in."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
