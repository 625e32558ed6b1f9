"""Writes the pages of docs/reference that are made of the code: `make pages`.

A page keeps what is written by hand. After a comment ``made of``, up to the comment ``end``, stand
the signatures and docstrings of the objects that the comment lists, one a line::

    <!-- made of
    taiyi_fx.Grid                        with all its public methods
    taiyi_fx.Records without keep        with all but these
    taiyi_fx.Quantity with at unit       with these alone
    taiyi_fx.Monitor()                   without its parameters: users never make one
    taiyi_fx.writers.*                   all that the module exports
    -->
    <!-- end -->

Sources are read, not imported: pages are the same wherever they are made, with any framework
installed or none.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, TypeGuard

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"

BLOCK = re.compile(r"(<!-- made of\n(.*?)-->\n).*?(<!-- end -->)", re.DOTALL)
SECTIONS = {name: name for name in ("Attributes", "Raises", "Returns")} | {"Args": "Arguments"}
Definition: TypeAlias = "ast.ClassDef | ast.FunctionDef"
LINE = 92
"""The longest line of a signature."""


@dataclass(frozen=True)
class Entry:
    """An object of the reference, and those of its members that are shown.

    Attributes:
        name: The name; of a method with its class, ``Run.close``.
        heading: The heading above it.
        node: The syntax tree.
        members: The methods and properties of a class.
        lineage: The bases of a class that are of this package, and the class.
        is_made_by_users: True if its parameters are shown.
        is_method: True if it takes ``self`` first.
    """

    name: str
    heading: str
    node: Definition
    members: tuple[Entry, ...] = ()
    lineage: tuple[ast.ClassDef, ...] = ()
    is_made_by_users: bool = True
    is_method: bool = False


def main() -> None:
    """Writes the pages."""
    from taiyi_fx.quantities import stock  # noqa: F401 - declares what the page lists
    from taiyi_fx.quantities.catalogue import page

    for path, text in {**made_pages(), FOLDER / "quantities.md": page()}.items():
        path.write_text(text, encoding="utf-8")


def made_pages() -> dict[Path, str]:
    """The pages with a comment ``made of``, as they are to be."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
    texts = {path: text for path, text in texts.items() if BLOCK.search(text)}
    links = {name: link for path, text in texts.items() for name, link in _links(path, text)}
    return {path: _made(path, text, links) for path, text in texts.items()}


def listed(text: str) -> Iterator[Entry]:
    """The objects that the comments of a page list."""
    for _, lines, _ in BLOCK.findall(text):
        yield from _entries(lines)


def _links(path: Path, text: str) -> Iterator[tuple[str, str]]:
    for entry in listed(text):
        for shown in (entry, *entry.members):
            yield shown.name, f"{path.name}#{_slug(shown.heading)}"


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _made(path: Path, text: str, links: Mapping[str, str]) -> str:
    """A page with all its blocks filled, each a level below the heading that it stands under."""
    links = {name: link.removeprefix(path.name) for name, link in links.items()}

    def fill(block: re.Match[str]) -> str:
        above = re.findall(r"^(#+) ", BLOCK.sub("", text[: block.start()]), re.MULTILINE)
        level = len(above[-1]) + 1
        shown = "\n".join(_shown(entry, level, links) for entry in _entries(block[2]))
        return f"{block[1]}\n{shown}\n{block[3]}"

    return BLOCK.sub(fill, text)


def _entries(lines: str) -> Iterator[Entry]:
    """The objects of a comment's lines.

    Raises:
        LookupError: One is not there.
    """
    for line in lines.splitlines():
        name, *words = line.split()
        module, _, last = name.removesuffix("()").rpartition(".")
        is_package = _path(module).name == "__init__.py"
        for each in _exported(module) if last == "*" else [last]:
            found = _definition(module, each)
            if found:
                shown = each if is_package or last != "*" else f"{module.rpartition('.')[2]}.{each}"
                entry = _entry(shown, *found, words)
                yield replace(entry, is_made_by_users=not name.endswith("()"))
            elif last != "*":  # a module may export aliases of types as well
                raise LookupError(f"{module} has no class or function {each!r}")


def _entry(name: str, module: str, node: Definition, words: list[str]) -> Entry:
    if isinstance(node, ast.FunctionDef):
        return Entry(name, name, node)
    lineage = tuple(_lineage(module, node))
    methods = [m for each in lineage for m in each.body if isinstance(m, ast.FunctionDef)]
    members = {m.name: m for m in methods if _is_shown(m)}
    match words:
        case ["with", *named]:
            members = {member: members[member] for member in named}
        case ["without", *named]:
            members = {member: m for member, m in members.items() if member not in named}
    kind = "exception" if _is_exception(node) else "class"
    inner = (
        Entry(f"{name}.{m}", f"{name}.{m}", node, is_method=True) for m, node in members.items()
    )
    return Entry(name, f"{kind} {name}", node, tuple(inner), lineage)


def _lineage(module: str, node: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """The bases of a class that are of this package, and the class."""
    for base in map(ast.unparse, node.bases):
        found = _definition(module, base)
        if found and isinstance(found[1], ast.ClassDef):
            yield from _lineage(found[0], found[1])
    yield node


def _is_shown(function: ast.FunctionDef) -> bool:
    """True if a method is public and documented."""
    return not function.name.startswith("_") and ast.get_docstring(function) is not None


def _is_exception(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith(("Exception", "Error", "Warning")) for base in node.bases)


def _exported(module: str) -> list[str]:
    """The public names of a module: those of its own, of a package what it takes in."""
    found = []
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and _path(module).name == "__init__.py":
            found += [alias.name for alias in node.names if _imports(node, alias.name)]
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name[0] != "_":
            found.append(node.name)
    return found


def _definition(module: str, name: str) -> tuple[str, Definition] | None:
    """The module that defines a class or function, behind those that hand it on; its source."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return module, node
        if _imports(node, name):
            return _definition(str(node.module), name)
    return None


def _imports(node: ast.AST, name: str) -> TypeGuard[ast.ImportFrom]:
    """True if a statement takes a name in from a module of this package."""
    if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("taiyi_fx"):
        return False
    return any(alias.name == name for alias in node.names)


@functools.cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_path(module).read_text(encoding="utf-8"))


def _path(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _shown(entry: Entry, level: int, links: Mapping[str, str], owner: str = "") -> str:
    """An object under its heading: its signature and what its docstring says."""
    owner = owner or entry.name
    text = _markdown(ast.get_docstring(entry.node) or "", owner, links)
    parts = [f"{'#' * level} {entry.heading}"]
    parts += [f"```py\n{_signature(entry)}\n```"] * entry.is_made_by_users
    parts += [text]
    parts += [_shown(member, level + 1, links, owner).strip() for member in entry.members]
    return "\n\n".join(parts) + "\n"


def _signature(entry: Entry) -> str:
    """How an object is called; of a property its type."""
    node, name = entry.node, entry.name
    if isinstance(node, ast.ClassDef):
        return _called(name, _taken_by_class(entry.lineage), "")
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    if any(ast.unparse(d).endswith("property") for d in node.decorator_list):
        return f"{name}{returned.replace(' -> ', ': ')}"
    return _called(name, _taken(node.args, skip=entry.is_method), returned)


def _called(name: str, taken: list[str], returned: str) -> str:
    line = f"{name}({', '.join(taken)}){returned}"
    if len(line) <= LINE:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in taken), f"){returned}"])


def _taken_by_class(lineage: tuple[ast.ClassDef, ...]) -> list[str]:
    """The parameters of a class: of its `__init__`, or its fields."""
    methods = [m for node in lineage for m in node.body if isinstance(m, ast.FunctionDef)]
    for method in reversed(methods):
        if method.name == "__init__":
            return _taken(method.args, skip=True)
    with_fields = filter(_has_fields, lineage)
    fields = [m for node in with_fields for m in node.body if isinstance(m, ast.AnnAssign)]
    return [ast.unparse(field) for field in fields if "ClassVar" not in ast.unparse(field)]


def _has_fields(node: ast.ClassDef) -> bool:
    """True if a class is a dataclass or a named tuple."""
    words = [ast.unparse(each) for each in (*node.bases, *node.decorator_list)]
    return any(word == "NamedTuple" or word.startswith("dataclass") for word in words)


def _taken(args: ast.arguments, *, skip: bool) -> list[str]:
    """The parameters of a function, of a method without ``self``."""
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
    found = [_parameter(*each) for each in zip(positional, defaults, strict=True)]
    if args.posonlyargs:
        found.insert(len(args.posonlyargs), "/")
    found = found[1:] if skip else found
    if args.vararg:
        found.append(f"*{_parameter(args.vararg, None)}")
    elif args.kwonlyargs:
        found.append("*")
    found += map(_parameter, args.kwonlyargs, args.kw_defaults)
    return [*found, f"**{_parameter(args.kwarg, None)}"] if args.kwarg else found


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(argument)
    if default is None:
        return text
    equals = " = " if argument.annotation else "="
    return f"{text}{equals}{ast.unparse(default)}"


def _markdown(docstring: str, owner: str, links: Mapping[str, str]) -> str:
    """A docstring of Google's style as Markdown, its sections as lists."""
    parts = []
    for paragraph in re.split(r"\n\n(?=\S)", docstring.strip()):
        title, _, body = paragraph.partition(":\n")
        if title in SECTIONS:
            paragraph = f"**{SECTIONS[title]}**\n\n{_items(title, body)}"
        parts.append(_inline(paragraph, owner, links))
    return "\n\n".join(parts)


def _items(title: str, body: str) -> str:
    """The lines of a section, as a list where they begin with a name."""
    quote = "`" if title == "Raises" else "``"  # exceptions are links, parameters are not
    lines = textwrap.dedent(body)
    lines = re.sub(r"^ +", "  ", lines, flags=re.MULTILINE)
    return re.sub(r"^(\*{0,2}[\w.]+):", rf"- {quote}\1{quote}:", lines, flags=re.MULTILINE)


def _inline(text: str, owner: str, links: Mapping[str, str]) -> str:
    """Code as Markdown has it, and names of the reference as links."""

    def shown(found: re.Match[str]) -> str:
        code, name = found[1] or found[2], (found[2] or "").removeprefix("taiyi_fx.")
        link = links.get(f"{owner}.{name}") or links.get(name)
        return f"[`{code}`]({link})" if name and link else f"`{code}`"

    return re.sub(r"``(.+?)``|`([^`\n]+)`", shown, text, flags=re.DOTALL)


if __name__ == "__main__":
    main()
