"""The data flow between forwards that stayed Python, as one forward shows it."""
