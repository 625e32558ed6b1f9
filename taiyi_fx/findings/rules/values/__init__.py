"""Rules of values and weights: their sizes, spread, formats, and what is not finite."""
