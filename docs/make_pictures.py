"""Makes the pictures of the tutorials: runs each page's code, and photographs the report it wrote.

Needs Playwright and a Chromium: `$CHROMIUM`, or one that is found on the path.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

DOCS = Path(__file__).parent


@dataclass(frozen=True)
class Picture:
    """A report that a tutorial's code writes, and the button whose view is to be seen."""

    tutorial: str
    report: str
    button: str
    height: int


PICTURES = (
    Picture("dying-layer", "dead.html", "1 alert", 740),
    Picture("exploding-layer", "broken.html", "OutputRMS", 800),
    Picture("batchnorm-gap", "gap.html", "MeanTID", 800),
)


def main() -> None:
    """Writes docs/images/tutorials/*.png."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for picture in PICTURES:
            with tempfile.TemporaryDirectory() as folder, chdir(folder):
                run(DOCS / "tutorials" / f"{picture.tutorial}.md")
                path = DOCS / "images" / "tutorials" / f"{picture.tutorial}.png"
                photograph(browser, picture, path)
            print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
        browser.close()


def run(page: Path) -> None:
    """Runs a page's blocks of Python in order, in one namespace."""
    namespace: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        exec(compile(block, page.name, "exec"), namespace)


def photograph(browser: Browser, picture: Picture, path: Path) -> None:
    """The report's page after a click, in few colours."""
    page = browser.new_page(viewport={"width": 1300, "height": picture.height})
    page.goto(f"file://{Path(picture.report).resolve()}")
    page.wait_for_selector("html[data-ready=all]", state="attached")
    page.locator("#urgent, #tabs button").filter(has_text=picture.button).first.click()
    page.wait_for_timeout(500)
    seen = Image.open(io.BytesIO(page.screenshot()))
    seen.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    page.close()


if __name__ == "__main__":
    main()
