"""Samples of ops of `tensor` and `bufferization`, and of `ml_program`'s globals."""

from __future__ import annotations

from math import prod

from shard_dialect.model.sharding import Shape
from shard_dialect.testing.random_draws import Draws, dense
from shard_dialect.testing.sample import Sample, Tensor


def cast(draws: Draws) -> Sample:
    x = draws.any()
    return Sample.of("tensor.cast", [x], "%r = tensor.cast %0 : $0 to $r", [x])


def bitcast(draws: Draws) -> Sample:
    x = draws.any()
    return Sample.of("tensor.bitcast", [x], "%r = tensor.bitcast %0 : $0 to $r", [x.of("i32")])


def _grouped(count: int, first: int, width: int) -> list[list[int]]:
    """Of `count` dimensions, `width` from `first` on together."""
    groups = [[dim] for dim in range(first)] + [list(range(first, first + width))]
    return groups + [[dim] for dim in range(first + width, count)]


def collapse_shape(draws: Draws) -> Sample:
    x = draws.any(least=2, most=4)
    rank = len(x.shape)
    first = draws.number(0, rank - 2)
    groups = _grouped(rank, first, draws.number(2, rank - first))
    result = Tensor(tuple(prod(x.shape[dim] for dim in group) for group in groups))
    text = f"%r = tensor.collapse_shape %0 {groups} : $0 into $r"
    return Sample.of("tensor.collapse_shape", [x], text, [result])


def expand_shape(draws: Draws) -> Sample:
    x = draws.any(least=1)
    dim = draws.dim(x)
    size = x.shape[dim]
    major = draws.pick(*(each for each in range(1, size + 1) if size % each == 0))
    result = Tensor((*x.shape[:dim], major, size // major, *x.shape[dim + 1 :]))
    groups = _grouped(len(result.shape), dim, 2)
    shape = list(result.shape)
    text = f"%r = tensor.expand_shape %0 {groups} output_shape {shape} : $0 into $r"
    return Sample.of("tensor.expand_shape", [x], text, [result])


def reshape(draws: Draws) -> Sample:
    x = draws.any(least=1)
    kind = draws.number(0, 2)
    shape: Shape = (prod(x.shape),) if kind == 0 else (x.shape[0], prod(x.shape[1:]))
    if kind == 2:
        shape = (1, *reversed(x.shape))
    sizes = Tensor((len(shape),), "index")
    text = (
        f"%s = arith.constant {dense(list(shape), sizes)}\n"
        f"%r = tensor.reshape %0(%s) : ($0, {sizes}) -> $r"
    )
    return Sample.of("tensor.reshape", [x], text, [Tensor(shape)])


def concat(draws: Draws) -> Sample:
    x = draws.any(least=1)
    dim = draws.dim(x)
    y = x.sized(dim, draws.pick(x.shape[dim], draws.size()))
    result = x.sized(dim, x.shape[dim] + y.shape[dim])
    text = f"%r = tensor.concat dim({dim}) %0, %1 : ($0, $1) -> $r"
    return Sample.of("tensor.concat", [x, y], text, [result])


def dim(draws: Draws) -> Sample:
    x = draws.any(least=1)
    text = (
        f"%c = arith.constant {draws.dim(x)} : index\n%d = tensor.dim %0, %c : $0\n"
        "%r = tensor.splat %d : $r"
    )
    return Sample.of("tensor.dim", [x], text, [Tensor((4,), "index")])


def rank(draws: Draws) -> Sample:
    x = draws.any()
    text = "%d = tensor.rank %0 : $0\n%r = tensor.splat %d : $r"
    return Sample.of("tensor.rank", [x], text, [Tensor((4,), "index")])


def empty(draws: Draws) -> Sample:
    x = draws.any()
    text = "%e = tensor.empty() : $0\n%r = linalg.copy ins(%0 : $0) outs(%e : $0) -> $r"
    return Sample.of("tensor.empty", [x], text, [x])


def _index_constants(draws: Draws, x: Tensor) -> tuple[str, str]:
    """Constants for an element's place: what makes them, and their names."""
    numbers = [draws.number(0, size - 1) for size in x.shape]
    lines = [f"%c{dim} = arith.constant {each} : index\n" for dim, each in enumerate(numbers)]
    return "".join(lines), ", ".join(f"%c{dim}" for dim in range(len(numbers)))


def extract(draws: Draws) -> Sample:
    x = draws.any()
    lines, names = _index_constants(draws, x)
    text = f"{lines}%v = tensor.extract %0[{names}] : $0\n%r = tensor.splat %v : $r"
    return Sample.of("tensor.extract", [x], text, [Tensor((draws.size(),))])


def insert(draws: Draws) -> Sample:
    x = draws.any()
    lines, names = _index_constants(draws, x)
    text = f"{lines}%z = arith.constant 0.5 : f32\n%r = tensor.insert %z into %0[{names}] : $r"
    return Sample.of("tensor.insert", [x], text, [x])


def splat(draws: Draws) -> Sample:
    x, result = Tensor(()), draws.any(least=1)
    text = "%v = tensor.extract %0[] : $0\n%r = tensor.splat %v : $r"
    return Sample.of("tensor.splat", [x], text, [result])


def from_elements(draws: Draws) -> Sample:
    text = (
        "%v = tensor.extract %0[] : $0\n%w = arith.negf %v : f32\n"
        "%r = tensor.from_elements %v, %w, %v, %w : $r"
    )
    return Sample.of("tensor.from_elements", [Tensor(())], text, [Tensor((4,))])


def _slice_bounds(draws: Draws, size: int) -> tuple[int, int, int]:
    """Where a part of a dimension begins, how many elements it has, and in what steps."""
    if not draws.chance(0.6):
        return 0, size, 1
    step = draws.pick(1, 1, 2)
    start = draws.number(0, size - 1)
    return start, draws.number(1, 1 + (size - 1 - start) // step), step


def _slice_of(draws: Draws, x: Tensor) -> tuple[str, Tensor]:
    """`[starts][sizes][steps]`, and the part; a dimension of size 1 may be left out."""
    bounds = [_slice_bounds(draws, size) for size in x.shape]
    starts, sizes, steps = (list(each) for each in zip(*bounds, strict=True))
    result = Tensor(tuple(sizes), x.element)
    ones = [dim for dim, size in enumerate(sizes) if size == 1]
    if ones and draws.chance(0.5):
        result = result.without(ones[0])
    return f"{starts}{sizes}{steps}", result


def extract_slice(draws: Draws) -> Sample:
    x = draws.any(least=1)
    number, result = _slice_of(draws, x)
    text = f"%r = tensor.extract_slice %0{number} : $0 to $r"
    return Sample.of("tensor.extract_slice", [x], text, [result])


def insert_slice(draws: Draws) -> Sample:
    x = draws.any(least=1)
    number, inserted = _slice_of(draws, x)
    text = f"%r = tensor.insert_slice %1 into %0{number} : $1 into $r"
    return Sample.of("tensor.insert_slice", [x, inserted], text, [x])


def _block(rank: int) -> str:
    return "{\n^bb0(" + ", ".join(f"%i{dim}: index" for dim in range(rank)) + "):\n"


def pad(draws: Draws) -> Sample:
    x = draws.any(least=1)
    low, high = ([draws.pick(0, 0, 1, 3) for _ in x.shape] for _ in range(2))
    sizes = zip(x.shape, low, high, strict=True)
    result = Tensor(tuple(map(sum, sizes)), x.element)
    text = (
        f"%z = arith.constant 0.5 : f32\n%r = tensor.pad %0 low{low} high{high} "
        f"{_block(len(low))}tensor.yield %z : f32\n}} : $0 to $r"
    )
    return Sample.of("tensor.pad", [x], text, [result])


def generate(draws: Draws) -> Sample:
    """Each row is a row of the operand, turned."""
    x = draws.any(least=1, most=2)
    at = ", ".join(f"%i{dim}" for dim in range(len(x.shape)))
    text = (
        f"%r = tensor.generate {_block(len(x.shape))}%v = tensor.extract %0[{at}] : $0\n"
        "%w = arith.negf %v : f32\ntensor.yield %w : f32\n} : $r"
    )
    return Sample.of("tensor.generate", [x], text, [x])


def gather(draws: Draws) -> Sample:
    x = draws.any(least=2, most=2)
    at = Tensor((draws.size(), 1), "index")
    result = Tensor((at.shape[0], 1, x.shape[1]))
    text = "%r = tensor.gather %0[%1] gather_dims([0]) : ($0, $1) -> $r"
    return Sample.of("tensor.gather", [x, at], text, [result])


def scatter(draws: Draws) -> Sample:
    x = draws.any(least=2, most=2)
    count = min(2, x.shape[0])
    inserted, at = Tensor((count, 1, x.shape[1])), Tensor((count, 1), "index")
    text = "%r = tensor.scatter %0 into %1[%2] scatter_dims([0]) unique : ($0, $1, $2) -> $r"
    return Sample.of("tensor.scatter", [inserted, x, at], text, [x])


_GLOBAL = "ml_program.global private mutable @x(dense<0.0> : {0}) : {0}\n"
_CONSTANT = "ml_program.global private @x(dense<2.0> : {0}) : {0}\n"


def alloc_tensor(draws: Draws) -> Sample:
    x, op = draws.any(), "bufferization.alloc_tensor"
    if draws.chance(0.5):
        return Sample.of(op, [x], f"%r = {op}() copy(%0) : $0", [x])
    text = f"%e = {op}() : $0\n%r = linalg.exp ins(%0 : $0) outs(%e : $0) -> $r"
    return Sample.of(op, [x], text, [x])


def materialize(draws: Draws) -> Sample:
    x, op = draws.any(), "bufferization.materialize_in_destination"
    text = f"%e = bufferization.alloc_tensor() : $0\n%r = {op} %0 in %e : ($0, $0) -> $r"
    return Sample.of(op, [x], text, [x])


def buffer(op: str, draws: Draws) -> Sample:
    """To a buffer, and back."""
    x = draws.any(least=1)
    made = str(x).replace("tensor", "memref")
    text = (
        f"%b = bufferization.to_buffer %0 : $0 to {made}\n"
        f"%r = bufferization.to_tensor %b restrict : {made} to $r"
    )
    return Sample.of(op, [x], text, [x])


def global_(op: str, draws: Draws) -> Sample:
    """A load of a global, after it has been stored, if it is not constant."""
    x = Tensor(tuple(draws.size() for _ in range(draws.number(1, 2))))
    if op.endswith("const"):
        text = "%c = ml_program.global_load_const @x : $r\n%r = arith.addf %0, %c : $r"
        return Sample.of(op, [x], text, [x], _CONSTANT.format(x))
    text = (
        "%a = math.exp %0 : $0\nml_program.global_store @x = %a : $0\n"
        "%r = ml_program.global_load @x : $r"
    )
    return Sample.of(op, [x], text, [x], _GLOBAL.format(x))
