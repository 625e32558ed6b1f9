"""The report: a run as one file to look at in a browser, or live."""

from taiyi_fx.pictures.report.report import report
from taiyi_fx.pictures.report.states import State, state_of

__all__ = ["State", "report", "state_of"]
