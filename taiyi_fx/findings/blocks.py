"""Blocks of modules that share what is wrong: one name in place of many."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from taiyi_fx.findings.facts.watched import Watched


def in_blocks(
    sites: Sequence[Watched], learnable: Collection[str]
) -> Iterator[tuple[Watched, str]]:
    """The sites, each with its name: of a block that all of it is in, once, else of its own.

    Args:
        sites: Series of modules that share what is wrong.
        learnable: All modules with weights, which a block has to be made of.
    """
    wrong = {site.module for site in sites}
    told = set[str]()
    for site in sites:
        name = _block(site.module, wrong, learnable)
        if name not in told:
            told.add(name)
            yield site, name


def named(site: Watched, name: str) -> str:
    """A site as the subject of a sentence: a block "as a whole"."""
    return repr(name) if name == site.module else f"{name!r} as a whole"


def common_block(modules: Sequence[str]) -> str:
    """The smallest part of a model that some modules are in; of one module its name."""
    first, *rest = [name.split(".") for name in modules]
    depth = 0
    while depth < len(first) and all(other[: depth + 1] == first[: depth + 1] for other in rest):
        depth += 1
    return ".".join(first[:depth])


def _block(module: str, wrong: Collection[str], learnable: Collection[str]) -> str:
    """The largest part of a model that the module is in and that is wrong as a whole."""
    names = module.split(".")
    for depth in range(1, len(names)):
        block = ".".join(names[:depth])
        within = [other for other in learnable if other.startswith(f"{block}.")]
        if len(within) > 1 and all(other in wrong for other in within):
            return block
    return module
