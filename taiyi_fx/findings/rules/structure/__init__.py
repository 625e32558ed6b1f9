"""Rules of how a model is built and set: layers, copies, modes, hooks, what is left out."""
