"""The tests that need a GPU, and what watching costs there: one table for the README.

Run it from the root of the repository:

    python -m benchmarks.gpu [--device DEVICE] [--quick] [--minutes MINUTES] [--to FILE]

Models of usual sizes are trained under bfloat16 autocast, plain, with hooks written by hand and
with taiyi_fx, in turn, block by block: eager, compiled, and compiled with CUDA graphs.
``models.py`` says which, ``job.py`` how one is measured, ``table.py`` how it is told. It all runs
on a CPU, too, with ``--device cpu --quick``, to see that it runs: what watching costs on a CPU is
told by ``benchmarks.overhead``.
"""
