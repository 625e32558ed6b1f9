"""Callbacks, handlers and trackers: one file a framework, which it imports."""
