"""Rules of the loss, and of what it is made of."""
