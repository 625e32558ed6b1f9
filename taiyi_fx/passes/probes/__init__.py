"""The nodes that passes put into a graph, probes and edits, and where readings go."""
