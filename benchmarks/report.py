"""What a page of a long run takes: to make, on disk, and until it can be used in a browser.

The run has 1,200 series and 10,000 steps by default. Loading is measured where Playwright
(``pip install playwright``) and a Chromium are installed: from the start of the navigation to the
page's own mark ``taiyi:interactive``, in a new browser context each time.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

import taiyi_fx
from taiyi_fx.outline import Item, Outline
from taiyi_fx.records.record import Block
from taiyi_fx.writers import Batch, Store
from taiyi_fx.writers.run_info import run_info

_FLUSH = 100
_QUANTITIES = 4
_CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
_INTERACTIVE = "performance.getEntriesByName('taiyi:interactive')[0]?.startTime"


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--series", type=int, default=1200)
    parser.add_argument("--loads", type=int, default=7, help="how often the page is loaded")
    parser.add_argument("--killed", action="store_true", help="the run has no index")
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        run = _run(Path(folder), asked.steps, asked.series, is_killed=asked.killed)
        start = time.perf_counter()
        page = taiyi_fx.report(run, Path(folder) / "run.html")
        seconds = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(f"{asked.steps * asked.series:,} numbers: {seconds:.1f} s to make the page")
        print(f"{page.stat().st_size / 1e6:.1f} MB on disk; {memory:.0f} MB of memory with torch's")
        print(_loading(page, asked.loads))


def _run(folder: Path, steps: int, series: int, *, is_killed: bool) -> Path:
    """A run of random walks, as most quantities are; every thousandth number is NaN."""
    root = nn.Sequential()
    names = tuple(
        (f"layers.{i // _QUANTITIES}", f"Quantity{i % _QUANTITIES}") for i in range(series)
    )
    writer = Store(folder / "run")
    outline = Outline((Item("module", "model"),), ())
    writer.open(run_info(root, {"": root}, [], 0, 0, lambda: outline))
    random = np.random.default_rng(0)
    level = np.ones(series)
    for step in range(steps):
        level *= np.exp(0.02 * random.normal(size=series))
        values = np.where(random.random(series) < 1e-3, np.nan, level)
        writer.write(Batch(0, [Block(step, "train", names, values.tolist())]))
        if step % _FLUSH == _FLUSH - 1:
            writer.flush()
    writer.flush()
    if is_killed:
        return Path(shutil.copytree(folder / "run", folder / "killed"))
    writer.close()
    return folder / "run"


def _loading(page: Path, loads: int) -> str:
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _CHROMIUMS)), None)
    if not loads or importlib.util.find_spec("playwright") is None or path is None:
        return "loading is left out: it needs Playwright and a Chromium"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        found = [_load(browser, page) for _ in range(loads)]
        browser.close()
    shown = ", ".join(f"{ms / 1e3:.2f}" for ms in found)
    return f"{statistics.median(found) / 1e3:.2f} s until it can be used (median of {shown})"


def _load(browser: Any, page: Path) -> float:  # playwright may not be there to be typed
    context = browser.new_context(viewport={"width": 1600, "height": 1000})
    tab = context.new_page()
    tab.goto(page.absolute().as_uri())
    tab.wait_for_selector("html[data-ready]", state="attached")
    milliseconds = tab.evaluate(_INTERACTIVE)
    context.close()
    return milliseconds


if __name__ == "__main__":
    main()
