"""Models of other libraries, with random weights, as cases for the zoo."""
