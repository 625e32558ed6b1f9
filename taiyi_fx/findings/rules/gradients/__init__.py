"""Rules of gradients: on their way back, and those that are missing or changed."""
