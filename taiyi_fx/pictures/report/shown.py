"""The file of a report, which a notebook shows as the page that it is."""

from __future__ import annotations

import html
from pathlib import Path

_MOST = 20_000_000
"""Bytes of a page that is put into a notebook, which keeps them."""


class ReportFile(type(Path())):
    """The path of a page; shown in a notebook it is the page itself."""

    def _repr_html_(self) -> str:
        """The page in a frame that cannot reach the notebook; of a large one its name."""
        size = self.stat().st_size if self.exists() else 0
        if not 0 < size <= _MOST:
            return f"<p>{html.escape(str(self))}</p>"
        page = html.escape(self.read_text("utf-8"))
        style = "width: 100%; height: 800px; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'
