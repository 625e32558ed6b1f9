"""The state of a model and of the objects it holds: saved, compared bit for bit, restored."""
