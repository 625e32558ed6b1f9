"""Random forwards, written as Python source: watched and plain, they must do the same.

A program is the text of a module with ``make() -> nn.Module``, and what happens to it between steps
of training. It is run as two modules from one seed, one of them instrumented, side by side. At each
step both must have the same bits, side effects and random streams, or raise the same error.

    python -m tests.random_programs --count 20000 --seed 0

What a forward may do is in ``features``: a line there is something that people write.
"""
