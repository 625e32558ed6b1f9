"""A page in headless Chromium, watched: whatever it logs or asks of the network fails the test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.pictures.report import fake
from tests.pictures.report.assembly import assemble

PATIENCE = 20_000
"""The milliseconds that a page has for anything: compilers may run beside it."""

NAMES = ("chromium", "chromium-browser", "google-chrome")


def _chromium() -> str | None:
    told = os.environ.get("CHROMIUM")
    return told or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    path = _chromium()
    if path is None:
        pytest.skip("no Chromium: set CHROMIUM to its path, or install the package chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    told = os.environ.get("TAIYI_SCREENSHOTS")
    folder = Path(told) if told else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def complaints() -> list[str]:
    """What a page has logged and asked of the network; what is left at the end fails the test."""
    return []


@pytest.fixture
def show_file(browser: Any, complaints: list[str]) -> Iterator[Callable[..., Any]]:
    """Opens a page from disk; at the end nothing may have been logged or fetched."""
    contexts: list[Any] = []

    def open_file(path: Path, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1600, "height": 1000}, **options})
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        _watch(page, complaints, f"file://{path}")
        page.goto(f"file://{path}")
        wait_until_ready(page)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def show(show_file: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Opens a page of a header and chunks, as `show_file` does."""

    def open_page(header: fake.Header, chunks: Mapping[int, bytes], **options: Any) -> Any:
        path = tmp_path / f"page{len(list(tmp_path.iterdir()))}.html"
        path.write_text(assemble(header, chunks), encoding="utf-8")
        return show_file(path, **options)

    return open_page


def _watch(page: Any, complaints: list[str], own: str) -> None:
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("request", lambda asked: asked.url != own and complaints.append(f"asks {asked.url}"))


def wait_until_ready(page: Any) -> None:
    page.wait_for_selector("html[data-ready=all]", state="attached", timeout=PATIENCE)


def wait_until(page: Any, expression: str) -> None:
    """Waits for a JavaScript expression to hold; the page's policy lets no one evaluate in it."""
    for _ in range(PATIENCE // 25):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never true: {expression}")


@pytest.fixture(scope="session")
def gpt() -> tuple[fake.Header, fake.Chunks]:
    return fake.report()


@pytest.fixture(scope="session")
def two_runs() -> tuple[fake.Header, fake.Chunks]:
    return fake.comparison()
