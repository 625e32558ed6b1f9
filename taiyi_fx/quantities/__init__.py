"""Quantities: their declarations, the places that they read, and the stock."""
