"""The HTML page: the template filled with styles, scripts, data and a policy for them."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from taiyi_fx.pictures.report.header import as_json

_STATIC = resources.files("taiyi_fx.pictures.report") / "static"


class Page(NamedTuple):
    """A page, and the Content-Security-Policy that the browser enforces.

    Attributes:
        text: HTML with the policy in it.
        policy: The same policy, for a server's header.
    """

    text: str
    policy: str


def assemble(header: Mapping[str, Any], chunks: Iterable[tuple[int, str]]) -> Page:
    """A page with all its scripts, styles and data in it.

    Its policy allows the page's own scripts and styles, by their hashes, and WebAssembly. It loads
    nothing; only a live page may ask, and only its own server.

    Args:
        header: The header, from `taiyi_fx.pictures.report.header.header`.
        chunks: Ids and texts of chunks; their elements are never executed.
    """
    style, scripts = static("page.css"), [static(name) for name in script_names()]
    policy = _policy([style], scripts, is_live=bool(header["live"]))
    data = [_data("application/json", "taiyi-data", escaped(as_json(header)))]
    data += [_data("application/octet-stream", f"taiyi-chunk-{i}", text) for i, text in chunks]
    parts = {
        "csp": policy,
        "title": html.escape(str(header["title"])),
        "style": f"<style>{style}</style>",
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
        "data": "\n".join(data),
    }
    return Page(re.sub(r"\{\{(\w+)\}\}", lambda at: parts[at[1]], static("page.html")), policy)


def static(name: str) -> str:
    """The text of a file in the folder ``static``."""
    return (_STATIC / name).read_text(encoding="utf-8")


def script_names() -> list[str]:
    """The names of the page's scripts, in the order of loading."""
    return static("scripts.txt").split()


def escaped(text: str) -> str:
    """JSON with the characters of HTML markup escaped."""
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _policy(styles: Sequence[str], scripts: Sequence[str], *, is_live: bool) -> str:
    parts = {
        "default-src": "'none'",
        "script-src": " ".join([*map(_hash, scripts), "'wasm-unsafe-eval'"]),
        "style-src": " ".join(map(_hash, styles)),
        "img-src": "data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
        **({"connect-src": "'self'"} if is_live else {}),
    }
    return "; ".join(f"{name} {value}" for name, value in parts.items())


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _data(kind: str, name: str, text: str) -> str:
    return f'<script type="{kind}" id="{name}">{text}</script>'
