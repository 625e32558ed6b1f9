"""Coordinate checks: how the sizes of what modules compute, and change by, grow with the width."""

from taiyi_fx.coordinates.check import coordinate_check
from taiyi_fx.coordinates.result import CoordinateCheck

__all__ = ["CoordinateCheck", "coordinate_check"]
