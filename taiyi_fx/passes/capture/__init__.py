"""Models as graphs, from the syntax of their forwards: nothing of a model is run."""
