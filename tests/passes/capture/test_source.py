"""Sources are trusted where they compile to what runs, and nowhere else."""

import linecache

import pytest
from torch import nn

from taiyi_fx.passes.capture.source import body_of, is_torchs_file
from taiyi_fx.passes.capture.values import Refused
from tests.passes.capture.given import captured, reason


def scope_of(text, tmp_path, *, written=None):
    """The names that a text defines, and a file that holds it, or something else."""
    page = tmp_path / "page.py"
    page.write_text(text if written is None else written)
    linecache.checkcache(str(page))
    scope = {}
    exec(compile(text, str(page), "exec"), scope)
    return scope


SOURCES = {
    "function": "def f(x):\n    return x + 1\n",
    "decorated": "def same(g):\n    return g\n\n@same\n@same\ndef f(x):\n    return x\n",
    "annotated": "def f(x: int = 1, *rest: str, y: 'Any' = (lambda: 2)()) -> None:\n    return x\n",
    "names itself": "def f(x):\n    return f(x - 1) if x else 0\n",
    "closure": "def outer(k):\n    def f(x):\n        return x * k\n    return f\nf = outer(2)\n",
    "method": "class A:\n    def f(self, x):\n        return super().f(x)\nf = A.f\n",
    "lambda": "f = lambda x: x * 2\n",
    "second lambda of a line": "g, f = lambda x: x * 2, lambda x: x * 3\n",
    "text of lines": "def f(x):\n    return '''a\n  b'''\n",
    "nested text": "if True:\n    def f(x):\n        return '''a\n  b'''\n",
    "imported": "import math\ndef f(x):\n    return math.sqrt(x)\n",
    "inner function": "def f(x):\n    def g(y):\n        return y + x\n    return g(1)\n",
}


@pytest.mark.parametrize("text", SOURCES.values(), ids=SOURCES)
def test_what_a_file_says_is_what_runs(text, tmp_path):
    body = body_of(scope_of(text, tmp_path)["f"])
    assert len(body) >= 1


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        ("def f(x):\n    return x + 101\n", "def f(x):\n    return x + 102\n"),
        ("def f(x):\n    return x + 103\n", "def f(x):\n    return x + 103.0\n"),
        ("def f(x):\n    return x + 104\n", "def f(y):\n    return y + 104\n"),
        ("def f(x):\n    return g(x)\n", "def f(x):\n    return h(x)\n"),
        ("f = lambda x: x + 1\n", "f = lambda x: x - 1\n"),
        ("def f(x):\n    return x\n", "x = 1\n"),
        ("def f(x):\n    return x\n", ""),
        ("def f(x):\n    return x\n", "def f(x) return x\n"),
    ],
)
def test_a_file_that_says_something_else_is_not_trusted(runs, says, tmp_path):
    with pytest.raises(Refused, match="has no source to check"):
        body_of(scope_of(runs, tmp_path, written=says)["f"])


@pytest.mark.parametrize("text", ["def f(x):\n    yield x\n", "async def f(x):\n    return x\n"])
def test_what_suspends_itself_is_no_plain_function(text, tmp_path):
    with pytest.raises(Refused, match="uses `yield` or `await`"):
        body_of(scope_of(text, tmp_path)["f"])


def test_torchs_own_files_are_known():
    import torch.nn.functional as F

    assert is_torchs_file(F.dropout.__code__.co_filename)
    assert not is_torchs_file(__file__)


def test_code_without_a_source_is_not_trusted():
    scope = {"nn": nn}
    exec(compile("def forward(self, x):\n    return self.fc(x)\n", "<stdin>", "exec"), scope)
    assert "has no source to check" in reason(scope["forward"])


@pytest.mark.parametrize(
    "written", ["# A page\n\n```python\n{}```\n", "# A page\n\n\n{}    # and more"]
)
def test_code_is_trusted_where_its_source_is_what_runs(written, tmp_path):
    page, block = tmp_path / "page.md", "def forward(self, x):\n    return self.fc(x)\n"
    page.write_text(written.format(block))
    scope = {}
    exec(compile("\n" * 3 + block, str(page), "exec"), scope)
    assert captured(scope["forward"])[1].is_whole


def test_a_source_that_was_changed_since_is_not_trusted(tmp_path):
    page, block = tmp_path / "page.py", "def forward(self, x):\n    return self.fc(x) + 1\n"
    page.write_text(block)
    scope = {}
    exec(compile(block.replace("+ 1", "- 1"), str(page), "exec"), scope)
    assert reason(scope["forward"]) == "has no source to check (page.py:1)"
