"""The tests mirror the package: each of its modules has its namesake."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCES = TESTS.parent / "taiyi_fx"


def namesake(module):
    """The file of a module's tests: ``tests/a/test_b.py`` of ``a/b.py``.

    A package's own is ``test_package.py``, if its ``__init__.py`` does more than re-export.
    """
    if module.name != "__init__.py":
        return TESTS / module.parent.relative_to(SOURCES) / f"test_{module.name}"
    body = ast.parse(module.read_text()).body
    has_code = any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in body)
    return TESTS / module.parent.relative_to(SOURCES) / "test_package.py" if has_code else None


NAMESAKES = {module: namesake(module) for module in sorted(SOURCES.rglob("*.py"))}


def test_each_module_with_code_has_its_namesake():
    missing = [
        f"{module.relative_to(SOURCES)} has no {file.relative_to(TESTS.parent)}"
        for module, file in NAMESAKES.items()
        if file is not None and not file.exists()
    ]
    assert not missing, "\n".join(missing)


def test_each_namesake_has_tests():
    files = {file for file in NAMESAKES.values() if file is not None and file.exists()}
    empty = {file.relative_to(TESTS) for file in files if not defines_tests(file)}
    assert empty == set()


def defines_tests(file):
    tree = ast.parse(file.read_text())
    return any(getattr(node, "name", "").startswith("test_") for node in ast.walk(tree))


def test_each_test_file_of_the_compiler_is_for_one_module_but_that_of_soundness():
    found = set((TESTS / "passes").rglob("test_*.py")) - set(NAMESAKES.values())
    assert {path.name for path in found} == {"test_soundness.py"}


READMES = sorted(SOURCES.rglob("README.md"))


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_what_a_readme_names_is_there(readme):
    text = readme.read_text("utf-8")
    named = re.findall(r"`([\w/]+\.py|[\w/]+/)`", text) + re.findall(r"\]\(([^)#:]+)\)", text)
    below = {path.name for path in readme.parent.rglob("*.py")}
    roots = (readme.parent, SOURCES, SOURCES.parent)
    left = [name for name in named if not any((root / name).exists() for root in roots)]
    assert set(left) - below == set()


def test_at_most_ten_files_stand_at_the_top():
    assert len(list(SOURCES.glob("*.py"))) <= 10


def test_the_first_line_of_a_docstring_says_what_comes_out():
    asking = [
        f"{path.relative_to(SOURCES)}: {words}"
        for path in sorted(SOURCES.rglob("*.py"))
        for words in first_lines(ast.parse(path.read_text()))
        if words.split()[0] in ("What", "Whether", "Where")
    ]
    assert not asking, "\n".join(asking)


def first_lines(tree):
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, documented)]
    return [text.splitlines()[0] for node in nodes if (text := ast.get_docstring(node))]
