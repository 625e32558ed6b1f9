"""The Python of the README and of the pages in docs runs, each page in a namespace and an empty
folder of its own: `pytest docs README.md`, with several processes by `--dist loadfile`.
"""

import tempfile
from typing import Any

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

RUN_BY_THEIR_TESTS = [
    "docs/coming-from/*.md",  # tests/docs/test_coming_from.py, with what they print
    # tests/docs/test_explanation.py, with what it prints
    *(f"docs/explanation/{name}.md" for name in ("autotaiyi", "exactness", "how-a-probe-works")),
    *(
        f"docs/explanation/{name}.md"
        for name in ("islands", "what-quantities-tell", "why-not-hooks")
    ),
    # tests/docs/test_how_to.py, with what they print
    *(f"docs/how-to/{name}.md" for name in ("first-nan", "large-models", "compile")),
    *(f"docs/how-to/{name}.md" for name in ("amp-and-accumulation", "own-passes", "own-writers")),
    "docs/how-to/verify.md",
    *(f"docs/how-to/{name}.md" for name in ("gan", "lora", "learning-rate", "mixed-precision")),
    "docs/reference/configuration.md",
    "docs/how-to/testing.md",  # tests/test_package.py
    "docs/how-to/trainers.md",  # tests/trainers, as far as frameworks are installed
    "docs/how-to/writers.md",  # tests/writers, likewise
    "docs/reference/command-line.md",  # tests/cli, with its commands
    "docs/tutorials/*.md",  # tests/docs/test_tutorials.py
]


def enter_folder(namespace: dict[str, Any]) -> None:
    """What a page writes goes into a folder of its own."""
    namespace["__folder__"] = folder = tempfile.TemporaryDirectory()
    namespace["__patch__"] = patch = pytest.MonkeyPatch()
    patch.chdir(folder.name)
    namespace["__name__"] = "page"


def leave_folder(namespace: dict[str, Any]) -> None:
    """Back to where the tests began."""
    namespace["__patch__"].undo()
    namespace["__folder__"].cleanup()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
    excludes=RUN_BY_THEIR_TESTS,
    setup=enter_folder,
    teardown=leave_folder,
).pytest()
