"""Imports within the package have no cycles, wherever they stand: for types alone, in functions."""

import ast
import inspect
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parent.parent


def imports(root, package):
    """Who imports whom of the modules of a package that lies in a folder.

    A package stands for its ``__init__.py``: what that binds is imported from it, and any other
    name of a submodule is the submodule.
    """
    paths = {name_of(path, root): path for path in (root / package).rglob("*.py")}
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    packages = {name for name, path in paths.items() if path.name == "__init__.py"}
    bound = {name: set(bound_in(name, trees)) for name in packages}
    graph = nx.DiGraph()
    graph.add_nodes_from(trees)
    for importer, tree in trees.items():
        for home, name in imported_names(ast.walk(tree)):
            submodule = f"{home}.{name}"
            if submodule in trees and (home == importer or name not in bound[home]):
                graph.add_edge(importer, submodule)
            elif home in trees:
                graph.add_edge(importer, home)
    return graph


def name_of(path, root):
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(nodes):
    """Each imported name after the module it is from; None where it is the module itself."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "a relative import"
            yield from ((node.module, alias.name) for alias in node.names)


def bound_in(package, trees):
    """The names that an ``__init__.py`` binds to anything but the submodules of these names."""
    body = trees[package].body
    statements = [*body, *(s for node in body if isinstance(node, ast.If) for s in node.body)]
    for home, name in imported_names(statements):
        if name is not None and not (home == package and f"{home}.{name}" in trees):
            yield name
    for node in statements:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            yield from (name.id for name in ast.walk(node) if isinstance(name, ast.Name))


def cycles(graph):
    """Each set of modules that import each other, as a line."""
    components = map(sorted, nx.strongly_connected_components(graph))
    itself = set(nx.nodes_with_selfloops(graph))
    return sorted(" and ".join(c) for c in components if len(c) > 1 or c[0] in itself)


def test_no_modules_of_the_package_import_each_other():
    graph = imports(ROOT, "taiyi_fx")
    assert graph.has_edge("taiyi_fx.instrument", "taiyi_fx.passes.runtime.build")
    found = cycles(graph)
    assert found == [], "these import each other:\n" + "\n".join(found)


def package(folder, **sources):
    sources = {"__init__": "", **sources}
    (folder / "p").mkdir()
    for name, source in sources.items():
        (folder / "p" / f"{name}.py").write_text(inspect.cleandoc(source))
    return imports(folder, "p")


def test_imports_count_wherever_they_stand(tmp_path):
    graph = package(
        tmp_path,
        a="from p.b import B",
        b="""
            def late():
                import p.c
        """,
        c="""
            if TYPE_CHECKING:
                from p import a
        """,
        d="import p.a",
    )
    assert cycles(graph) == ["p.a and p.b and p.c"]


def test_a_package_that_gathers_its_modules_is_in_no_cycle_with_them(tmp_path):
    gathers = "from p import b\nfrom p.a import A"
    graph = package(tmp_path, __init__=gathers, a="from p import b", b="")
    assert sorted(graph.edges) == [("p", "p.a"), ("p", "p.b"), ("p.a", "p.b")]


def test_a_module_that_takes_a_name_from_a_package_that_gathers_it_is_in_a_cycle(tmp_path):
    graph = package(
        tmp_path, __init__="from p.a import a", a="from p.b import B", b="from p import a"
    )
    assert cycles(graph) == ["p and p.a and p.b"]
