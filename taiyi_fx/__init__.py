"""Monitoring compiled into a PyTorch model: no module hooks, no change, numbers that hold."""

from taiyi_fx.catalogue import Quantities, QuantityInfo, quantities
from taiyi_fx.config import ConfigError
from taiyi_fx.diagram import Diagram, diagram
from taiyi_fx.edits import Edit, edit
from taiyi_fx.epochs import EpochSummary
from taiyi_fx.grid import Grid
from taiyi_fx.instrument import InstrumentedModule, instrument
from taiyi_fx.monitor import Monitor, MonitorWarning
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
from taiyi_fx.runs import Run, open_run
from taiyi_fx.schedule import at_steps, every, linear
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
    "Visualization",
    "at_steps",
    "buffer",
    "diagram",
    "edit",
    "every",
    "input",
    "input_grad",
    "instrument",
    "linear",
    "open_run",
    "output",
    "output_grad",
    "pair",
    "parameter",
    "parameter_grad",
    "previous",
    "quantities",
    "quantity",
    "weight",
    "weight_grad",
]
