"""Parts of a batch that say what counts of it, and that the code which trains never reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import (
    BY_NAME,
    FUNCTIONS,
    Scope,
    factors_of,
    given_in,
    has_backward,
    inner,
    names_in,
    scopes_of,
    terms_of,
    walked,
)

_TELLING = re.compile(
    r"(dones?|terminals?|terminated|terminations?|not_dones?|((\w+_)?(mask|lengths|lens))|masks|"
    r"(sample|importance|is|instance)_weights?)(_[bt]|_?batch)?"
)
"""Names of ends of episodes, of masks and lengths of sequences, and of weights of samples."""
_DISCOUNTS = re.compile(r"(\w+_)?(gamma|discount(_factor)?)")
_BESIDE = re.compile(
    r"_.*|infos?|extras?|ids?|idxs?|index|indices|keys?|a|acts?|actions?|s|states?|obs|"
    r"observations?|log_?p(robs?)?|values?|v|old_.*"
)
"""Names of what a sample of a memory may hold, and a target of values need not be made of."""
_ADAPTED = re.compile(
    r"(^|_)(fast|adapted|inner|updated)(_(weights|params|parameters|state|model))?$"
)
_OFFSETS = re.compile(r"(\w+_)?offset")
_SPLITS = re.compile("(train|training|val|valid|validation|test|dev)_")


def unused_parts(tree: ast.Module) -> Iterator[ast.expr]:
    """The names that code which trains unpacks, that tell what counts of a batch, and are not read.

    Nothing is told of a name that is read anywhere in the same function, or in one within it. By
    any name, it is the one part beside a reward that a target with a discount is made of.
    """
    for scope in scopes_of(tree):
        read = _read_in(scope) if has_backward(scope) else {*BY_NAME}
        if read.isdisjoint(BY_NAME):
            found: dict[str, ast.Name] = {}
            for names in _unpacked_in(scope):
                unread = [x for x in names if x.id not in read]
                telling = [x for x in unread if _TELLING.fullmatch(x.id.lower())]
                telling = [x for x in telling if not _SPLITS.match(x.id.lower())]
                others = [x for x in unread if not _BESIDE.fullmatch(x.id.lower())]
                if len(others) == 1 and _rewards_in(scope) & {x.id for x in names}:
                    telling += others
                for name in telling:
                    found.setdefault(name.id, name)
            yield from found.values()


def unused_offsets(tree: ast.Module) -> Iterator[ast.expr]:
    """The offsets that code counts up in a loop, as of nodes of graphs, and never reads."""
    for scope in scopes_of(tree):
        counts = [x.target for x in inner(scope) if isinstance(x, ast.AugAssign)]
        names = [x for x in counts if isinstance(x, ast.Name) and _OFFSETS.fullmatch(x.id.lower())]
        read = _read_in(scope) if names else set()
        if read.isdisjoint(BY_NAME):
            yield from {x.id: x for x in names if x.id not in read}.values()


def unused_adaptations(tree: ast.Module) -> Iterator[ast.expr]:
    """The weights that an inner loop has adapted to a task, and that code which trains never reads.

    As ``fast = adapt(params, ...)`` in front of a loss of ``functional_call(net, params, ...)``.
    """
    for scope in filter(has_backward, scopes_of(tree)):
        read = _read_in(scope)
        given = given_in(inner(scope)) if read.isdisjoint(BY_NAME) else ()
        calls = [(x.name, x.value) for x in given if isinstance(x.value, ast.Call)]
        yield from (x for name, x in calls if _ADAPTED.search(name.lower()) and name not in read)


def _rewards_in(scope: Scope) -> set[str]:
    """The names that are added to a value with a discount, and no other factor.

    Not where that goes on from itself, as a sum of all that comes later does.
    """
    sets = [x for x in inner(scope) if isinstance(x, ast.Assign)]
    own = {id(x.value): names_in(x, ast.Store) for x in sets}
    found: set[str] = set()
    for value in (x for x in inner(scope) if isinstance(x, ast.BinOp)):
        terms = [*terms_of(value)] if isinstance(value.op, ast.Add) else []
        later = [term for term in terms if _is_discounted(term)]
        if later and not names_in(later[0]) & own.get(id(value), set()):
            found |= {x.id for x in terms if isinstance(x, ast.Name)}
    return found


def _is_discounted(term: ast.expr) -> bool:
    """True for the product of a discount and one more factor."""
    factors = [ast.unparse(x).rpartition(".")[2].lower() for x in factors_of(term)[1]]
    return len(factors) == 2 and any(map(_DISCOUNTS.fullmatch, factors))


def _unpacked_in(scope: Scope) -> Iterator[list[ast.Name]]:
    """The names that are set with others at once."""
    for node in inner(scope):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets += [node.target] if isinstance(node, (ast.For, ast.AsyncFor)) else []
        for tuple_ in (x for t in targets for x in walked(t) if isinstance(x, ast.Tuple)):
            yield [one for one in tuple_.elts if isinstance(one, ast.Name)]


def _read_in(scope: Scope) -> set[str]:
    """The names that some code reads, also in functions in it that have none such of their own."""
    read = {x.id for x in inner(scope) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load)}
    for node in walked(scope):
        if node is not scope and isinstance(node, (*FUNCTIONS, ast.Lambda)):
            own = {argument.arg for argument in node.args.args} | names_in(node, ast.Store)
            read |= names_in(node) - own
    return read | _declared_in(scope)


def _declared_in(scope: Scope) -> set[str]:
    """The names that belong to code around it: who reads them is not known."""
    declared = (x.names for x in inner(scope) if isinstance(x, (ast.Global, ast.Nonlocal)))
    return {name for names in declared for name in names}
