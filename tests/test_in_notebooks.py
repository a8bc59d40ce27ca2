"""What values show of themselves in a notebook."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.model import Grid, Sharding
from shard_dialect.planner.reshard_plan import plan
from tests.conftest import run_child
from tests.extras import needs

EXAMPLE = Path("examples/mlp_1d.mlir")
GRID = Grid("g", (2, 4))
NAME = "<script>alert(1)</script>"
HOSTILE = (
    "shard.grid @g(shape = 2)\n"
    f'func.func @"{NAME}"(%x: tensor<4xf32> {{mesh.sharding = #mesh.shard<@g, [[0]]>}})'
    " -> (tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}) {\n"
    f'  %y = math.exp %x : tensor<4xf32> loc("{NAME}")\n'
    f'  return %y : tensor<4xf32> loc("{NAME}")\n}}\n'
)


class _Texts(HTMLParser):
    """The texts of a page whose tags are all closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def texts(html: str) -> list[str]:
    """What is read; no colour is set that one of the two themes would hide."""
    parser = _Texts()
    parser.feed(html)
    assert parser.open == []
    for style in re.findall(r'style="([^"]*)"', html):
        assert ("background-color:" in style) == bool(re.search(r"(?<!-)color:", style))
    assert len(html) < 20_000
    return parser.texts


def test_a_sharding() -> None:
    sharding = Sharding("g", ((0,), ()), (1,), "max", halos=((1, 2), ()))
    shown = texts(sharding._repr_html_())
    assert shown[0] == "[[0], [], {max = [1], halo = [[1, 2], []]}] on @g, partial max along [1]"
    assert shown[1:] == [
        *("dimension", "split along axes", "halo"),
        *("0", "[0]", "1 before, 2 after"),
        *("1", "not split", "0 before, 0 after"),
    ]
    offsets = Sharding("g", ((0,),), offsets=((0, 3, None),))
    assert "0, 3, ?" in texts(offsets._repr_html_())


def test_a_drawing() -> None:
    assert any("0..4" in each for each in texts(sd.show(sd.parse(EXAMPLE), "arg0")._repr_html_()))


def test_what_is_communicated() -> None:
    report = sd.communication(sd.parse(EXAMPLE))
    shown = texts(report._repr_html_())
    assert {"all_gather", "reduce_scatter", "total", f"{report.bytes_moved:,}"} <= set(shown)
    alone = sd.communication(sd.parse(HOSTILE.replace("[[0]]", "[[]]")), NAME)
    assert "no communication" in texts(alone._repr_html_())


def test_a_report_and_a_comparison() -> None:
    report = sd.report(sd.parse(EXAMPLE))
    shown = texts(report._repr_html_())
    assert f"each sends {report.bytes_moved:,} bytes" in shown[0]
    assert any(str(report.communication[0].why[-1]) in each for each in shown)
    changed = sd.compare(report, report)
    assert "+0" in texts(changed._repr_html_())


def test_plans() -> None:
    rows, columns = Sharding("g", ((0,), ())), Sharding("g", ((), (0,)))
    found = plan(rows, columns, (8, 8), 4, GRID)
    shown = texts(found._repr_html_())
    assert shown[0] == f"a device sends {found.bytes_moved:,} bytes"
    assert str(found.steps[0]) in shown
    result = sd.auto(sd.parse(EXAMPLE), seconds=1)
    shown = texts(result._repr_html_())
    assert shown[0] == str(result)
    assert {"x", "result0"} <= set(shown)


def test_names_from_a_program_are_text() -> None:
    module = sd.parse(HOSTILE)
    for value in (sd.report(module, NAME), sd.communication(module, NAME)):
        assert NAME not in value._repr_html_()
    from shard_dialect.ir.module_html import module_html

    assert NAME not in module_html(module)
    assert texts(module_html(module))[0] == f'@"{NAME}", annotated form; grid @g(2)'


def test_a_module_of_many_constants_and_lines_is_short() -> None:
    from shard_dialect.ir.module_html import module_html

    numbers = ", ".join(map(str, range(5000)))
    ops = "".join(f"  %{n} = arith.constant {n} : i32\n" for n in range(100))
    module = sd.parse(
        f"func.func @f() {{\n  %c = arith.constant dense<[{numbers}]> : tensor<5000xi32>\n"
        f"{ops}  return\n}}\n"
    )
    html = module_html(module)
    assert "4999" not in "".join(texts(html))
    assert html.startswith("<details><summary>@f, annotated form</summary>")
    assert module_html(sd.parse("")).startswith("<details open><summary>a module</summary>")


IN_IPYTHON = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
html = shell.display_formatter.formatters["text/html"]
{before}
import shard_dialect as sd
from importlib import reload
reload(sd)
assert "shard_dialect.ir" not in __import__("sys").modules
module = sd.parse("func.func @f() {{ return }}")
data, _ = shell.display_formatter.format(module)
print(data["text/html"])
print([name for name in vars(type(module)) if "html" in name])
"""


@needs("notebooks")
@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", "<details open><summary>@f, annotated form</summary>"),
        (
            "html.for_type_by_name('torch_mlir._mlir_libs._mlir.ir', 'Module', lambda _: 'mine')\n"
            "html.for_type_by_name('mlir._mlir_libs._mlir.ir', 'Module', lambda _: 'mine')",
            "mine",
        ),
    ],
)
def test_ipython_shows_modules_and_their_class_stays(before: str, expected: str) -> None:
    done = run_child([sys.executable, "-c", IN_IPYTHON.format(before=before)])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(expected)
    assert done.stdout.endswith("[]\n")
