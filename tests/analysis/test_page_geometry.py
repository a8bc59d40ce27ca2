"""On the page, no text is cut, runs out of its box, or prints over another."""

from typing import Any

import pytest

import shard_dialect as sd
from tests.analysis.pages import PROGRAMS, in_browser
from tests.extras import needs

pytestmark = [in_browser, needs("browser", "jax", "examples")]

WRONG = """() => {
  const wrong = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) wrong.push(`the page is ${root.scrollWidth} wide`);
  const area = (element) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    return { left, right, top, bottom, told: element.textContent.slice(0, 40) };
  };
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
    && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const isIn = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1
    && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
  const texts = [...document.querySelectorAll('#graph .canvas text')]
    .filter((each) => each.textContent && !each.closest('.hidden') && each.getClientRects().length);
  const areas = texts.map(area);
  for (const [number, text] of texts.entries()) {
    const own = text.closest('.head, .port, .label').querySelector('rect').getBoundingClientRect();
    if (!isIn(areas[number], own)) wrong.push(`${areas[number].told} runs out of its box`);
    const size = parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
    if (size < 8.5) wrong.push(`${areas[number].told} is ${size} high`);
    for (let other = number + 1; other < texts.length; other += 1) {
      if (meet(areas[number], areas[other])) {
        wrong.push(`${areas[number].told} meets ${areas[other].told}`);
      }
    }
  }
  const labels = [...document.querySelectorAll('#graph .label:not(.hidden), #graph .port')];
  const closed = [...document.querySelectorAll('#graph .box:not(.open)')].map(area);
  for (const label of texts.length ? labels.map(area) : []) {
    for (const box of closed) if (meet(label, box)) wrong.push(`${label.told} on ${box.told}`);
  }
  for (const each of document.querySelectorAll('.bar, td, th, dd, dt, button, #answer li')) {
    if (each.closest('#graph') || !each.getClientRects().length) continue;
    const told = each.textContent.slice(0, 60);
    const isInline = getComputedStyle(each).display === 'inline';
    if (!isInline && each.scrollWidth > each.clientWidth + 1) wrong.push(`cut: ${told}`);
    if (area(each).right > root.clientWidth + 1) wrong.push(`beyond the edge: ${told}`);
  }
  return wrong;
}"""
UNFOLD = """() => {
  const folded = view.boxes.all.filter((each) => each.kids.length);
  for (const box of folded.slice(0, 12)) view.boxes.unfold(box);
  view.draw();
  view.fit();
}"""


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [800, 1440, 1920])
@pytest.mark.parametrize("name", PROGRAMS)
def test_texts_are_apart(
    name: str, width: int, scheme: Any, opened: Any, pages: dict[str, str]
) -> None:
    if name not in pages:
        pages[name] = sd.report_html(sd.report(PROGRAMS[name]()))
    page = opened(pages[name])
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("view.fit()")
    assert page.evaluate(WRONG) == []
    page.evaluate(UNFOLD)
    assert page.locator("#graph .line").count()
    assert name == "pipelined" or page.locator("#graph .label").count()
    for zoom in ("view.zoom(1)", "view.zoom(0.6)", "view.fit(true)"):
        page.evaluate(zoom)
        assert page.evaluate(WRONG) == [], zoom
    page.evaluate("view.chosen(view.boxes.all.find((box) => !box.kids.length), null)")
    page.wait_for_timeout(50)
    assert page.evaluate(WRONG) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [800, 1440, 1920])
def test_texts_of_a_comparison_are_apart(
    width: int, scheme: Any, opened: Any, pages: dict[str, str]
) -> None:
    page = opened(compared(pages))
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    for number in (1, 0):
        page.locator(".choices button").nth(number).click()
        page.evaluate("view.fit()")
        assert page.evaluate(WRONG) == []
        page.evaluate(UNFOLD)
        assert page.evaluate(WRONG) == []


def compared(pages: dict[str, str]) -> str:
    """The page of one program beside another, made once."""
    if "compared" not in pages:
        reports = [sd.report(PROGRAMS[name]()) for name in ("unet", "resnet")]
        pages["compared"] = sd.report_html(sd.compare(*reports))
    return pages["compared"]


A4 = 718
"""The pixels between the margins of a page."""
PRINTED = """() => {
  const isSeen = (each) => each.getClientRects().length > 0;
  const seen = (which) => [...document.querySelectorAll(which)].filter(isSeen).length;
  return {
    controls: seen('input, select, button:not(th button, .choices [aria-pressed="true"])'),
    graph: seen('#graph'),
    told: document.body.innerText.includes('The graph is not printed'),
    ink: getComputedStyle(document.body).color,
  };
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["gpt2", "pipelined", "compared"])
def test_on_paper_texts_are_apart_and_dark(
    name: str, scheme: Any, opened: Any, pages: dict[str, str]
) -> None:
    if name != "compared" and name not in pages:
        pages[name] = sd.report_html(sd.report(PROGRAMS[name]()))
    page = opened(compared(pages) if name == "compared" else pages[name])
    page.evaluate("view.chosen(view.boxes.all.find((box) => !box.kids.length), null)")
    page.set_viewport_size({"width": A4, "height": 1000})
    page.emulate_media(media="print", color_scheme=scheme)
    assert page.evaluate(WRONG) == []
    ink = "rgb(28, 35, 48)"
    assert page.evaluate(PRINTED) == {"controls": 0, "graph": 0, "told": True, "ink": ink}
    page.emulate_media(media="screen", color_scheme=scheme)
    assert page.locator("#graph").is_visible()


def test_labels_without_their_sizes_are_found(opened: Any) -> None:
    page = opened(sd.report_html(sd.report(PROGRAMS["unet"]())))
    page.evaluate("""() => {
      for (const box of view.boxes.laidOut().filter((each) => each.opened)) {
        for (const edge of view.boxes.edges(box)) Object.assign(edge, { width: 1, height: 1 });
      }
      view.draw();
      view.fit();
    }""")
    assert any("runs out of its box" in each for each in page.evaluate(WRONG))


def test_labels_and_boxes_that_meet_are_found(opened: Any) -> None:
    page = opened(sd.report_html(sd.report(PROGRAMS["unet"]())))
    page.evaluate("""() => {
      for (const box of view.boxes.root.kids) box.x = box.y = 40;
      view.scene.replaceChildren(view.element(view.boxes.root));
      view.write();
    }""")
    wrong = page.evaluate(WRONG)
    assert any(" meets " in each for each in wrong)
    page.evaluate("document.querySelector('table').style.width = '5000px'")
    assert any("beyond the edge" in each for each in page.evaluate(WRONG))
