"""Passes over captured graphs: marks become probes and edits, for what is due, and code."""
