"""Records of numbers in memory: by step, by epoch, as grids and tables."""
