"""Code in the source of a module's class that does not what it seems to: a result is thrown away, a
dropout goes on in evaluation, places are counted along the first axis, an embedding is given the
indices of another one, rows stay sorted by their lengths.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import sys
import textwrap
import types
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from taiyi_fx.findings.facts.source.left_sorted import rows_left_sorted
from taiyi_fx.findings.facts.source.lookups import foreign_lookups
from taiyi_fx.findings.facts.source.slip import Slip, shortened
from taiyi_fx.findings.facts.source.syntax import parsed, walked
from taiyi_fx.findings.facts.source.torn_views import torn_views

_RETURNING = frozenset(
    "sub mul div masked_fill masked_scatter clamp clip relu sigmoid tanh softmax log_softmax "
    "scatter_add index_add index_fill index_copy permute unsqueeze contiguous reshape".split()
)
"""Methods of tensors that return another one, and that little else has."""
_FUNCTIONS = frozenset("relu gelu dropout softmax log_softmax normalize layer_norm pad".split())
"""Functions of ``torch.nn.functional`` and torch that do so."""
_OF_SETS = frozenset({"add"})
"""Methods that sets have, too: of tensors if they are given one of the module's own."""
_DROPOUTS = frozenset(
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout".split()
)
_EMBEDDINGS = ("Embedding", "EmbeddingBag")
_HOOKS = re.compile("checkpoint|saved_tensors_hooks|save_on_cpu")
_MOST = 2**20
"""Elements of a tensor that is looked at."""
_HOMES = frozenset({"F", "torch", "functional"})
"""Names by which ``torch.nn.functional`` and torch are called."""


class _Own(NamedTuple):
    """Names of what a module holds.

    Attributes:
        tensors: What is a tensor, or returns one.
        tables: Tensors of shape ``(places, 1, features)``.
        zeros: Tensors of zeros that are no parameters and no buffers.
        embeddings: Modules that are embeddings.
    """

    tensors: frozenset[str]
    tables: frozenset[str]
    zeros: frozenset[str]
    embeddings: frozenset[str]


def slips_of(modules: Mapping[str, Any]) -> dict[str, tuple[Slip, ...]]:
    """The slips in the class of each module that has any, under the first name of each class.

    The source is read, and no code is run.

    Args:
        modules: The modules by name. A run is read without torch, hence `Any`.
    """
    first = {type(module): name for name, module in reversed([*modules.items()])}
    found = {name: _of_class(kind, _own(modules[name])) for kind, name in first.items()}
    return {name: found[name] for name in modules if found.get(name)}


def mentions_hooks(modules: Mapping[str, Any]) -> bool:
    """True if a file with the class of a module has hooks of saved tensors, as checkpoints are.

    True also of a class whose file is not known.

    Args:
        modules: The modules by name.
    """
    kinds = {type(module) for module in modules.values()}
    homes = {kind.__module__ for kind in kinds if kind.__module__.partition(".")[0] != "torch"}
    files = [getattr(sys.modules.get(home), "__file__", None) for home in homes]
    if None in files:
        return True
    return any(_HOOKS.search("".join(linecache.getlines(str(file)))) for file in files)


def _own(module: Any) -> _Own:
    tensors = {**module._parameters, **module._buffers}
    tables = (name for name, own in tensors.items() if own is not None and _is_table(own))
    zeros = (name for name, own in vars(module).items() if _is_of_zeros(own))
    held = frozenset().union(tensors, module._modules)
    embeddings = (name for name, own in module._modules.items() if _is_embedding(own))
    return _Own(held, frozenset(tables), frozenset(zeros), frozenset(embeddings))


def _is_embedding(module: Any) -> bool:
    return any(kind.__name__ in _EMBEDDINGS for kind in type(module).__mro__)


def _is_of_zeros(own: Any) -> bool:
    """True for a plain tensor on the host of several axes, all of whose elements are 0."""
    kind = type(own)
    if f"{kind.__module__}.{kind.__name__}" != "torch.Tensor" or own.device.type != "cpu":
        return False
    is_small = own.ndim > 1 and 0 < own.numel() <= _MOST
    return is_small and own.is_floating_point() and not bool(own.detach().any())


def _is_table(tensor: Any) -> bool:
    shape = tuple(tensor.shape)
    return len(shape) == 3 and shape[1] == 1 < shape[0]


@functools.lru_cache(maxsize=1024)
def _of_class(kind: type, own: _Own) -> tuple[Slip, ...]:
    if kind.__module__.partition(".")[0] == "torch":
        return ()
    functions = [made for made in vars(kind).values() if isinstance(made, types.FunctionType)]
    return tuple(slip for function in functions for slip in _of_function(function, own))


def _of_function(function: types.FunctionType, own: _Own) -> Iterator[Slip]:
    try:
        function = inspect.unwrap(function)
        lines, first = inspect.getsourcelines(function)
        tree = parsed(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, RecursionError, ValueError):
        return  # typed in by hand, or made by code: there is no source to read
    file = function.__code__.co_filename.replace("\\", "/").rpartition("/")[2]
    asked = {id(inner) for node in walked(tree) if _asks(node) for inner in walked(node)}
    known = {id(node): "torn_view" for node in torn_views(tree)}
    known |= {id(node): "foreign_lookup" for node in foreign_lookups(tree, own.embeddings)}
    known |= {id(node): "left_sorted" for node in rows_left_sorted(tree)}
    for node in walked(tree):
        kind = known.get(id(node)) or _kind_of(node, own)
        if kind and not (kind == "dropout_in_evaluation" and id(node) in asked):
            line = getattr(node, "lineno", 1)
            yield Slip(shortened(node), f"{file}:{first + line - 1}", kind)


def is_returning(method: str) -> bool:
    """True for a method of tensors that returns another one, and leaves its own as it is."""
    return method in _RETURNING


def _kind_of(node: ast.AST, own: _Own) -> str | None:
    if isinstance(node, ast.Call) and _always_drops(node):
        return "dropout_in_evaluation"
    if isinstance(node, ast.Expr) and _is_thrown_away(node.value, own.tensors):
        return "dropped_result"
    if isinstance(node, ast.Subscript) and _counts_the_first_axis(node, own.tables):
        return "batch_as_places"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = (node.left, node.right)
        if any(isinstance(one, ast.Attribute) and one.attr in own.zeros for one in sides):
            return "adds_nothing"
    return None


def _counts_the_first_axis(node: ast.Subscript, tables: Collection[str]) -> bool:
    """True for ``self.pe[: x.size(0)]``, and the same by ``x.shape[0]`` or ``len(x)``."""
    table, cut = node.value, node.slice
    if not isinstance(table, ast.Attribute) or table.attr not in tables:
        return False
    if not isinstance(cut, ast.Slice) or cut.lower is not None or cut.upper is None:
        return False
    upper = ast.unparse(cut.upper)
    return upper.endswith((".size(0)", ".shape[0]")) or upper.startswith("len(")


def _asks(node: ast.AST) -> bool:
    """True for a branch that is taken in training alone, or in evaluation."""
    if not isinstance(node, (ast.If, ast.IfExp)):
        return False
    return any(isinstance(n, ast.Attribute) and n.attr == "training" for n in walked(node.test))


def _always_drops(call: ast.Call) -> bool:
    """True for a dropout of ``torch.nn.functional`` that is not told whether the model trains."""
    keywords = {keyword.arg for keyword in call.keywords}
    is_told = "training" in keywords or None in keywords or len(call.args) > 2
    is_unpacked = any(isinstance(argument, ast.Starred) for argument in call.args)
    return _function(call) in _DROPOUTS and not (is_told or is_unpacked)


def _is_thrown_away(value: ast.expr, tensors: Collection[str]) -> bool:
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    keywords = {keyword.arg for keyword in value.keywords}
    if keywords & {"out", "inplace", None}:
        return False
    name = _function(value)
    if name or value.func.attr not in _OF_SETS:
        return name in _FUNCTIONS or (not name and is_returning(value.func.attr))
    given = [node for argument in value.args for node in walked(argument)]
    return any(isinstance(node, ast.Attribute) and node.attr in tensors for node in given)


def _function(call: ast.Call) -> str:
    """The name of a function of torch that is called as ``F.name(...)``; else empty."""
    own = call.func
    if not isinstance(own, ast.Attribute):
        return ""
    home = own.value.attr if isinstance(own.value, ast.Attribute) else getattr(own.value, "id", "")
    return own.attr if home in _HOMES else ""
