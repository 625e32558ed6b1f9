"""The tests of the compiler mirror it: each of its files has its namesake."""

from pathlib import Path

TESTS = Path(__file__).parent
SOURCES = TESTS.parents[1] / "taiyi_fx" / "passes"
OF_SEVERAL = {"test_tree.py", "test_soundness.py"}


def namesakes():
    files = (path.relative_to(SOURCES) for path in SOURCES.rglob("*.py"))
    return {path.parent / f"test_{path.name}" for path in files if path.name != "__init__.py"}


def test_each_file_has_its_namesake():
    missing = {path.as_posix() for path in namesakes() if not (TESTS / path).exists()}
    assert missing == set()


def test_each_test_file_is_for_one():
    found = {path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    assert {path.as_posix() for path in found - namesakes()} == OF_SEVERAL
