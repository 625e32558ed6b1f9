"""What is computed, and of what: declarations, the places they read, and the stock."""
