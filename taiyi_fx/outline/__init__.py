"""A model as boxes within boxes, to draw and to store."""

from taiyi_fx.outline.items import SIDES, Edge, Item, Kind, Mark, Marks, Outline, Side

__all__ = ["SIDES", "Edge", "Item", "Kind", "Mark", "Marks", "Outline", "Side"]
