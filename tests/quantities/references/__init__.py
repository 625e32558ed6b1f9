"""What each quantity is, in float64, computed another way from what was `Seen`."""
