"""A model with its probes as a picture: boxes within boxes, who feeds whom, and what was read."""

from taiyi_fx.pictures.diagram.engines import EngineMissing
from taiyi_fx.pictures.diagram.picture import Diagram, diagram

__all__ = ["Diagram", "EngineMissing", "diagram"]
