"""A step that went wrong, run again under watch: the first operation that brought it."""
