"""What watching a model costs: taiyi_fx beside hand-written hooks and monitorch.

Run it from the root of the repository:

    python -m benchmarks.overhead [--quick] [--model MODEL] [--work WORK] [--tools TOOL ...]

The same models are trained plain and watched by each tool, in turn, step by step. ``work.py`` says
what is read, ``models.py`` of which models, ``tools.py`` by what; ``rounds.py`` how the time is
taken, ``facts.py`` what else is counted, ``values.py`` how the numbers are checked.
"""
