"""The compiler: traces a model, plans readings, and rewrites graphs so that they are made."""
