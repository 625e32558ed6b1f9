"""The runtime: overrides forwards by graphs while a forward is read."""
