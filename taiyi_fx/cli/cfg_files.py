"""Configurations in files: Python, YAML or TOML, with the lines of their keys."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taiyi_fx.cli.models import failure_text
from taiyi_fx.cli.refused import Refused

_LARGEST = 1_000_000
"""Bytes of a file: a line for each of a thousand layers comes to a tenth of it."""

_MOST = 100_000
"""Values of a YAML file: some hundred bytes of aliases of aliases stand for billions."""

_DEEPEST = 20
"""Levels of lists: an entry's options have four."""


@dataclass(frozen=True)
class CfgFile:
    """A configuration from a file.

    Attributes:
        path: The file.
        cfg: Keys to entries; a preset's name; or None for the preset that fits.
        lines: The lines of keys, as far as known.
    """

    path: Path
    cfg: Any  # a file of Python sets anything that `instrument` takes
    lines: Mapping[Any, int] = field(default_factory=dict)

    def located(self, problem: str) -> str:
        """A problem of the configuration with its file, and its line if that is known."""
        from taiyi_fx.config.entries import place

        for key, line in self.lines.items():
            if re.match(re.escape(place(key)) + r"[\[:]", problem):
                return f"{self.path}:{line}: {problem}"
        return f"{self.path}: {problem}"


def add_cfg(command: ArgumentParser) -> None:
    """Adds the argument that names a configuration."""
    command.add_argument(
        "cfg",
        metavar="CFG",
        nargs="?",
        help="a configuration: .py that sets `cfg`, .yaml, .yml or .toml; or the name of a preset "
        "(default: the preset that fits the model)",
    )


def read_cfg(name: str | None) -> CfgFile:
    """Reads a configuration; takes a name that is no file's as that of a preset.

    Raises:
        Refused: It does not exist, cannot be read, or is no configuration; says where it is wrong.
    """
    if name is None or re.fullmatch(r"\w+", name):
        return CfgFile(Path(name or ""), name)
    path = Path(name)
    readers = {".py": _python, ".yaml": _yaml, ".yml": _yaml, ".toml": _toml}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise Refused(f"{name}: CFG ends in .py, .yaml, .yml or .toml, or is a preset's name")
    try:
        size = path.stat().st_size
        if size > _LARGEST:
            raise Refused(f"{name}: it has {size} bytes; a configuration has at most {_LARGEST}")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{name}: it cannot be read: {error}") from error
    found = reader(path, text)
    kinds = (Mapping, list, tuple, str) if path.suffix.lower() == ".py" else Mapping
    if not isinstance(found.cfg, kinds):
        raise Refused(
            f"{name}: a configuration maps modules to lists of quantities, this is a "
            f"{type(found.cfg).__name__}"
        )
    return found


def _python(path: Path, text: str) -> CfgFile:
    try:
        names = runpy.run_path(str(path))
    except SyntaxError as error:
        raise Refused(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:  # the user's own code
        raise Refused(failure_text(f"running {path}", error)) from error
    if "cfg" not in names:
        raise Refused(f"{path}: it does not set `cfg`")
    cfg = names["cfg"]
    lines = _lines_of_literal(text)
    # The keys of a literal are those of the configuration, in their order, unless it was changed.
    is_plain = isinstance(cfg, Mapping) and len(cfg) == len(lines)
    return CfgFile(path, cfg, dict(zip(cfg, lines, strict=True)) if is_plain else {})


def _lines_of_literal(text: str) -> list[int]:
    """The lines of the keys of the last ``cfg = {...}`` in a Python file."""
    lines: list[int] = []
    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        is_cfg = any(isinstance(target, ast.Name) and target.id == "cfg" for target in targets)
        value = getattr(node, "value", None)
        if is_cfg and isinstance(value, ast.Dict):
            lines = [key.lineno for key in value.keys if key is not None]
    return lines


def _yaml(path: Path, text: str) -> CfgFile:
    yaml = _optional("yaml", "PyYAML", "yaml")
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is not None:
            _check_size(path, root)
        return _of_nodes(path, loader, root)
    except RecursionError as error:
        raise Refused(f"{path}: its brackets are nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:  # the latter for such as the date 2020-13-45
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise Refused(f"{where}: {getattr(error, 'problem', None) or error}") from error


def _check_size(path: Path, root: Any) -> None:  # PyYAML is untyped
    """Refuses aliases that expand to very many values, and nesting deeper than any entry's."""
    sizes: dict[int, int] = {}

    def size(node: Any, depth: int) -> int:
        line = node.start_mark.line + 1
        if depth > _DEEPEST:
            raise Refused(f"{path}:{line}: lists are nested deeper than {_DEEPEST}, the limit")
        if node.id == "scalar":
            return 1
        if id(node) not in sizes:
            parts = node.value
            if node.id == "mapping":
                parts = [part for pair in parts for part in pair]
            sizes[id(node)] = 1 + sum(size(part, depth + 1) for part in parts)
        if sizes[id(node)] > _MOST:
            raise Refused(
                f"{path}:{line}: with its aliases (*name) written out it has "
                f"{sizes[id(node)]} values; the limit is {_MOST}"
            )
        return sizes[id(node)]

    size(root, 1)


def _of_nodes(path: Path, loader: Any, root: Any) -> CfgFile:  # PyYAML is untyped
    if root is None or root.id != "mapping":
        document: Any = root and loader.construct_document(root)
        return CfgFile(path, document)
    cfg: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in root.value:
        # Keys as they are written: 4 and 1.10 are names of modules, not numbers.
        line = key_node.start_mark.line + 1
        if key_node.id != "scalar":
            raise Refused(f"{path}:{line}: a key is the name of modules, not a {key_node.id}")
        key = str(key_node.value)
        if key in cfg:
            raise Refused(f"{path}:{line}: {key!r} is in line {lines[key]} already")
        cfg[key] = loader.construct_object(value_node, deep=True)
        lines[key] = line
    return CfgFile(path, cfg, lines)


def _toml(path: Path, text: str) -> CfgFile:
    library = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    toml = _optional(library, "tomli", "toml")
    try:
        cfg = toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise Refused(f"{path}: {error}") from error
    for key, entries in cfg.items():
        if isinstance(entries, dict):
            raise Refused(
                f"{path}: {key!r} is a table; put a name with dots in quotes, such as "
                f'"{key}.{next(iter(entries), "0")}" = ["InputMean"]'
            )
    return CfgFile(path, cfg, {key: line for key in cfg if (line := _line_of(key, text))})


def _line_of(key: str, text: str) -> int | None:
    spelled = re.compile(rf"""\s*(["']?){re.escape(key)}\1\s*=""")
    numbered = enumerate(text.split("\n"), start=1)
    return next((number for number, line in numbered if spelled.match(line)), None)


def _optional(module: str, package: str, extra: str) -> Any:  # it may not be there to be typed
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Refused(f"this needs {package}: pip install 'taiyi-fx[{extra}]'") from error
