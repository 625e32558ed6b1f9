"""Makes the pictures of the README, the tutorials and the gallery's figures, by their own code.

Needs Playwright and a Chromium: `$CHROMIUM`, or one that is found on the path.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from playwright.sync_api import sync_playwright

import taiyi_fx

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"


@dataclass(frozen=True)
class Report:
    """A report that a tutorial's code writes, and the button whose view is to be seen."""

    tutorial: str
    file: str
    button: str
    height: int


REPORTS = (
    Report("dying-layer", "dead.html", "finding", 740),
    Report("exploding-layer", "broken.html", "OutputRMS", 800),
    Report("batchnorm-gap", "gap.html", "MeanTID", 800),
)
FIGURES = ("heatmap", "curves", "spectra", "bands")
FEATURE_MAPS = "pictures/FeatureMap/0/00000028.png"


def main() -> None:
    """Writes docs/images/tutorials/*.png, and of docs/images/*.png those of the pages' code."""
    torch.manual_seed(0)
    with ran(DOCS.parent / "README.md") as names:
        picture = taiyi_fx.diagram(names["instrumented"], direction="LR")
        picture.write(IMAGES / "readme.png")
    for report in REPORTS:
        with ran(DOCS / "tutorials" / f"{report.tutorial}.md"):
            save(photographed(report), IMAGES / "tutorials" / f"{report.tutorial}.png")
    with ran(DOCS / "gallery.md"):
        for name in FIGURES:
            save(Image.open(f"{name}.png"), IMAGES / f"{name}.png")
        maps = Image.open(FEATURE_MAPS)
        larger = maps.resize((3 * maps.width, 3 * maps.height), Image.Resampling.NEAREST)
        save(larger, IMAGES / "feature_maps.png")


@contextmanager
def ran(page: Path) -> Iterator[dict[str, Any]]:
    """Runs a page's blocks of Python in a temporary folder, and stays there for the context."""
    namespace: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            exec(compile(block, page.name, "exec"), namespace)
        yield namespace


def photographed(report: Report) -> Image.Image:
    """The report's page in a browser, after a click."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": report.height})
        page.goto(f"file://{Path(report.file).resolve()}")
        page.wait_for_selector("html[data-ready=all]", state="attached")
        page.locator("#urgent, #tabs button").filter(has_text=report.button).first.click()
        page.wait_for_timeout(500)  # the graph moves to what was chosen
        seen = page.screenshot()
        browser.close()
    return Image.open(io.BytesIO(seen))


def save(picture: Image.Image, path: Path) -> None:
    """In at most 128 colours, which is a third of the size."""
    picture.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
