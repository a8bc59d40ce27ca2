"""Tables that are split along what is looked up: looked up in place, and nothing of them moves."""

import warnings
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.errors import ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.testing.placement import cluster, encoding
from shard_dialect.testing.random_shardings import any_grid, any_sharding
from tests.ops.test_stablehlo_windows import tensor
from tests.test_end_to_end import run_and_check

pytestmark = pytest.mark.usefixtures("unoptimized")

GRID = '"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()\n'


@dataclass(frozen=True)
class Lookup:
    """A gather of `table` at indices that are `scale` times one of -4 to 4, cast to `element`."""

    table: str
    split: str
    indices: str
    made: str
    numbers: str
    sizes: str
    scale: int = 1
    element: str = "i32"
    batch: str = "[]"
    """How the indices are split."""

    @property
    def text(self) -> str:
        table, drawn, made = (f"tensor<{each}>" for each in (self.table, self.ids, self.made))
        cast = drawn.replace("i32", self.element)
        return (
            f"{GRID}func.func @main(%t: {table} {{mesh.sharding = #mesh.shard<@g, {self.split}>}}, "
            f"%i: {drawn} {{mesh.sharding = #mesh.shard<@g, {self.batch}>}}) -> {made} {{\n"
            f"%s = stablehlo.constant dense<{self.scale}> : {drawn}\n"
            f"%0 = stablehlo.multiply %i, %s : {drawn}\n"
            f"%1 = stablehlo.convert %0 : ({drawn}) -> {cast}\n"
            f'%r = "stablehlo.gather"(%t, %1) <{{dimension_numbers = #stablehlo.gather<'
            f"{self.numbers}>, slice_sizes = array<i64: {self.sizes}>}}> : ({table}, {cast}) -> "
            f"{made}\nreturn %r : {made}\n}}\n"
        )

    @property
    def ids(self) -> str:
        return f"{self.indices}i32"


ROWS = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1"
ALONE = "offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 0"
KEPT = "offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1"
BOTH = "collapsed_slice_dims = [0, 1], start_index_map = [1, 0], index_vector_dim = 0"
BATCHED = (
    "collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], "
    "start_index_map = [1], index_vector_dim = 1"
)
LOOKUPS = {
    "rows": Lookup("64x16xf32", "[[1], []]", "6x1x", "6x16xf32", ROWS, "1, 16", 9),
    "rows along two axes": Lookup(
        "64x16xf32", "[[1, 0], []]", "6x1x", "6x16xf32", ROWS, "1, 16", 9
    ),
    "rows, and columns passing": Lookup(
        "64x16xf32", "[[1], [0]]", "6x1x", "6x16xf32", ROWS, "1, 16", 9
    ),
    "rows, and indices passing": Lookup(
        "64x16xf32", "[[1], []]", "6x1x", "6x16xf32", ROWS, "1, 16", 9, batch="[[0], []]"
    ),
    "rows by indices of 8 bits": Lookup(
        "1024x4xf32", "[[1], []]", "6x1x", "6x4xf32", ROWS, "1, 4", 40, "i8"
    ),
    "rows by indices without a sign": Lookup(
        "1024x4xf32", "[[1], []]", "6x1x", "6x4xf32", ROWS, "1, 4", 40, "ui8"
    ),
    "integers by wide indices": Lookup(
        "64x16xi32", "[[1], []]", "6x1x", "6x16xi32", ROWS, "1, 16", 9, "i64"
    ),
    "halves": Lookup("64x16xbf16", "[[1], []]", "6x1x", "6x16xbf16", ROWS, "1, 16", 9),
    "one row": Lookup("64x16xf32", "[[1], []]", "", "16xf32", ALONE, "1, 16", 9),
    "rows that stay a dimension": Lookup(
        "64x16xf32", "[[0], []]", "6x1x", "6x1x16xf32", KEPT, "1, 16", 9
    ),
    "elements of both dimensions": Lookup(
        "32x32xf32", "[[1], [0]]", "2x6x", "6xf32", BOTH, "1, 1", 5
    ),
    "elements of one of two": Lookup("32x32xf32", "[[], [1]]", "2x6x", "6xf32", BOTH, "1, 1", 5),
    "batched": Lookup("4x64xf32", "[[0], [1]]", "4x1x", "4xf32", BATCHED, "1, 1", 9, batch="[[0]]"),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_no_part_of_the_table_is_gathered(name: str) -> None:
    case = LOOKUPS[name]
    with make_context():
        module = Source.of(case.text).parse()
        run_pipeline(module, "propagate,materialize,partition")
        names = [op.name for op in walk(module.operation) if op.name.startswith("shard.all_")]
    assert "shard.all_reduce" in names
    assert names[0] == "shard.all_slice", "of where each shard begins"
    assert "shard.all_gather" not in names[: names.index("shard.all_reduce")]


@pytest.mark.parametrize("name", LOOKUPS)
def test_it_equals_the_unsharded_lookup(name: str) -> None:
    text = LOOKUPS[name].text
    with warnings.catch_warnings():
        warnings.simplefilter("error", ShardWarning)
        verdict = run_and_check(text, "spmd,lower")
    assert verdict.passed, f"{text}\n{verdict.failure}"


def test_where_the_table_is_smaller_it_is_gathered() -> None:
    text = Lookup("8x4xf32", "[[1], []]", "64x1x", "64x4xf32", ROWS, "1, 4").text
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "spmd")
        names = [op.name for op in walk(module.operation)]
    assert "shard.all_gather" in names
    assert "shard.all_reduce" not in names


def test_a_table_of_bits_stays_whole() -> None:
    text = Lookup("64x16xi1", "[[1], []]", "6x1x", "6x16xi1", ROWS, "1, 16", 9).text
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "spmd")
        names = [op.name for op in walk(module.operation)]
    assert "shard.all_gather" in names


@dataclass(frozen=True)
class OneElement:
    """A slice of one element along a split dimension, and of more or fewer along others."""

    seed: int

    @property
    def text(self) -> str:
        rng = Random(self.seed)
        grid, element = any_grid(rng), rng.choice(["f32", "f32", "bf16", "i32", "complex<f32>"])
        shape = [rng.choice([4, 5, 8, 12]) for _ in range(rng.randint(1, 3))]
        split = any_sharding(rng, tuple(shape), grid, extents=True)
        made_split = any_sharding(rng, (1,) * len(shape), grid)
        bounds, made = [], []
        along = rng.randrange(len(shape))
        for dim, size in enumerate(shape):
            begin = rng.randrange(size)
            end = begin + 1 if dim == along else rng.randint(begin + 1, size)
            stride = rng.randint(1, 3)
            bounds.append(f"{begin}:{end}:{stride}")
            made.append(-(-(end - begin) // stride))
        whole, part = (tensor(each, element) for each in (shape, made))
        asked = [encoding(split), encoding(made_split) if rng.random() < 0.2 else ""]
        return (
            f"{cluster(grid)}func.func @main(%x: {whole}{asked[0]}) -> ({part}{asked[1]}) "
            f"attributes {{mesh_cluster = @g}} {{\n"
            f"%r = stablehlo.slice %x [{', '.join(bounds)}] : ({whole}) -> {part}\n"
            f"return %r : {part}\n}}\n"
        )


@pytest.mark.parametrize("seed", range(40))
def test_one_element_of_a_dimension(seed: int) -> None:
    verdict = run_and_check(OneElement(seed).text, "spmd,lower")
    assert verdict.passed, f"{OneElement(seed).text}\n{verdict.failure}"


@pytest.mark.parametrize(("split", "most"), [("[[0], []]", 7 * 512), ("[[], []]", 2 * 7 * 512)])
def test_the_last_row_is_sent_once(split: str, most: int) -> None:
    """Of 16x1024x64 elements, whose second dimension is split among eight devices."""
    text = f"""
    shard.grid @g(shape = 8)
    func.func @main(%x: tensor<16x1024x64xf32> {{mesh.sharding = #mesh.shard<@g, [[], [0], []]>}})
        -> (tensor<16x64xf32> {{mesh.sharding = #mesh.shard<@g, {split}>}}) {{
      %s = stablehlo.slice %x [0:16, 1023:1024, 0:64]
        : (tensor<16x1024x64xf32>) -> tensor<16x1x64xf32>
      %r = stablehlo.reshape %s : (tensor<16x1x64xf32>) -> tensor<16x64xf32>
      return %r : tensor<16x64xf32>
    }}"""
    module = sd.run_pipeline(sd.parse(text), "spmd")
    assert sd.communication(module).bytes_moved <= most


READ = {
    "slice": "%r = stablehlo.slice %x [5:6, 0:2] : (tensor<8x2x$>) -> tensor<1x2x$>",
    "dynamic_slice": "%r = stablehlo.dynamic_slice %x, %i, %i, sizes = [1, 2] : "
    "(tensor<8x2x$>, tensor<i32>, tensor<i32>) -> tensor<1x2x$>",
    "gather": "%j = stablehlo.reshape %i : (tensor<i32>) -> tensor<1x1xi32>\n"
    f'%r = "stablehlo.gather"(%x, %j) <{{dimension_numbers = #stablehlo.gather<{ROWS}>, '
    "slice_sizes = array<i64: 1, 2>}> : (tensor<8x2x$>, tensor<1x1xi32>) -> tensor<1x2x$>",
}


@pytest.mark.parametrize("element", ["f32", "complex<f32>"])
@pytest.mark.parametrize("name", READ)
def test_a_zero_keeps_its_sign(name: str, element: str) -> None:
    """As one device reads it, and the others add what changes nothing."""
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%x: tensor<8x2x{element}> {{mesh.sharding = #mesh.shard<@g, [[0], []]>}},
                    %i: tensor<i32>) -> tensor<1x2x{element}> {{
      {READ[name].replace("$", element)}
      return %r : tensor<1x2x{element}>
    }}"""
    dtype = np.float32 if element == "f32" else np.complex64
    x = np.full((8, 2), -0.0, np.float32).astype(dtype)
    if dtype is np.complex64:
        x.imag = -0.0
    made = sd.compile(sd.parse(text))(x, np.int32(5))
    assert np.signbit(made.real).all()
    assert dtype is np.float32 or np.signbit(made.imag).all()


def test_rows_of_a_cache_are_written_where_they_are() -> None:
    """`vmap(dynamic_update_slice)(cache, keys, positions)`, the cache split along what is written.

    The update has a dimension of size 1 for the positions, where other lookups have none.
    """
    cache, keys = "tensor<8x16x4xf32>", "tensor<8x1x4xf32>"
    text = f"""
    shard.grid @g(shape = 2x4)
    func.func @main(%c: {cache} {{mesh.sharding = #mesh.shard<@g, [[0], [1], []]>}},
                    %k: {keys} {{mesh.sharding = #mesh.shard<@g, [[0], [], []]>}},
                    %p: tensor<8x1xi32> {{mesh.sharding = #mesh.shard<@g, [[0], []]>}})
        -> {cache} {{
      %n = stablehlo.constant dense<15> : tensor<8x1xi32>
      %q = stablehlo.and %p, %n : tensor<8x1xi32>
      %r = "stablehlo.scatter"(%c, %q, %k) <{{scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [1, 2], input_batching_dims = [0],
          scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1],
          index_vector_dim = 1>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        stablehlo.return %b : tensor<f32>
      }}) : ({cache}, tensor<8x1xi32>, {keys}) -> {cache}
      return %r : {cache}
    }}"""
    compiled = sd.compile(sd.parse(text))
    assert compiled.check().passed
    assert compiled.report.bytes_moved == 0
