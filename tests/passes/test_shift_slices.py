"""Random stencils: rolls, paddings and repeated edges along split dimensions, in every mixture.

Their numbers are those of the unsharded program, and no more bytes move than without the pass.
"""

import random

import pytest

import shard_dialect as sd
from shard_dialect.testing.placement import cluster, encoding
from shard_dialect.testing.random_shardings import any_grid, any_sharding
from tests.extras import needs

WITHOUT = "sink-reshapes,propagate,split-reductions,materialize,optimize-collectives,partition"


class Stencil:
    """A function of one tensor, which adds up shifted views of it, one or two times."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.grid = rng.choice([(2,), (4,), (2, 2)])
        self.shape = tuple(rng.choice([16, 24, 19, 22]) for _ in range(rng.choice([1, 2, 2])))
        self.element = rng.choice(["f32", "f32", "i32"])
        self.lines: list[str] = []
        value = "%x"
        for _ in range(rng.choice([1, 2])):
            views = [self.view(value) for _ in range(rng.choice([1, 2, 3]))]
            for view in views:
                value = self.add(f"stablehlo.add {value}, {view} : {self.type(self.shape)}")
        self.result = value

    def add(self, op: str) -> str:
        self.lines.append(f"  %{len(self.lines)} = {op}")
        return f"%{len(self.lines) - 1}"

    def type(self, shape: tuple[int, ...]) -> str:
        return f"tensor<{'x'.join(map(str, shape))}x{self.element}>"

    def slice(self, value: str, begin: int, end: int, dim: int) -> tuple[str, tuple[int, ...]]:
        bounds = [f"{begin}:{end}" if d == dim else f"0:{n}" for d, n in enumerate(self.shape)]
        shape = tuple(end - begin if d == dim else n for d, n in enumerate(self.shape))
        types = f"({self.type(self.shape)}) -> {self.type(shape)}"
        return self.add(f"stablehlo.slice {value} [{', '.join(bounds)}] : {types}"), shape

    def joined(
        self, one: tuple[str, tuple[int, ...]], other: tuple[str, tuple[int, ...]], dim: int
    ) -> str:
        types = f"({self.type(one[1])}, {self.type(other[1])}) -> {self.type(self.shape)}"
        return self.add(f"stablehlo.concatenate {one[0]}, {other[0]}, dim = {dim} : {types}")

    def view(self, value: str) -> str:
        rng = self.rng
        dim, by = rng.randrange(len(self.shape)), rng.choice([1, 1, 2, 3])
        size = self.shape[dim]
        kind = rng.choice(["roll", "clamp", "pad"])
        if kind == "pad":
            number = "0.0" if self.element == "f32" else "0"
            zero = self.add(f"stablehlo.constant dense<{number}> : tensor<{self.element}>")
            low = [0] * len(self.shape)
            low[dim] = rng.choice([by, -by])
            high = [-each for each in low]
            widths = f"low = {low}, high = {high}, interior = {[0] * len(low)}"
            types = f"({self.type(self.shape)}, tensor<{self.element}>) -> {self.type(self.shape)}"
            return self.add(f"stablehlo.pad {value}, {zero}, {widths} : {types}")
        if kind == "roll" and rng.random() < 0.5:
            return self.joined(self.slice(value, by, size, dim), self.slice(value, 0, by, dim), dim)
        if kind == "roll":
            return self.joined(
                self.slice(value, size - by, size, dim), self.slice(value, 0, size - by, dim), dim
            )
        return self.joined(
            self.slice(value, 1, size, dim), self.slice(value, size - 1, size, dim), dim
        )

    def text(self) -> str:
        axes = list(range(len(self.grid)))
        dims: list[list[int]] = [[] for _ in self.shape]
        for axis in axes:
            dims[self.rng.randrange(len(dims))].append(axis)
        sharding = f"{{mesh.sharding = #mesh.shard<@g, {dims}>}}"
        type_ = self.type(self.shape)
        head = f"func.func @main(%x: {type_} {sharding}) -> ({type_} {sharding}) {{"
        grid = f"shard.grid @g(shape = {'x'.join(map(str, self.grid))})"
        return "\n".join([grid, head, *self.lines, f"  return {self.result} : {type_}", "}"])


def bytes_moved(text: str, pipeline: str) -> int:
    module = sd.parse(text)
    sd.run_pipeline(module, pipeline)
    return sd.communication(module).bytes_moved


@needs("jax")
@pytest.mark.parametrize("seed", range(24))
def test_random_stencils(seed: int) -> None:
    text = Stencil(seed).text()
    assert sd.compile(sd.parse(text)).check().passed
    # Views of which few elements move may cost some bytes more than one exchange that all share.
    assert bytes_moved(text, "spmd") <= 1.1 * bytes_moved(text, WITHOUT)


@pytest.mark.parametrize(("kind", "most"), [("pad", 2 * 64 * 4), ("clamp", 2 * 64 * 4)])
def test_a_stencil_moves_its_halos(kind: str, most: int) -> None:
    """Two views of 64x64 elements on four devices, one row from each neighbour."""
    type_, row, rest = "tensor<64x64xf32>", "tensor<1x64xf32>", "tensor<63x64xf32>"
    sharding = "{mesh.sharding = #mesh.shard<@g, [[0], []]>}"
    if kind == "pad":
        types = f"interior = [0, 0] : ({type_}, tensor<f32>) -> {type_}"
        views = [
            f"%u = stablehlo.pad %x, %z, low = [1, 0], high = [-1, 0], {types}",
            f"%d = stablehlo.pad %x, %z, low = [-1, 0], high = [1, 0], {types}",
        ]
    else:
        views = [
            f"%a = stablehlo.slice %x [0:1, 0:64] : ({type_}) -> {row}",
            f"%b = stablehlo.slice %x [0:63, 0:64] : ({type_}) -> {rest}",
            f"%u = stablehlo.concatenate %a, %b, dim = 0 : ({row}, {rest}) -> {type_}",
            f"%c = stablehlo.slice %x [1:64, 0:64] : ({type_}) -> {rest}",
            f"%e = stablehlo.slice %x [63:64, 0:64] : ({type_}) -> {row}",
            f"%d = stablehlo.concatenate %c, %e, dim = 0 : ({rest}, {row}) -> {type_}",
        ]
    text = "\n".join(
        [
            "shard.grid @g(shape = 4)",
            f"func.func @main(%x: {type_} {sharding}) -> ({type_} {sharding}) {{",
            "%z = stablehlo.constant dense<0.0> : tensor<f32>",
            *views,
            f"%s = stablehlo.add %u, %d : {type_}",
            f"return %s : {type_}",
            "}",
        ]
    )
    assert bytes_moved(text, "spmd") <= most


SPLITS = ["[0, 1], []", "[1, 0], []", "[], [0, 1]", "[], [1, 0]", "[0], [1]", "[1], [0]", "[0], []"]


def rolled(by: int, source: str, target: str) -> str:
    """A tensor of 16x24 that is rolled along its second dimension; for 0 only copied."""
    type_, other = "tensor<16x24xf32>", 24 - by
    shardings = [f"{{mesh.sharding = #mesh.shard<@g, [{each}]>}}" for each in (source, target)]
    lines = [
        f"%0 = stablehlo.slice %x [0:16, {other}:24] : ({type_}) -> tensor<16x{by}xf32>",
        f"%1 = stablehlo.slice %x [0:16, 0:{other}] : ({type_}) -> tensor<16x{other}xf32>",
        "%r = stablehlo.concatenate %0, %1, dim = 1"
        f" : (tensor<16x{by}xf32>, tensor<16x{other}xf32>) -> {type_}",
    ]
    return "\n".join([
        "shard.grid @g(shape = 2x4)",
        f"func.func @main(%x: {type_} {shardings[0]}) -> ({type_} {shardings[1]}) {{",
        *(lines if by else [f"%r = stablehlo.negate %x : {type_}"]),
        f"return %r : {type_}\n}}",
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_a_roll_into_another_split(seed: int) -> None:
    rng = random.Random(seed)
    by, source, target = rng.randrange(1, 24), *rng.sample(SPLITS, 2)
    apart = [
        bytes_moved(rolled(by, split, split), "spmd")
        + bytes_moved(rolled(0, source, target), "spmd")
        for split in (source, target)
    ]
    text = rolled(by, source, target)
    assert bytes_moved(text, "spmd") <= min(apart), text
    assert sd.compile(sd.parse(text)).check().passed


def test_a_padded_roll_that_is_gathered_still_exchanges_one_row() -> None:
    whole, joined = "tensor<24x16xf32>", "tensor<24x19xf32>"
    text = f"""
    shard.grid @g(shape = 2)
    func.func @main(%x: {whole} {{mesh.sharding = #mesh.shard<@g, [[0], []]>}}) -> ({joined} {{mesh.sharding = #mesh.shard<@g, [[], []]>}}) {{
      %z = stablehlo.constant dense<1.0> : tensor<f32>
      %p = stablehlo.pad %x, %z, low = [0, -5], high = [0, 8], interior = [0, 0] : ({whole}, tensor<f32>) -> {joined}
      %a = stablehlo.slice %p [1:24, 0:19] : ({joined}) -> tensor<23x19xf32>
      %b = stablehlo.slice %p [0:1, 0:19] : ({joined}) -> tensor<1x19xf32>
      %r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<23x19xf32>, tensor<1x19xf32>) -> {joined}
      return %r : {joined}
    }}"""  # noqa: E501
    assert bytes_moved(text, "spmd") <= (12 * 11 + 16) * 4


@pytest.mark.parametrize("seed", range(6))
def test_a_padded_tensor_that_is_summed_up_exchanges_a_few_rows(seed: int) -> None:
    rng = random.Random(seed)
    rows, low, high = 4 * rng.randint(3, 6), rng.randint(0, 2), rng.randint(1, 2)
    whole, padded = f"tensor<{rows}x64xf32>", f"tensor<{rows + low + high}x64xf32>"
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%x: {whole} {{mesh.sharding = #mesh.shard<@g, [[0], []]>}}) -> tensor<64xf32> {{
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %two = stablehlo.constant dense<2.0> : tensor<f32>
      %p = stablehlo.pad %x, %two, low = [{low}, 0], high = [{high}, 0], interior = [0, 0]
          : ({whole}, tensor<f32>) -> {padded}
      %e = stablehlo.exponential %p : {padded}
      %r = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [0]
          : ({padded}, tensor<f32>) -> tensor<64xf32>
      return %r : tensor<64xf32>
    }}"""
    gathered = 3 * rows // 4 * 64 * 4
    assert bytes_moved(text, "spmd") < gathered
    assert sd.compile(sd.parse(text)).check().passed


class Cuts:
    """A slice of a split tensor in several dimensions, and the same in two slices."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.shape = tuple(rng.choice([8, 12, 16]) for _ in range(3))
        self.split = rng.randrange(3)
        self.devices = rng.choice([2, 4])
        self.cuts = [
            (
                begin := rng.randrange(3),
                rng.randrange(begin + 3, size + 1),
                rng.choice([1, 1, 2, 3]),
            )
            for size in self.shape
        ]

    def sizes(self, dims: set[int]) -> tuple[int, ...]:
        return tuple(
            -(-(end - begin) // by) if dim in dims else size
            for dim, (size, (begin, end, by)) in enumerate(zip(self.shape, self.cuts, strict=True))
        )

    def line(self, result: str, value: str, before: set[int], after: set[int]) -> str:
        bounds = ", ".join(
            f"{begin}:{end}:{by}" if dim in after - before else f"0:{size}"
            for dim, (size, (begin, end, by)) in enumerate(
                zip(self.sizes(before), self.cuts, strict=True)
            )
        )
        types = [f"tensor<{'x'.join(map(str, self.sizes(dims)))}xf32>" for dims in (before, after)]
        return f"  {result} = stablehlo.slice {value} [{bounds}] : ({types[0]}) -> {types[1]}"

    def text(self, first: set[int]) -> str:
        """With a slice of the dimensions `first` before that of the others."""
        dims = [[0] if dim == self.split else [] for dim in range(3)]
        every = {0, 1, 2}
        types = [f"tensor<{'x'.join(map(str, self.sizes(each)))}xf32>" for each in (set(), every)]
        lines = [self.line("%0", "%x", set(), first)] if first else []
        lines.append(self.line("%1", "%0" if first else "%x", first, every))
        return "\n".join(
            [
                f"shard.grid @g(shape = {self.devices})",
                f"func.func @main(%x: {types[0]} {{mesh.sharding = #mesh.shard<@g, {dims}>}})",
                f"    -> {types[1]} {{",
                *lines,
                f"  return %1 : {types[1]}",
                "}",
            ]
        )


@pytest.mark.parametrize("seed", range(30))
def test_what_is_not_read_is_not_moved(seed: int) -> None:
    cuts = Cuts(seed)
    others = {0, 1, 2} - {cuts.split}
    at_once, apart = (sd.parse(cuts.text(first)) for first in (set(), others))
    compiled = sd.compile(at_once)
    compiled.check()
    most = sd.communication(sd.run_pipeline(apart, "spmd")).bytes_moved
    assert compiled.report.bytes_moved <= most


def test_a_stride_over_one_element_takes_it() -> None:
    text = """
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<12x1xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
        -> tensor<8x1xf32> {
      %0 = stablehlo.slice %x [1:9, 0:1:2] : (tensor<12x1xf32>) -> tensor<8x1xf32>
      return %0 : tensor<8x1xf32>
    }"""
    assert sd.compile(sd.parse(text)).check().passed


def padded(seed: int) -> str:
    """A padding whose operand and result may begin at any offsets."""
    rng = random.Random(seed)
    grid = any_grid(rng, ((2,), (3,), (4,), (2, 2), (2, 3)))
    before = [rng.randint(2, 12) for _ in range(rng.choice((1, 2, 2, 3)))]
    low = [rng.choice((0, 1, 3, -1)) for _ in before]
    high = [
        max(rng.choice((0, 2, 5, -1)), 1 - size - begin)
        for size, begin in zip(before, low, strict=True)
    ]
    after = [sum(each) for each in zip(low, before, high, strict=True)]

    def placed(shape: list[int]) -> tuple[str, str]:
        drawn = [any_sharding(rng, tuple(shape), grid, extents=True) for _ in range(20)]
        sharding = max((each for each in drawn if not each.halos), key=lambda s: bool(s.offsets))
        return f"tensor<{'x'.join(map(str, shape))}xf32>", encoding(sharding)

    (operand, source), (result, target) = placed(before), placed(after)
    return f"""{cluster(grid)}
    func.func @main(%x: {operand}{source}) -> ({result}{target}) {{
      %c = stablehlo.constant dense<{rng.choice((0.0, 2.5))}> : tensor<f32>
      %0 = stablehlo.pad %x, %c, low = {low}, high = {high}, interior = {[0] * len(low)}
          : ({operand}, tensor<f32>) -> {result}
      return %0 : {result}
    }}"""


@pytest.mark.parametrize("seed", range(24))
def test_paddings_at_offsets(seed: int) -> None:
    assert sd.compile(sd.parse(padded(seed))).check().passed, padded(seed)


@pytest.mark.parametrize("by", [5, 11, 17])
def test_a_far_roll_of_what_gets_smaller_and_is_gathered_is_one(by: int) -> None:
    """The roll moves a shard at most, and what is gathered is every other column."""
    split = "[], [0, 1]"
    halved = (
        "%h = stablehlo.slice %r [0:16, 0:24:2] : (tensor<16x24xf32>) -> tensor<16x12xf32>\n"
        "return %h : tensor<16x12xf32>"
    )
    whole = "{mesh.sharding = #mesh.shard<@g, [[], []]>}"
    text = (
        rolled(by, split, split)
        .replace("return %r : tensor<16x24xf32>", halved)
        .replace(f"-> (tensor<16x24xf32> {{mesh.sharding = #mesh.shard<@g, [{split}]>}})",
                 f"-> (tensor<16x12xf32> {whole})")
    )  # fmt: skip
    shard, gathered = 16 * 3 * 4, 7 * 16 * 2 * 4
    assert bytes_moved(text, "spmd") <= shard + gathered, text
    assert sd.compile(sd.parse(text)).check().passed


@pytest.mark.parametrize("by", [5, 11])
def test_uneven_pieces_cost_no_more_than_to_gather_first(by: int) -> None:
    """Half the columns of a roll, of pieces of other sizes than the shards."""
    split, halved = "[], [1]", "tensor<16x12xf32>"
    half = f"%h = stablehlo.slice %r [0:16, 0:24:2] : (tensor<16x24xf32>) -> {halved}"
    text = (
        rolled(by, split, "[], []")
        .replace("return %r : tensor<16x24xf32>", f"{half}\nreturn %h : {halved}")
        .replace("-> (tensor<16x24xf32>", f"-> ({halved}")
    )
    assert bytes_moved(text, "spmd") <= 3 * 16 * 6 * 4, text
    assert sd.compile(sd.parse(text)).check().passed
