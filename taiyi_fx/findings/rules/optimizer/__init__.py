"""Rules of the optimizer: its steps, rates, groups and state."""
