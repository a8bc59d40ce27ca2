"""The report's page, read as text and in a browser."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import shard_dialect as sd
from tests.analysis.pages import in_browser
from tests.extras import needs

if TYPE_CHECKING:
    from playwright.sync_api import Page

EXAMPLES = Path("examples")


def html(text: str, **options: Any) -> str:
    return sd.report_html(sd.report(sd.parse(text), **options))


def data_of(page: str) -> Any:
    """What the scripts of a page draw."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found is not None
    return json.loads(found[1])


def test_it_names_no_address() -> None:
    page = html((EXAMPLES / "mlp_2d.mlir").read_text())
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(src|href)=\"(?!#)", page)


@in_browser
@needs("browser")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.mlir")), ids=lambda path: path.stem)
def test_each_collective_is_on_it(path: Path, opened: Any) -> None:
    module = sd.parse(path)
    entry = "main" if "func.func @main" in path.read_text() else None
    report = sd.report(module, entry)
    page = opened(sd.report_html(report))
    rows = page.locator("#communication tbody tr").all_inner_texts()
    for number, each in enumerate(report.communication):
        assert rows[number].startswith(f"#{number + 1} {each.kind}")
    sent = page.evaluate("view ? view.boxes.root.sends : []")
    assert sorted(sent) == [
        n for n, each in enumerate(report.communication) if each.shown is not None
    ]
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(set(ids)) == len(ids)
    sections = page.evaluate("[...document.querySelectorAll('nav a')].map((each) => each.hash)")
    assert {each[1:] for each in sections} <= set(ids)


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
    assert "&lt;script&gt;alert(1)" in page  # the title
    assert data_of(page)["reports"][0]["entry"] == name


@in_browser
@needs("browser")
def test_a_program_of_one_op_and_one_without_shardings(opened: Any) -> None:
    no_grid = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n"
    text = opened(html(no_grid)).inner_text("body")
    assert "No communication" in text
    assert "comes without shardings" in text
    partitioned = sd.parse((EXAMPLES / "mlp_1d.mlir").read_text())
    sd.run_pipeline(partitioned, "spmd")
    page = opened(sd.report_html(sd.report(partitioned)))
    assert "comes without shardings" not in page.inner_text("body")


@in_browser
@needs("browser")
def test_it_opens_with_the_answer(opened: Any) -> None:
    page = opened(html((EXAMPLES / "slow_ffn.mlir").read_text(), suggest=True))
    most = page.locator("#answer .most li")
    assert 1 <= most.count() <= 5
    assert "all_to_all along model" in most.first.inner_text()
    assert "Without it: gate as" in most.first.inner_text()
    assert "196,608" not in most.first.inner_text()  # KiB, for people
    without = "a device then sends 192 KiB less, stores as much and takes 4.53 µs less."
    assert without in most.first.inner_text()
    sums = page.inner_text("#answer .sums")
    assert "as written" in sums
    assert "with collectives beside other ops" in sums
    assert page.locator("#panel").is_hidden()


@in_browser
@needs("browser")
def test_it_says_what_is_proven(opened: Any) -> None:
    text = (EXAMPLES / "mlp_1d.mlir").read_text()
    proven = "proven: every device computes the unsharded program, for all inputs"
    assert proven in opened(html(text, prove=True)).inner_text("header")
    assert "proven" not in opened(html(text)).inner_text("body")


@in_browser
@needs("browser")
def test_a_click_tells_why(opened: Any) -> None:
    page = opened(html((EXAMPLES / "mlp_1d.mlir").read_text(), suggest=True))
    page.click("#graph .collective .head")
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
    tensors = page.locator("#tensors tbody tr")
    all_of_them = tensors.count()
    page.fill("#tensors input", "result0")
    assert 1 <= tensors.count() < all_of_them
    tensors.first.locator("a").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#panel:visible")
    panel = page.inner_text("#panel")
    assert "result0" in panel
    assert re.search(r"0\.\.\d+", panel)
    page.reload()  # the link is to it
    assert "result0" in page.inner_text("#panel h2")


@in_browser
@needs("browser")
def test_groups_show_their_ops_and_the_collectives_inside(opened: Any) -> None:
    page = opened(sd.report_html(sd.report(sd.parse(EXAMPLES / "pipeline_mlp.mlir"))))
    page.evaluate("for (const box of view.boxes.all) if (box.kids.length) view.reveal(box)")
    boxes = page.locator("#graph .op > .head, #graph .collective > .head")
    assert boxes.count() > 4
    for number in range(boxes.count()):
        boxes.nth(number).focus()
        page.keyboard.press("Enter")
        assert page.inner_text("#panel h2")


def titles(page: "Page") -> list[str]:
    return page.evaluate(
        "view.boxes.laidOut().filter((box) => box.kind === 'layer').map((box) => box.title)"
    )


@in_browser
@needs("browser", "jax")
def test_layers_open_and_close(opened: Any) -> None:
    from benchmarks.decoders import decoder

    report = sd.report(sd.parse(decoder(2, scopes=True)))
    page = opened(sd.report_html(report))
    names = titles(page)
    assert names == ["layer_0", "layer_1"]
    assert page.locator("#graph .sharding").count()
    page.locator("#graph .layer > .head").first.click()
    assert {"attention", "mlp"} <= {*titles(page)}
    page.evaluate("location.hash = 'layer-layer_0/mlp'")
    page.wait_for_function("view.boxes.laidOut().some((box) => box.kind === 'collective')")
    shardings = page.locator("#graph .sharding").all_text_contents()
    assert '[["data", "model"], [], []]' in shardings
    page.evaluate("view.chosen(view.boxes.all.find((box) => box.kind === 'op'), null)")
    assert "stablehlo." in page.inner_text("#panel")
    page.evaluate("view.toggle(view.boxes.all.find((box) => box.title === 'layer_0'))")
    assert titles(page) == names


@in_browser
@needs("browser")
def test_memory_has_kinds_apart_and_axes(opened: Any) -> None:
    report = sd.report(sd.parse(EXAMPLES / "mlp_2d.mlir"))
    page = opened(sd.report_html(report))
    chart = page.locator("#memory .chart")
    kinds = [each.get_attribute("class") for each in chart.locator("polygon").all()]
    assert kinds == ["argument", "result", "temporary"]
    assert "672 bytes" in chart.locator(".tick").all_text_contents()
    assert re.search(r"op \d+, .*672 bytes", chart.locator(".told").inner_text())
    heights = {
        kind: chart.locator(f"polygon.{kind}").bounding_box()["height"] for kind in kinds if kind
    }
    whole = chart.locator(".moment").first.bounding_box()["height"]
    assert heights["argument"] / whole == pytest.approx(288 / 672, abs=0.02)
    # Of the temporaries the bounding box is from the arguments on to the peak.
    assert heights["temporary"] / whole == pytest.approx(384 / 672, abs=0.08)


@in_browser
@needs("browser")
def test_numbers_are_told_for_people(opened: Any) -> None:
    page = opened(html((EXAMPLES / "mlp_1d.mlir").read_text()))
    told = {
        "bytesText(1536)": "1.5 KiB",
        "timeText(0.0000125)": "12.5 µs",
        "timeText(9.55e-13)": "under 1 ns",
        "countText(2500000)": "2.5 M",
    }
    for call, text in told.items():
        assert page.evaluate(call) == text


@in_browser
@needs("browser")
def test_two_reports_show_what_changed(opened: Any) -> None:
    module = sd.parse(EXAMPLES / "slow_ffn.mlir")
    page = opened(sd.report_html(sd.what_if(module, "gate=[[], [model]]")))
    changed = page.locator("#changes tbody tr").all_inner_texts()
    assert any("gone" in each and "all_to_all" in each for each in changed)
    assert page.locator(".answer").count() == 2
    after = page.locator("#communication tbody tr").count()
    page.click("text=before >> nth=-1")
    assert page.locator("#communication tbody tr").count() == after + 1


@in_browser
@needs("browser")
def test_the_graph_is_searched_coloured_and_moved_by_keys(opened: Any) -> None:
    page = opened(html((EXAMPLES / "mlp_1d.mlir").read_text()))
    page.keyboard.press("/")
    page.keyboard.type("all_gather 0")
    assert page.locator("#hits button").count() == 1
    page.keyboard.press("Enter")
    assert "#1 all_gather" in page.inner_text("#panel")
    page.select_option("#colour", "bytes")
    assert "128 bytes" in page.inner_text("#key")
    page.focus("#graph .canvas")
    before = page.evaluate("({ ...view.view })")
    page.keyboard.press("+")
    page.keyboard.press("ArrowLeft")
    after = page.evaluate("({ ...view.view })")
    assert after["k"] > before["k"]
    page.keyboard.press("Escape")
    assert page.locator("#panel").is_hidden()


@in_browser
@needs("browser")
def test_on_paper_tables_are_whole(opened: Any) -> None:
    count = 130
    given = ", ".join(
        f"%x{n}: tensor<4xf32> {{mesh.sharding = #mesh.shard<@g, [[0]]>}}" for n in range(count)
    )
    page = opened(
        html(
            f"shard.grid @g(shape = 2)\nfunc.func @main({given}) -> tensor<4xf32> {{\n"
            "  return %x0 : tensor<4xf32>\n}\n"
        )
    )
    rows = page.locator("#tensors tbody tr")
    assert rows.count() == 100
    page.fill("#tensors input", "x1")
    filtered = rows.count()
    assert filtered < 100
    # A page hears of the other medium when it draws next.
    has_rows = "count => document.querySelectorAll('#tensors tbody tr').length == count"
    page.emulate_media(media="print")
    page.wait_for_function(has_rows, arg=count + 1)
    page.emulate_media(media="screen")
    page.wait_for_function(has_rows, arg=filtered)
    assert len(page.pdf()) > 10_000


@in_browser
@needs("browser")
def test_tables_sort(opened: Any) -> None:
    page = opened(html((EXAMPLES / "slow_ffn.mlir").read_text()))
    sent = page.locator("#communication th", has_text="sent")
    sent.locator("button").click()
    assert sent.get_attribute("aria-sort") == "descending"
    assert "all_reduce" in page.locator("#communication tbody tr").first.inner_text()


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
    assert len(report.communication) > 24
    for more in page.locator("#communication .more:visible").all():
        more.click()
    assert page.locator("#communication tbody tr").count() == len(report.communication)
    milliseconds = page.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
    assert milliseconds < 10_000  # it takes 400; what would be wrong is a page that never ends


@in_browser
@needs("browser")
def test_of_20000_ops_few_are_laid_out(opened: Any) -> None:
    body = "".join(
        f"  %{n + 1} = math.{'exp' if n % 3 else 'sin'} %{n} : tensor<8xf32>\n"
        for n in range(20_000)
    )
    program = (
        "func.func @main(%arg: tensor<8xf32>) -> tensor<8xf32> {\n"
        "  %0 = math.exp %arg : tensor<8xf32>\n"
        f"{body}  return %20000 : tensor<8xf32>\n}}\n"
    )
    page = opened(html(program))
    assert page.evaluate("view.boxes.all.length") > 20_000
    assert page.evaluate("view.boxes.laidOut().length") <= 300
    for number in (1, 10_000, 20_000):
        page.evaluate(f"view.reveal(view.boxes.paths[{number}].at(-1))")
        assert page.evaluate("view.boxes.laidOut().length") <= 300
        assert page.locator("#graph .box").count() <= 300


@in_browser
@needs("browser", "jax")
def test_what_was_clicked_stays_in_its_place(opened: Any) -> None:
    from benchmarks.decoders import decoder

    page = opened(sd.report_html(sd.report(sd.parse(decoder(2, scopes=True)))))
    page.set_viewport_size({"width": 1440, "height": 900})
    page.evaluate("view.reveal(view.boxes.all.find((box) => box.kind === 'collective'))")
    for which in ("#graph .collective > .head", "#communication tbody tr:nth-child(6) a"):
        clicked = page.locator(which).first
        clicked.scroll_into_view_if_needed()
        before = clicked.bounding_box()["y"]
        clicked.click()
        page.wait_for_selector("#panel:visible")
        assert clicked.bounding_box()["y"] == pytest.approx(before, abs=2)
        page.keyboard.press("Escape")
        assert clicked.bounding_box()["y"] == pytest.approx(before, abs=2)


@in_browser
@needs("browser")
def test_places_in_libraries_are_told_from_the_library_on(opened: Any, tmp_path: Path) -> None:
    place = tmp_path / "site-packages" / "flax" / "linear.mlir"
    place.parent.mkdir(parents=True)
    place.write_text((EXAMPLES / "slow_ffn.mlir").read_text())
    page = opened(sd.report_html(sd.report(sd.parse(place))))
    assert "flax/linear.mlir:" in page.inner_text("#communication")
    assert "site-packages" not in page.inner_text("main")
    assert page.locator(f"code[title^='{place}']").count()
