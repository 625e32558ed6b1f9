"""The source of a model's classes and of the code that trains, which is read and never run."""
