"""A page of a header and chunks, as taiyi_fx.report makes it: for tests of the page alone."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parents[2] / "taiyi_fx" / "report" / "static"

Header = dict[str, Any]


def scripts() -> list[str]:
    names = (STATIC / "scripts.txt").read_text().split()
    return [(STATIC / name).read_text(encoding="utf-8") for name in names]


def assemble(header: Header, chunks: Mapping[int, bytes]) -> str:
    style = (STATIC / "page.css").read_text(encoding="utf-8")
    parts = {
        "csp": _policy(style, live=bool(header["live"])),
        "title": html.escape(header["title"]),
        "style": f"<style>{style}</style>",
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts()),
        "data": "\n".join([_data(header), *(_chunk(*chunk) for chunk in chunks.items())]),
    }
    template = (STATIC / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def _policy(style: str, *, live: bool) -> str:
    allowed = " ".join(map(_hash, scripts()))
    policy = (
        f"default-src 'none'; script-src {allowed} 'wasm-unsafe-eval'; style-src {_hash(style)}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return policy + ("; connect-src 'self'" if live else "")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(header: Header) -> str:
    text = json.dumps(header, ensure_ascii=False, allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="taiyi-data">{text}</script>'


def _chunk(index: int, packed: bytes) -> str:
    text = base64.b64encode(zlib.compress(packed)).decode()
    return f'<script type="application/octet-stream" id="taiyi-chunk-{index}">{text}</script>'
