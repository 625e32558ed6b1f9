"""The diagram: a model as boxes within boxes, with its data flow, probes and latest values."""

from taiyi_fx.pictures.diagram.engines import EngineMissing
from taiyi_fx.pictures.diagram.picture import Diagram, diagram

__all__ = ["Diagram", "EngineMissing", "diagram"]
