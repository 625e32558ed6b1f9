"""The reference is what the code says today, has every public name, and is plain Markdown."""

import collections
import importlib
import re
import runpy

import pytest

from tests.docs.pages import DOCS
from tests.docs.test_pages import FENCE, slug

FOLDER = DOCS / "reference"


@pytest.fixture(scope="module")
def made():
    return runpy.run_path(str(DOCS / "make_reference.py"))


@pytest.fixture
def page_of(made, tmp_path, monkeypatch):
    """The page that is made of one line of a comment, and the package's source."""
    names = made["made_pages"].__globals__
    monkeypatch.setitem(names, "ROOT", tmp_path)
    monkeypatch.setitem(names, "FOLDER", tmp_path)
    (tmp_path / "taiyi_fx").mkdir()

    def make(line, source):
        made["_tree"].cache_clear()
        (tmp_path / "taiyi_fx" / "net.py").write_text(source)
        (tmp_path / "net.md").write_text(f"# Net\n\n<!-- made of\n{line}\n-->\n<!-- end -->\n")
        (page,) = made["made_pages"]().values()
        return page.partition("-->\n\n")[2].partition("\n<!-- end")[0]

    yield make
    made["_tree"].cache_clear()


def test_the_pages_are_those_of_todays_code(made):
    pages = made["made_pages"]()
    assert len(pages) > 8
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, f"make pages, for {path.name}"


@pytest.mark.parametrize(
    "package", ["taiyi_fx", "taiyi_fx.writers", "taiyi_fx.runs", "taiyi_fx.testing"]
)
def test_every_public_name_is_there(package):
    pages = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md"))
    told = set(re.findall(r"^#+ (?:class |exception )?(\w+)$", pages, re.MULTILINE))
    told |= set(re.findall(r"^\| `(\w+)` \|", pages, re.MULTILINE))
    assert set(importlib.import_module(package).__all__) - told == set()


def test_no_two_headings_of_a_page_have_one_anchor():
    for path in FOLDER.glob("*.md"):
        text = FENCE.sub("", path.read_text(encoding="utf-8"))
        anchors = map(slug, re.findall(r"^#+ (.*)$", text, re.MULTILINE))
        assert [name for name, n in collections.Counter(anchors).items() if n > 1] == [], path.name


def test_a_function_is_shown_with_its_signature_and_its_docstring_as_markdown(page_of):
    source = '''
def fit(x: Tensor, *rows: int, size: int = 3) -> float:
    """Fits ``x`` as `Fit` does, or `numpy` would.

    Args:
        x: A tensor,
            of any shape.
        *rows: Which rows.

    Raises:
        Fault: It is empty.
    """

class Fault(ValueError):
    """A fault."""
'''
    assert (
        page_of("taiyi_fx.net.*", source)
        == """\
## net.fit

```py
net.fit(x: Tensor, *rows: int, size: int = 3) -> float
```

Fits `x` as `Fit` does, or `numpy` would.

**Arguments**

- `x`: A tensor,
  of any shape.
- `*rows`: Which rows.

**Raises**

- `Fault`: It is empty.

## exception net.Fault

```py
net.Fault()
```

A fault.
"""
    )


CLASS = '''
class Base:
    """A base."""

    def __init__(self, path, /, rows, *, every=None):
        """Not shown."""

    def read(self):
        """Reads, as `write` writes."""

class Net(Base):
    """A net."""

    @property
    def size(self) -> int:
        """The size."""

    def write(self):
        """Writes."""

    def without_documentation(self):
        pass
'''


@pytest.mark.parametrize(
    ("words", "members"),
    [("", ["read", "size", "write"]), ("with size", ["size"]), ("without read", ["size", "write"])],
)
def test_of_a_class_those_members_are_shown_that_are_asked_for(page_of, words, members):
    page = page_of(f"taiyi_fx.net.Net {words}", CLASS)
    assert re.findall(r"^### Net\.(\w+)$", page, re.MULTILINE) == members


def test_a_class_takes_what_its_base_takes(page_of):
    page = page_of("taiyi_fx.net.Net", CLASS)
    assert "\nNet(path, /, rows, *, every=None)\n" in page
    assert "\nNet.size: int\n" in page
    assert "Reads, as [`write`](#netwrite) writes." in page


def test_parameters_of_what_users_never_make_are_left_out(page_of):
    assert "Net(" not in page_of("taiyi_fx.net.Net() with size", CLASS)


def test_a_name_that_is_not_there_is_an_error(page_of):
    with pytest.raises(LookupError, match=r"taiyi_fx\.net has no class or function 'Nett'"):
        page_of("taiyi_fx.net.Nett", CLASS)
