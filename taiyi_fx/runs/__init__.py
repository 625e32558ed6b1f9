"""Reading what a run recorded."""

from taiyi_fx.runs.opening import open_run
from taiyi_fx.runs.run import Run
from taiyi_fx.runs.schema import SeriesName, Session
from taiyi_fx.runs.source import Curve, EpochSpan, Span

__all__ = ["Curve", "EpochSpan", "Run", "SeriesName", "Session", "Span", "open_run"]
