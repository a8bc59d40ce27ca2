"""Make the pictures of docs/reading-a-report.md: the report's page in Chromium.

pip install -e '.[browser,jax]' && apt-get install chromium
python docs/screenshots.py
"""

import os
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import shard_dialect as sd
from benchmarks.decoders import decoder

IMAGES = Path(__file__).parent.resolve() / "images"
LAYERS = 2


def main() -> None:
    """Write the three pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        os.chdir(folder)  # so that locations are short
        program = Path("decoder.mlir")
        program.write_text(decoder(LAYERS, scopes=True).replace(f"{IMAGES.parents[1]}/", ""))
        file = Path(folder, "report.html")
        file.write_text(sd.report_html(sd.report(sd.parse(program), suggest=True)))
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 760})
        page.goto(file.as_uri())
        _shoot(page, "overview")
        page.evaluate("location.hash = 'layer-layer_0/mlp'")
        page.wait_for_selector("#graph .collective")
        page.evaluate("location.hash = 'collective-3'")
        page.wait_for_selector("#panel:visible")
        page.evaluate("document.getElementById('program').scrollIntoView()")
        _shoot(page, "why")
        page.set_viewport_size({"width": 1280, "height": 480})
        page.locator("#memory").evaluate("each => each.scrollIntoView()")
        _shoot(page, "memory")
        browser.close()


def _shoot(page: Page, name: str) -> None:
    page.screenshot(path=IMAGES / f"report-{name}.png")


if __name__ == "__main__":
    main()
