"""Pictures: the diagram of a model with its probes, and the page of a run."""
