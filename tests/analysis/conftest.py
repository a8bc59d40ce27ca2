"""The browser in which tests open reports."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.analysis.pages import CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens a page's text, and fails where the page asks for the network or has errors."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.set_default_timeout(20_000)
    wrong: list[str] = []
    page.on("console", lambda each: wrong.append(each.text))
    page.on("pageerror", lambda each: wrong.append(str(each)))
    page.on("request", lambda each: wrong.append(each.url) if "file:" not in each.url else None)

    def open_page(text: str) -> "Page":
        file = tmp_path / "report.html"
        file.write_text(text)
        page.goto(file.as_uri())
        found: Page = page
        return found

    yield open_page
    context.close()
    assert wrong == []
