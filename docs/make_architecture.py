"""Draws the pictures of docs/explanation/architecture.md with the library's own diagrams.

The house is made of the imports as they are, in the rooms of the page's table; the flow is told
here. Needs a Graphviz: ``pip install 'taiyi-fx[diagram]'``. Takes the folder for the pictures, by
default docs/images/architecture.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import networkx as nx

from taiyi_fx.outline import Edge, Item, Outline
from taiyi_fx.outline.view import opened, shown
from taiyi_fx.pictures.diagram import EngineMissing, engines
from taiyi_fx.pictures.diagram.dot import to_dot
from taiyi_fx.pictures.diagram.faces import faces

DOCS = Path(__file__).parent
PAGE = DOCS / "explanation" / "architecture.md"
PACKAGE = DOCS.parent / "taiyi_fx"

EVERYWHERE = "small things"
"""The room that others look into: its imports are not drawn."""

FLOW = {
    "once, in instrument": {
        "cfg": "what you ask for",
        "model": "as it is",
        "Config": "config/check.py",
        "Capture": "passes/capture/trace.py",
        "Plan": "passes/ir.py",
        "probed graphs": "passes/rewrite/pipeline.py",
    },
    "each step": {
        "due readings": "step/due.py",
        "probes": "passes/probes/probe.py",
        "statistics": "passes/probes/slots.py",
    },
    "at track": {
        "of all ranks": "step/ranks",
        "quantities": "step/evaluate.py",
        "decompositions": "step/background.py",
        "numbers on their way": "step/transfer.py",
        "records": "records/record.py",
    },
    "whoever looks": {
        "files, dashboards": "writers",
        "run": "runs",
        "page": "pictures/report",
        "picture": "pictures/diagram",
    },
}
"""What data become, and in which file or folder of the package."""

WAYS = (
    ("cfg", "Config"),
    ("model", "Capture"),
    ("Config", "Capture"),
    ("Config", "Plan"),
    ("Capture", "probed graphs"),
    ("Plan", "probed graphs"),
    ("Config", "due readings", "schedules"),
    ("probed graphs", "probes", "compiled for what is due"),
    ("due readings", "probes"),
    ("probes", "statistics"),
    ("statistics", "of all ranks", "several ranks"),
    ("statistics", "quantities"),
    ("of all ranks", "quantities"),
    ("quantities", "decompositions"),
    ("quantities", "numbers on their way"),
    ("decompositions", "numbers on their way"),
    ("numbers on their way", "records"),
    ("records", "files, dashboards", "each step"),
    ("records", "picture", "the latest"),
    ("records", "page", "in memory"),
    ("files, dashboards", "run"),
    ("run", "page"),
)
"""From what to what; between two stages, by what."""


def main(folder: str = "docs/images/architecture") -> None:
    """Writes both pictures."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, outline in (("house", house()), ("flow", flow())):
        path = Path(folder, f"{name}.svg")
        path.write_bytes(picture(outline))
        print(path)


def house() -> Outline:
    """The package: rooms around modules, and who imports whom, without what follows.

    Raises:
        LookupError: The page's table of rooms has no place for a module, or one for none.
    """
    imports, found = imported(), rooms()
    placed = [name for names in found.values() for name in names]
    if sorted(placed) != sorted(imports):
        odd = sorted(set(placed) ^ set(imports)) or "one that stands there twice"
        raise LookupError(f"{PAGE.name} and {PACKAGE.name} differ in {odd}")
    imports.remove_edges_from(list(imports.in_edges(found[EVERYWHERE])))
    needed = nx.transitive_reduction(imports).edges
    return _outline({room: dict.fromkeys(names, "") for room, names in found.items()}, needed)


def flow() -> Outline:
    """What becomes of a configuration and a model."""
    return _outline(FLOW, WAYS)


def picture(outline: Outline) -> bytes:
    """All of an outline as SVG.

    Raises:
        EngineMissing: There is no Graphviz.
    """
    engine = engines.find_engine()
    if engine is None:
        raise EngineMissing(engines.ADVICE)
    view = shown(outline, opened(outline, "full"))
    return engines.render(engine, to_dot(view, faces(outline, view, {})), "svg")


def rooms() -> dict[str, list[str]]:
    """The modules and packages of each room, as the page's table has them."""
    table = PAGE.read_text(encoding="utf-8").partition("| room |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines()[2:]]
    return {room.strip(): re.findall(r"`(\w+)`", names) for room, names in rows}


def imported() -> nx.DiGraph:
    """Who imports whom of the package's modules and packages, inside functions too."""
    paths = [path for path in PACKAGE.iterdir() if path.suffix == ".py" or _is_package(path)]
    names = {path.stem: path for path in sorted(paths) if path.name != "__init__.py"}
    homes = _homes()
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    for name, path in names.items():
        for source in [path] if path.is_file() else sorted(path.rglob("*.py")):
            targets = set(_used(ast.parse(source.read_text(encoding="utf-8")), homes))
            graph.add_edges_from((name, target) for target in names if target in targets - {name})
    return graph


def _is_package(path: Path) -> bool:
    return (path / "__init__.py").exists()


def _homes() -> dict[str, str]:
    """The modules and packages that public names come from."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}
    return {name: home.split(".")[1] for name, home in homes.items() if _is_ours(home)}


def _is_ours(module: str) -> bool:
    return module.startswith("taiyi_fx.")


def _used(tree: ast.AST, homes: Mapping[str, str]) -> Iterator[str]:
    """The modules and packages that a source uses, for types alone too."""
    match tree:
        case ast.ImportFrom(module="taiyi_fx", names=names):
            yield from (homes.get(alias.name, alias.name) for alias in names)
        case ast.ImportFrom(module=str(module)) if _is_ours(module):
            yield module.split(".")[1]
        case ast.Import(names=names):
            yield from (alias.name.split(".")[1] for alias in names if _is_ours(alias.name))
        case ast.Attribute(value=ast.Name(id="taiyi_fx"), attr=name):
            yield homes.get(name, name)
    for inner in ast.iter_child_nodes(tree):
        yield from _used(inner, homes)


def _outline(groups: dict[str, dict[str, str]], ways: Iterable[Sequence[str]]) -> Outline:
    """Boxes in groups, each with a quiet word behind its name."""
    items, places = [Item("container", "")], {}
    for group, members in groups.items():
        home = len(items)
        items.append(Item("container", group, parent=0))
        for name, quiet in members.items():
            places[name] = len(items)
            items.append(Item("module", name, quiet, parent=home))
    edges = [Edge(places[a], places[b], *by) for a, b, *by in ways]
    return Outline(tuple(items), tuple(edges))


if __name__ == "__main__":
    main(*sys.argv[1:])
