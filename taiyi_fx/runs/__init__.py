"""Reading what a run recorded."""

from taiyi_fx.runs.opening import open_run
from taiyi_fx.runs.run import Run
from taiyi_fx.runs.schema import Life
from taiyi_fx.runs.source import Curve, EpochSpan

__all__ = ["Curve", "EpochSpan", "Life", "Run", "open_run"]
