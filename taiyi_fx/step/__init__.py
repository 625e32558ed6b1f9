"""One tracked step: due work, readings, computed values, and records."""
