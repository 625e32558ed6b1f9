"""Faults that nobody who makes rules may read; importing this registers all. There are none now."""
