"""Fused loops: which loops are one, and that they compute what numpy does."""

import weakref
from collections.abc import Callable

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from shard_dialect.backends.cpu.kernels import Kernels
from shard_dialect.backends.cpu.lower_loops import to_loops
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.executable import Alone
from tests.runtime.alone import compiled, run_on

SOFTMAX = """
func.func @main(%x: tensor<33x50xf32>) -> tensor<33x50xf32> {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<33xf32>
  %lows = linalg.fill ins(%low : f32) outs(%e : tensor<33xf32>) -> tensor<33xf32>
  %most = linalg.reduce ins(%x : tensor<33x50xf32>) outs(%lows : tensor<33xf32>) dimensions = [1]
    (%a: f32, %b: f32) { %m = arith.maximumf %a, %b : f32  linalg.yield %m : f32 }
  %e2 = tensor.empty() : tensor<33x50xf32>
  %wide = linalg.broadcast ins(%most : tensor<33xf32>) outs(%e2 : tensor<33x50xf32>)
    dimensions = [1]
  %less = arith.subf %x, %wide : tensor<33x50xf32>
  %power = math.exp %less : tensor<33x50xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<33xf32>) -> tensor<33xf32>
  %sum = linalg.reduce { arith.addf } ins(%power : tensor<33x50xf32>) outs(%zeros : tensor<33xf32>)
    dimensions = [1]
  %sums = linalg.broadcast ins(%sum : tensor<33xf32>) outs(%e2 : tensor<33x50xf32>)
    dimensions = [1]
  %y = arith.divf %power, %sums : tensor<33x50xf32>
  return %y : tensor<33x50xf32>
}"""


def loops_of(text: str) -> "list[list[str]]":
    """Of each outermost loop the loops in it, as how many are around each."""
    with make_context(), ir.Location.unknown():
        module = Source.of(text).parse()
        run_pipeline(module, "lower")
        to_loops(module.operation, Kernels(module.operation))
        loops = [op for op in walk(module.operation) if op.name == "scf.for"]
        found: list[list[str]] = []
        for op in loops:
            depth, parent = 0, op.parent
            while parent.name != "func.func":
                depth += parent.name == "scf.for"
                parent = parent.parent
            if depth == 0:
                found.append([])
            found[-1].append("." * depth + str(len(op.results)))
        return found


def test_a_softmax_goes_once_over_rows() -> None:
    assert loops_of(SOFTMAX) == [["0", ".1", ".1", ".0"]]
    (x,), (y,) = run_on(SOFTMAX)
    power = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, power / power.sum(axis=1, keepdims=True), rtol=1e-5)


def test_what_rows_are_made_of_alone_is_a_row() -> None:
    with make_context(), ir.Location.unknown():
        module = Source.of(SOFTMAX).parse()
        run_pipeline(module, "lower")
        to_loops(module.operation, Kernels(module.operation))
        made = [op for op in walk(module.operation) if op.name.startswith("memref.alloc")]
        assert [str(op.results[0].type) for op in made] == ["memref<50xf32>"]


def test_sums_of_columns_run_along_rows() -> None:
    text = """
    func.func @main(%x: tensor<40x50xf32>) -> tensor<50xf32> {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<50xf32>
      %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<50xf32>) -> tensor<50xf32>
      %t = math.tanh %x : tensor<40x50xf32>
      %sum = linalg.reduce { arith.addf } ins(%t : tensor<40x50xf32>) outs(%zeros : tensor<50xf32>)
        dimensions = [0]
      return %sum : tensor<50xf32>
    }"""
    assert loops_of(text) == [["0"], ["0", ".0"]]
    (x,), (y,) = run_on(text)
    np.testing.assert_allclose(y, np.tanh(x).sum(axis=0), rtol=1e-5, atol=1e-5)


def test_a_value_that_is_read_shifted_is_made_before() -> None:
    text = """
    func.func @main(%x: tensor<16xf32>) -> tensor<12xf32> {
      %t = math.absf %x : tensor<16xf32>
      %e = tensor.empty() : tensor<12xf32>
      %w = tensor.empty() : tensor<5xf32>
      %zero = arith.constant 0.0 : f32
      %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<12xf32>) -> tensor<12xf32>
      %y = linalg.generic {
        indexing_maps = [affine_map<(i, w) -> (i + w)>, affine_map<(i, w) -> (w)>,
                         affine_map<(i, w) -> (i)>],
        iterator_types = ["parallel", "reduction"]
      } ins(%t, %w : tensor<16xf32>, tensor<5xf32>) outs(%zeros : tensor<12xf32>) {
      ^bb0(%a: f32, %unused: f32, %b: f32):
        %s = arith.addf %a, %b : f32
        linalg.yield %s : f32
      } -> tensor<12xf32>
      return %y : tensor<12xf32>
    }"""
    assert len(loops_of(text)) == 2
    (x,), (y,) = run_on(text)
    windows = np.lib.stride_tricks.sliding_window_view(np.abs(x), 5)
    np.testing.assert_allclose(y, windows.sum(axis=1), rtol=1e-6)


def transposed(shape: str, permutation: str, result: str) -> str:
    return f"""
    func.func @main(%x: tensor<{shape}xf32>) -> tensor<{result}xf32> {{
      %e = tensor.empty() : tensor<{result}xf32>
      %y = linalg.transpose ins(%x : tensor<{shape}xf32>) outs(%e : tensor<{result}xf32>)
        permutation = {permutation}
      return %y : tensor<{result}xf32>
    }}"""


@pytest.mark.parametrize(
    ("shape", "permutation", "result"),
    [
        ("64x96", [1, 0], "96x64"),
        ("33x47", [1, 0], "47x33"),
        ("3x40x5x50", [3, 2, 0, 1], "50x5x3x40"),
        ("7x1x9", [2, 1, 0], "9x1x7"),
        ("4x5x6", [1, 0, 2], "5x4x6"),
    ],
)
def test_transpositions(shape: str, permutation: list[int], result: str) -> None:
    (x,), (y,) = run_on(transposed(shape, str(permutation), result))
    np.testing.assert_array_equal(y, x.transpose(permutation))


def test_large_transpositions_go_in_squares() -> None:
    tile = ["..0", "...0"]  # into a buffer by rows of the one, out of it by rows of the other
    assert loops_of(transposed("64x96", "[1, 0]", "96x64")) == [["0", ".0", *tile, *tile]]


def elementwise(element: str, body: str, result: str | None = None) -> str:
    result = result or element
    types = f"tensor<37x{element}>, tensor<37x{element}>"
    return f"""
    func.func @main(%x: tensor<37x{element}>, %y: tensor<37x{element}>) -> tensor<37x{result}> {{
      %e = tensor.empty() : tensor<37x{result}>
      %z = linalg.map ins(%x, %y : {types}) outs(%e : tensor<37x{result}>)
        (%a: {element}, %b: {element}, %unread: {result}) {{ {body} }}
      return %z : tensor<37x{result}>
    }}"""


@pytest.mark.parametrize(
    ("element", "body", "result", "by"),
    [
        ("i1", "%r = arith.andi %a, %b : i1 linalg.yield %r : i1", "i1", np.logical_and),
        ("f32", "%r = arith.cmpf olt, %a, %b : f32 linalg.yield %r : i1", "i1", np.less),
        ("i8", "%r = arith.muli %a, %b : i8 linalg.yield %r : i8", "i8", np.multiply),
        ("bf16", "%r = arith.addf %a, %b : bf16 linalg.yield %r : bf16", "bf16", np.add),
        ("f64", "%r = arith.maximumf %a, %b : f64 linalg.yield %r : f64", "f64", np.maximum),
    ],
)
def test_element_types(element: str, body: str, result: str, by: Callable[..., Array]) -> None:
    given, (found,) = run_on(elementwise(element, body, result))
    np.testing.assert_array_equal(found, by(*given))


@pytest.mark.parametrize(("rows", "columns"), [(6, 12), (5, 3), (1, 64), (9, 17)])
def test_bits_beside_words(rows: int, columns: int) -> None:
    many, bits = f"tensor<{rows}x{columns}xi32>", f"tensor<{rows}x{columns}xi1>"
    text = f"""
    func.func @main(%a: {many}, %c: {many}) -> ({many}, {bits}, {many}) {{
      %sum, %carried = arith.addui_extended %a, %a : {many}, {bits}
      %more = arith.addi %c, %a : {many}
      return %sum, %carried, %more : {many}, {bits}, {many}
    }}"""
    drawn = np.random.default_rng(0).integers(-(2**31), 2**31, (2, rows, columns), np.int32)
    (a, c), (total, carried, more) = run_on(text, list(drawn))
    np.testing.assert_array_equal(total, a + a)
    np.testing.assert_array_equal(carried.view(np.uint8), a < 0)
    np.testing.assert_array_equal(more, a + c)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 9, 11, 12, 13, 15, 16, 17, 31])
def test_bits_and_masks_of_every_count(count: int) -> None:
    """Comparisons, carries and selections of several widths, also in one loop."""
    i32, f64, i8, bit = (f"tensor<3x{count}x{each}>" for each in ("i32", "f64", "i8", "i1"))
    text = f"""
    func.func @main(%a: {i32}, %x: {f64}, %n: {i8}, %m: {bit})
        -> ({bit}, {bit}, {i32}, {i8}, {f64}) {{
      %sum, %carried = arith.addui_extended %a, %a : {i32}, {bit}
      %small, %over = arith.addui_extended %n, %n : {i8}, {bit}
      %both = arith.xori %over, %m : {bit}
      %chosen = arith.select %both, %small, %n : {bit}, {i8}
      %larger = arith.cmpf ogt, %x, %x : {f64}
      %y = arith.select %larger, %x, %x : {bit}, {f64}
      return %carried, %both, %sum, %chosen, %y : {bit}, {bit}, {i32}, {i8}, {f64}
    }}"""
    generator = np.random.default_rng(count)
    a = generator.integers(-(2**31), 2**31, (3, count), np.int32)
    x = generator.standard_normal((3, count))
    n = generator.integers(-128, 128, (3, count), np.int8)
    m = generator.integers(0, 2, (3, count)).astype(bool)
    _, (carried, both, total, chosen, y) = run_on(text, [a, x, n, m])
    np.testing.assert_array_equal(carried, a < 0)
    np.testing.assert_array_equal(both, (n < 0) ^ m)
    np.testing.assert_array_equal(total, a + a)
    np.testing.assert_array_equal(chosen, np.where((n < 0) ^ m, n + n, n))
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("width", [2, 4, 7, 12, 24, 33, 48])
def test_integers_of_odd_widths_in_memory(width: int) -> None:
    many, odd = "tensor<6x12xi32>", f"tensor<6x12xi{width}>"
    back = "trunci" if width > 32 else "extui"
    text = f"""
    func.func @main(%a: {many}, %c: {many}) -> ({many}, {many}, {many}) {{
      %sum, %carried = arith.addui_extended %a, %a : {many}, tensor<6x12xi1>
      %odd = arith.extui %carried : tensor<6x12xi1> to {odd}
      %more = arith.addi %c, %a : {many}
      %e = tensor.empty() : {odd}
      %turned = linalg.generic {{
        indexing_maps = [affine_map<(i, j) -> (5 - i, 11 - j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]
      }} ins(%odd : {odd}) outs(%e : {odd}) {{
      ^bb0(%x: i{width}, %unread: i{width}):
        linalg.yield %x : i{width}
      }} -> {odd}
      %wide = arith.{back} %turned : {odd} to {many}
      return %sum, %wide, %more : {many}, {many}, {many}
    }}"""
    drawn = np.random.default_rng(0).integers(-(2**31), 2**31, (2, 6, 12), np.int32)
    (a, c), (total, carried, more) = run_on(text, list(drawn))
    np.testing.assert_array_equal(total, a + a)
    np.testing.assert_array_equal(carried, (a < 0)[::-1, ::-1])
    np.testing.assert_array_equal(more, a + c)


def test_bodies_with_branches() -> None:
    body = """
      %c = arith.cmpf olt, %a, %b : f32
      %r = scf.if %c -> f32 {
        scf.yield %a : f32
      } else {
        %n = arith.negf %b : f32
        scf.yield %n : f32
      }
      linalg.yield %r : f32"""
    (x, y), (found,) = run_on(elementwise("f32", body))
    np.testing.assert_array_equal(found, np.where(x < y, x, -y))


def test_no_rounds_at_all() -> None:
    text = """
    func.func @main(%x: tensor<3x0xf32>) -> tensor<3xf32> {
      %one = arith.constant 1.0 : f32
      %e = tensor.empty() : tensor<3xf32>
      %ones = linalg.fill ins(%one : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
      %y = linalg.reduce { arith.addf } ins(%x : tensor<3x0xf32>) outs(%ones : tensor<3xf32>)
        dimensions = [1]
      return %y : tensor<3xf32>
    }"""
    _, (y,) = run_on(text)
    np.testing.assert_array_equal(y, np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("combiner", "by"), [("maximumf", np.max), ("minimumf", np.min), ("addf", np.sum)]
)
def test_reductions_of_what_is_no_number(combiner: str, by: Callable[..., Array]) -> None:
    start = {"maximumf": "0xFF800000", "minimumf": "0x7F800000", "addf": "0.0"}[combiner]
    text = f"""
    func.func @main(%x: tensor<4x100xf32>) -> tensor<4xf32> {{
      %start = arith.constant {start} : f32
      %e = tensor.empty() : tensor<4xf32>
      %starts = linalg.fill ins(%start : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
      %y = linalg.reduce {{ arith.{combiner} }} ins(%x : tensor<4x100xf32>)
        outs(%starts : tensor<4xf32>) dimensions = [1]
      return %y : tensor<4xf32>
    }}"""
    x = np.random.default_rng(0).standard_normal((4, 100)).astype(np.float32)
    x[1, 7], x[2, 50], x[3, 99] = np.nan, np.inf, -np.inf
    _, (y,) = run_on(text, [x])
    np.testing.assert_allclose(y, by(x, axis=1), rtol=1e-5, atol=1e-5)


def test_results_outlive_the_next_run_and_their_memory_is_freed() -> None:
    text = """
    func.func @main(%x: tensor<200x200xf32>) -> tensor<200x200xf32> {
      %y = arith.addf %x, %x : tensor<200x200xf32>
      return %y : tensor<200x200xf32>
    }"""
    executable = compiled(text)
    one = np.ones((200, 200), np.float32)
    (first,) = executable.run([one], Alone())
    row = first[3]
    (second,) = executable.run([2 * one], Alone())
    del first
    (third,) = executable.run([3 * one], Alone())
    assert (row == 2).all()
    assert (second == 4).all()
    assert (third == 6).all()
    owner = second
    while owner.base is not None:
        owner = owner.base
    is_alive = weakref.ref(owner)
    del second, owner
    assert is_alive() is None


CARRIED = """
func.func @main(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %begin = arith.constant 0 : index
  %end = arith.constant 5 : index
  %step = arith.constant 1 : index
  %r:2 = scf.for %i = %begin to %end step %step iter_args(%a = %x, %b = %y)
      -> (tensor<64x32xf32>, tensor<64x32xf32>) {
    %0 = stablehlo.add %a, %b : tensor<64x32xf32>
    %1 = stablehlo.tanh %0 : tensor<64x32xf32>
    %2 = stablehlo.multiply %1, OTHER : tensor<64x32xf32>
    scf.yield %b, %2 : tensor<64x32xf32>, tensor<64x32xf32>
  }
  return %r#1 : tensor<64x32xf32>
}
"""


@pytest.mark.parametrize("other", ["%a", "%x"])
def test_ops_on_what_a_loop_carries_share_loops(other: str) -> None:
    """Also beside an array that it starts from, of which it carries a copy."""
    text = CARRIED.replace("OTHER", other)
    (x, y), (result,) = run_on(text)
    a, b = x, y
    for _ in range(5):
        a, b = b, np.tanh(a + b) * (a if other == "%a" else x)
    np.testing.assert_allclose(result, b, rtol=1e-4, atol=1e-6)
    with make_context(), ir.Location.unknown():
        module = Source.of(text).parse()
        run_pipeline(module, "lower")
        to_loops(module.operation, Kernels(module.operation))
        names = [{op.name for op in walk(each)} for each in functions_of(module.operation)]
    assert any({"arith.addf", "math.tanh", "arith.mulf"} <= each for each in names)


COUNTED = """
func.func @main(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %a = %x, %b = %y)
      : tensor<i32>, tensor<64x32xf32>, tensor<64x32xf32>
  cond {
    %n = stablehlo.constant dense<LAST> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<2> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %0 = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %2 = stablehlo.multiply %a, %1 : tensor<64x32xf32>
    %3 = stablehlo.subtract %2, %b : tensor<64x32xf32>
    stablehlo.return %j, %b, %3 : tensor<i32>, tensor<64x32xf32>, tensor<64x32xf32>
  }
  return %r#2, %r#0 : tensor<64x32xf32>, tensor<i32>
}
"""


@pytest.mark.parametrize("last", [0, 1, 2, 8, 17, 18, 40])
def test_few_trips_on_elements_share_one_loop(last: int) -> None:
    text = COUNTED.replace("LAST", str(last))
    (x, y), (result, counter) = run_on(text)
    a, b, i = x, y, 1
    while i < last:
        a, b, i = b, a * np.float32(i) - b, i + 2
    np.testing.assert_allclose(result, b, rtol=1e-4)
    assert counter == i
    with make_context(), ir.Location.unknown():
        module = Source.of(text).parse()
        run_pipeline(module, "lower")
        loops = [op for op in walk(module.operation) if op.name == "scf.for"]
    assert len(loops) == (last > 17)


@pytest.mark.parametrize(
    ("element", "first", "direction", "bound", "step", "trips"),
    [
        ("f32", "0.0", "LT", "3.0", "1.5", 2),
        ("f64", "-3.5", "LE", "1.0", "1.0", 5),
        ("i8", "0", "LT", "100", "60", 2),
        ("i8", "0", "LT", "127", "51", 133),
        ("ui8", "250", "LT", "255", "3", 87),
        ("i32", "1", "LE", "0", "3", 0),
        ("i64", "-5", "LT", "4", "2", 5),
    ],
)
def test_counters(
    element: str, first: str, direction: str, bound: str, step: str, trips: int
) -> None:
    """Of any type, also where they wrap around."""
    text = f"""
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
      %first = stablehlo.constant dense<{first}> : tensor<{element}>
      %bound = stablehlo.constant dense<{bound}> : tensor<{element}>
      %step = stablehlo.constant dense<{step}> : tensor<{element}>
      %one = stablehlo.constant dense<1.0> : tensor<2xf32>
      %r:2 = stablehlo.while(%a = %x, %i = %first) : tensor<2xf32>, tensor<{element}>
      cond {{
        %c = stablehlo.compare {direction}, %i, %bound
          : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        %j = stablehlo.add %i, %step : tensor<{element}>
        %t = stablehlo.add %a, %one : tensor<2xf32>
        stablehlo.return %t, %j : tensor<2xf32>, tensor<{element}>
      }}
      return %r#0 : tensor<2xf32>
    }}
    """
    _, (found,) = run_on(text, [np.zeros(2, np.float32)])
    np.testing.assert_array_equal(found, [trips, trips])
