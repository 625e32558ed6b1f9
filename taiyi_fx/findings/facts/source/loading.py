"""Loaders that hand out other samples than they seem to: few of them, the same, or changed ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    called,
    inner,
    made_by,
    values_in,
    walked,
    whose,
)

_OF_CLASSES = re.compile(r"class|bincount|count|value_counts|freq")
_PLAIN = frozenset(
    "tensor as_tensor from_numpy array asarray DoubleTensor FloatTensor Tensor bincount Counter "
    "value_counts float double to sum max mean sqrt log clamp numpy list values len pow".split()
)
"""Functions that make no entry for each sample of what has one for each class."""
_RANDOM = re.compile(r"rand|choice|shuffle|bernoulli|uniform|normal")
"""What draws numbers: a change that is none of chance may be made again without harm."""
_IN_PLACE = re.compile(r"[a-z]\w*[a-z]_")
_DATA_SETS = re.compile(r"(^|_)(data_?sets?|ds|base|subset|inner|source)(_|$)")
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


def changed_rows(tree: ast.Module) -> Iterator[ast.expr]:
    """The samples that a data set draws changes for, and makes in the data themselves.

    As ``row[torch.rand(8) < 0.1] = 0`` of ``row = self.x[i]``, which is a part of ``self.x``.
    """
    kinds = (x for x in walked(tree) if isinstance(x, ast.ClassDef))
    methods = (x for kind in kinds for x in kind.body if isinstance(x, FUNCTIONS))
    for method in (x for x in methods if x.name == "__getitem__"):
        if _RANDOM.search(ast.unparse(method)):
            values = values_in(inner(method))
            yield from (
                found
                for name, of in values.items()
                if all(map(_is_part_of_own, of))
                for found in _changes(method, name)
            )


def _is_part_of_own(value: ast.expr) -> bool:
    """True for ``self.x[i]``, but of another data set, which makes each sample anew."""
    of = value.value if isinstance(value, ast.Subscript) else None
    is_own = isinstance(of, ast.Attribute) and ast.unparse(of.value) == "self"
    return isinstance(of, ast.Attribute) and is_own and not _DATA_SETS.search(of.attr)


def _changes(method: ast.AST, name: str) -> Iterator[ast.expr]:
    """The code that changes something in place, but for entries that have a name."""
    for node in inner(method):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            is_entry = isinstance(target, ast.Subscript) and not _is_text(target.slice)
            if isinstance(target, ast.Subscript) and is_entry:
                yield from [target] * (ast.unparse(target.value) == name)
        elif isinstance(node, ast.Call) and whose(node) == name:
            yield from [node] * bool(_IN_PLACE.fullmatch(called(node)))


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
