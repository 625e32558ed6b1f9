"""The part that runs: which forwards are overridden, by which graphs, while a forward is read."""
