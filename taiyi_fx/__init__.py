"""Monitoring compiled into a PyTorch model: no module hooks, no change, numbers that hold."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import TYPE_CHECKING, Any

from taiyi_fx.version import __version__ as __version__

if TYPE_CHECKING:
    from taiyi_fx.catalogue import Quantities, QuantityInfo, quantities
    from taiyi_fx.config import ConfigError
    from taiyi_fx.diagram import Diagram, diagram
    from taiyi_fx.edits import Edit, edit
    from taiyi_fx.epochs import EpochSummary
    from taiyi_fx.face import InstrumentedModule, capture_of, graph_of, monitor_of
    from taiyi_fx.grid import Grid
    from taiyi_fx.instrument import instrument
    from taiyi_fx.monitor import Monitor
    from taiyi_fx.notice import MonitorWarning
    from taiyi_fx.passes.ir import PairReduction, Reduction
    from taiyi_fx.places import (
        buffer,
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
    from taiyi_fx.quantity import NoValue, Quantity, quantity
    from taiyi_fx.record import NonFiniteSite, Record, Records
    from taiyi_fx.report import report
    from taiyi_fx.runs import Run, open_run
    from taiyi_fx.schedule import at_steps, every, linear
    from taiyi_fx.verification import Verification, verify
    from taiyi_fx.visualization import Visualization

__all__ = [
    "ConfigError",
    "Diagram",
    "Edit",
    "EpochSummary",
    "Grid",
    "InstrumentedModule",
    "Monitor",
    "MonitorWarning",
    "NoValue",
    "NonFiniteSite",
    "PairReduction",
    "Quantities",
    "Quantity",
    "QuantityInfo",
    "Record",
    "Records",
    "Reduction",
    "Run",
    "Verification",
    "Visualization",
    "at_steps",
    "buffer",
    "capture_of",
    "diagram",
    "edit",
    "every",
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
    "previous",
    "quantities",
    "quantity",
    "report",
    "verify",
    "weight",
    "weight_grad",
]

# What the imports above say, for when a name is first used: importing torch takes a second, and
# the command line and reading runs need none.
_HOMES = {
    "Quantities": "catalogue",
    "QuantityInfo": "catalogue",
    "quantities": "catalogue",
    "ConfigError": "config",
    "Diagram": "diagram",
    "diagram": "diagram",
    "Edit": "edits",
    "edit": "edits",
    "EpochSummary": "epochs",
    "Grid": "grid",
    "InstrumentedModule": "face",
    "capture_of": "face",
    "graph_of": "face",
    "monitor_of": "face",
    "instrument": "instrument",
    "Monitor": "monitor",
    "MonitorWarning": "notice",
    "PairReduction": "passes.ir",
    "Reduction": "passes.ir",
    "buffer": "places",
    "input": "places",
    "input_grad": "places",
    "output": "places",
    "output_grad": "places",
    "pair": "places",
    "parameter": "places",
    "parameter_grad": "places",
    "previous": "places",
    "weight": "places",
    "weight_grad": "places",
    "NoValue": "quantity",
    "Quantity": "quantity",
    "quantity": "quantity",
    "NonFiniteSite": "record",
    "Record": "record",
    "Records": "record",
    "report": "report",
    "Run": "runs",
    "open_run": "runs",
    "at_steps": "schedule",
    "every": "schedule",
    "linear": "schedule",
    "Verification": "verification",
    "verify": "verification",
    "Visualization": "visualization",
}

_WITHOUT_TORCH = frozenset(("grid", "record", "report", "runs"))


def __getattr__(name: str) -> Any:
    """A public name or a module of the package, imported when first asked for."""
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
