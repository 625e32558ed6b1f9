"""Pages of made-up headers and chunks, and the files that all pages are made of."""

from __future__ import annotations

import base64
import functools
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from taiyi_fx.pictures.report import page

STATIC = Path(__file__).parents[3] / "taiyi_fx" / "pictures" / "report" / "static"

Header = dict[str, Any]


def scripts() -> list[str]:
    """The texts of the page's scripts."""
    return list(map(page.static, page.script_names()))


def assemble(header: Header, chunks: Mapping[int, bytes]) -> str:
    """The page of a header and chunks."""
    texts = ((i, _packed(data)) for i, data in chunks.items())
    return page.assemble(header, texts).text


@functools.lru_cache(maxsize=256)
def _packed(data: bytes) -> str:
    """The text of a chunk; most tests show those of one made-up report."""
    return base64.b64encode(zlib.compress(data)).decode()
