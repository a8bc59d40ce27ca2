"""The report's page, read as text and in a browser."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shard_dialect as sd
from tests.extras import needs

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="only where Chromium is installed")
EXAMPLES = Path("examples")


def html(text: str, **options: Any) -> str:
    return sd.report_html(sd.report(sd.parse(text), **options))


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


def test_it_names_no_address() -> None:
    page = html((EXAMPLES / "mlp_2d.mlir").read_text())
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(src|href)=\"(?!#)", page)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.mlir")), ids=lambda path: path.stem)
def test_each_collective_is_on_it(path: Path) -> None:
    module = sd.parse(path)
    entry = "main" if "func.func @main" in path.read_text() else None
    report = sd.report(module, entry)
    page = sd.report_html(report)
    for number, each in enumerate(report.communication):
        assert f'data-shows="collective-{number}"' in page
        assert f"#{number + 1} {each.kind}" in page
    ids = re.findall(r'<template id="([\w-]+)"', page)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'data-shows="([\w-]+)"', page)) <= set(ids)


def test_names_from_the_program_are_text() -> None:
    name = "<script>alert(1)</script>"
    page = html(
        "shard.grid @g(shape = 2)\n"
        f'func.func @"{name}"(%x: tensor<4xf32> {{mesh.sharding = #mesh.shard<@g, [[0]]>}})'
        " -> (tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}) {\n"
        f'  %y = math.exp %x : tensor<4xf32> loc("{name}")\n'
        f'  return %y : tensor<4xf32> loc("{name}")\n'
        f'}} loc("{name}")\n'
    )
    assert name not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_program_of_one_op_and_one_without_shardings() -> None:
    assert "moves" not in html(
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n"
    )
    no_grid = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n"
    assert "comes without shardings" in html(no_grid)
    partitioned = sd.parse((EXAMPLES / "mlp_1d.mlir").read_text())
    sd.run_pipeline(partitioned, "spmd")
    assert "comes without shardings" not in sd.report_html(sd.report(partitioned))


@in_browser
@needs("browser")
def test_a_click_tells_why(opened: Any) -> None:
    page = opened(html((EXAMPLES / "mlp_1d.mlir").read_text(), suggest=True))
    page.click("#program .collective")
    panel = page.inner_text("#panel")
    assert "#1 all_gather" in panel
    assert "Why" in panel
    assert "Without it" in panel
    assert page.locator(".shown").count() >= 2  # the box and the row of the table


@in_browser
@needs("browser")
def test_tensors_are_found_by_name_and_drawn(opened: Any) -> None:
    module = sd.parse(EXAMPLES / "mlp_2d.mlir")
    page = opened(sd.report_html(sd.report(module)))
    tensors = page.locator(".tensors li")
    all_of_them = tensors.count()
    page.fill("#filter", "result0")
    shown = page.locator(".tensors li:visible")
    assert 1 <= shown.count() < all_of_them
    shown.first.locator("button").focus()
    page.keyboard.press("Enter")
    panel = page.inner_text("#panel")
    assert "result0" in panel
    assert re.search(r"0\.\.\d+", panel)


@in_browser
@needs("browser")
def test_groups_show_their_ops_and_the_collectives_inside(opened: Any) -> None:
    page = opened(sd.report_html(sd.report(sd.parse(EXAMPLES / "pipeline_mlp.mlir"))))
    boxes = page.locator("#program .node")
    for number in range(boxes.count()):
        boxes.nth(number).click()
        assert page.inner_text("#panel h2")


@in_browser
@needs("browser", "jax")
def test_layers_open_and_close(opened: Any) -> None:
    from benchmarks.decoders import decoder

    report = sd.report(sd.parse(decoder(2, scopes=True)))
    page = opened(sd.report_html(report))
    layers = page.locator("#program .layer")
    names = layers.all_text_contents()
    assert [name.split()[0] for name in names if name] == ["layer_0", "layer_1"]
    assert page.locator("#program .sharding").count()
    layers.first.click()
    inside = [name.split()[0] for name in page.locator("#program .layer").all_text_contents()]
    assert set(inside) == {"attention", "mlp"}
    page.locator("#program .layer", has_text="mlp").first.click()
    assert page.locator("#program .collective").count()
    shardings = page.locator("#program .sharding").all_text_contents()
    assert '[["data", "model"], [], []]' in shardings
    page.locator("#program .ops").first.click()
    assert "stablehlo." in page.inner_text("#panel")
    page.locator("#program .layers button").first.click()
    assert page.locator("#program .layer").all_text_contents() == names


@in_browser
@needs("browser")
def test_memory_has_kinds_apart_and_axes(opened: Any) -> None:
    report = sd.report(sd.parse(EXAMPLES / "mlp_2d.mlir"))
    page = opened(sd.report_html(report))
    chart = page.locator("#memory .chart")
    kinds = [each.get_attribute("class") for each in chart.locator("polygon").all()]
    assert kinds == ["argument", "result", "temporary"]
    ticks = chart.locator(".tick").all_text_contents()
    assert "672 bytes" in ticks
    assert any("ops, by their number" in each for each in ticks)
    heights = {
        kind: chart.locator(f"polygon.{kind}").bounding_box()["height"] for kind in kinds if kind
    }
    whole = chart.locator(".moment").first.bounding_box()["height"]
    assert heights["argument"] / whole == pytest.approx(288 / 672, abs=0.02)
    # Of the temporaries the bounding box is from the arguments on to the peak.
    assert heights["temporary"] / whole == pytest.approx(384 / 672, abs=0.08)


def test_what_is_live_is_of_some_kind() -> None:
    for allocator in ("unfused", "arena", "xla"):
        memory = sd.report(sd.parse(EXAMPLES / "mlp_2d.mlir"), allocator=allocator).memory
        for each in memory.timeline:
            kinds = each.arguments + each.results + each.constants + each.temporaries
            assert kinds == each.bytes or allocator == "arena"
            assert kinds <= each.bytes


@in_browser
@needs("browser", "jax")
def test_a_decoder_of_24_layers_opens(opened: Any, tmp_path: Path) -> None:
    from benchmarks.decoders import decoder

    report = sd.report(sd.parse(decoder(24)))
    page = opened(sd.report_html(report))
    assert page.locator("#communication tbody tr").count() == len(report.communication) > 24
    milliseconds = page.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
    assert milliseconds < 10_000  # it takes 400; what would be wrong is a page that never ends
