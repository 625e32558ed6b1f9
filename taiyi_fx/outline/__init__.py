"""A model as boxes within boxes, to draw and to store."""
