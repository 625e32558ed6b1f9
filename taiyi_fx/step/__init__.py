"""One tracked step: what is due, what was read, what is computed of it, and its records."""
