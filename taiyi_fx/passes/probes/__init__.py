"""What passes put into a graph: probes, edits, and where readings go."""
