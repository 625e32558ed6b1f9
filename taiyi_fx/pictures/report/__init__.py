"""The report: a run as one HTML file, or as a live page."""

from taiyi_fx.pictures.report.report import report
from taiyi_fx.pictures.report.states import State, state_of

__all__ = ["State", "report", "state_of"]
