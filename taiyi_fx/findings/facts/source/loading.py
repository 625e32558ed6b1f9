"""Loaders that hand out other samples than they seem to: few of them, or the same at each epoch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import FUNCTIONS, called, made_by, values_in, walked

_OF_CLASSES = re.compile(r"class|bincount|count|value_counts|freq")
_PLAIN = frozenset(
    "tensor as_tensor from_numpy array asarray DoubleTensor FloatTensor Tensor bincount Counter "
    "value_counts float double to sum max mean sqrt log clamp numpy list values len pow".split()
)
"""Functions that make no entry for each sample of what has one for each class."""
_GENERATORS = frozenset("default_rng RandomState Random Generator".split())


def weights_of_classes(tree: ast.Module) -> Iterator[ast.expr]:
    """The samplers that are given a weight of each class, where one of each sample is taken.

    As ``WeightedRandomSampler(class_weights, len(data))``: it draws the first few samples alone.
    """
    values = values_in(walked(tree))
    for call in (x for x in walked(tree) if isinstance(x, ast.Call)):
        if called(call) == "WeightedRandomSampler":
            named = [x.value for x in call.keywords if x.arg == "weights"]
            for given in (*call.args[:1], *named):
                own = values.get(ast.unparse(given), [given])
                told = ast.unparse(given).lower() + "".join(map(ast.unparse, own)).lower()
                if _OF_CLASSES.search(told) and not any(map(_is_of_each, (given, *own))):
                    yield call


def _is_of_each(value: ast.expr) -> bool:
    """True for what may have an entry for each sample: by an index, or by any other function."""
    kinds = (ast.Subscript, ast.ListComp, ast.GeneratorExp)
    calls = {called(x) for x in walked(value) if isinstance(x, ast.Call)}
    return not calls <= _PLAIN or any(isinstance(x, kinds) for x in walked(value))


def copied_generators(tree: ast.Module) -> Iterator[ast.expr]:
    """The loaders with several workers, each of which begins with a copy of one generator.

    Of data sets that draw by a generator of their own, ``self.rng``, as they hand out a sample.
    """
    kinds = {x.name for x in walked(tree) if isinstance(x, ast.ClassDef) and _draws_by_own(x)}
    made = {name for name, _ in made_by(kinds, walked(tree))}
    for call in (x for x in walked(tree) if isinstance(x, ast.Call) and x.args):
        told = {x.arg: x.value for x in call.keywords}
        of = call.args[0]
        is_made_here = isinstance(of, ast.Call) and called(of) in kinds
        is_of_it = is_made_here or ast.unparse(of) in made
        has_workers = ast.unparse(told.get("num_workers", ast.Constant(0))) != "0"
        is_told = bool(told.keys() & {"worker_init_fn", None})
        if called(call) == "DataLoader" and is_of_it and has_workers and not is_told:
            yield call


def _draws_by_own(kind: ast.ClassDef) -> bool:
    """True for a data set that makes a generator in ``__init__``, and draws by it later."""
    methods = {x.name: x for x in kind.body if isinstance(x, FUNCTIONS)}
    begin, hands = methods.get("__init__"), methods.get("__getitem__")
    if begin is None or hands is None:
        return False
    own = {name for name, _ in made_by(_GENERATORS, walked(begin))}
    names = {ast.unparse(x) for x in walked(hands) if isinstance(x, ast.Attribute)}
    return any(name.startswith("self.") for name in own & names)
