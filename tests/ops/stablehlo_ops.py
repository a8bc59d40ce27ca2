"""StableHLO ops to test rules on: a few of each by hand, more drawn at random.

Floats hold small integers when these run, so that sums in any order are exact.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shard_dialect.testing.samples.stablehlo_samples import joining

Shape = Sequence[int]
SIZES = (1, 2, 3, 4, 6)


def typed(shape: Shape, element: str = "f32") -> str:
    return "x".join([*map(str, shape), element])


@dataclass(frozen=True)
class Case:
    """One op in a function of its own. Operands in `constants` are no arguments of it."""

    name: str
    operands: Sequence[str]
    results: Sequence[str]
    attributes: str = ""
    region: str = ""
    constants: Mapping[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        types = [f"tensor<{each}>" for each in self.operands]
        made = ", ".join(f"tensor<{each}>" for each in self.results)
        arguments = ", ".join(
            f"%{place}: {type_}" for place, type_ in enumerate(types) if place not in self.constants
        )
        constants = "".join(
            f"  %c{place} = stablehlo.constant dense<{value}> : {types[place]}\n"
            for place, value in self.constants.items()
        )
        operands = ", ".join(
            f"%c{place}" if place in self.constants else f"%{place}" for place in range(len(types))
        )
        count = len(self.results)
        returned = ", ".join(f"%r#{place}" for place in range(count))
        return (
            f"func.func @main({arguments}) -> ({made}) {{\n{constants}"
            f'  %r:{count} = "stablehlo.{self.name}"({operands}) '
            f"{self.region and f'({{{self.region}}})'} {{{self.attributes}}}"
            f" : ({', '.join(types)}) -> ({made})\n  return {returned} : {made}\n}}\n"
        )


def array(values: Sequence[int]) -> str:
    return f"array<i64{': ' if values else ''}{', '.join(map(str, values))}>"


SECOND = "\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\nstablehlo.return %y : tensor<f32>\n"
LARGEST = """
^bb0(%a: tensor<f32>, %i: tensor<i32>, %b: tensor<f32>, %j: tensor<i32>):
%p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
%m = stablehlo.select %p, %a, %b : tensor<i1>, tensor<f32>
%k = stablehlo.select %p, %i, %j : tensor<i1>, tensor<i32>
stablehlo.return %m, %k : tensor<f32>, tensor<i32>
"""


def compare(direction: str, element: str = "f32", count: int = 1) -> str:
    arguments = ", ".join(f"%x{place}: tensor<{element}>" for place in range(2 * count))
    return (
        f"\n^bb0({arguments}):\n%p = stablehlo.compare {direction}, %x0, %x1 : "
        f"(tensor<{element}>, tensor<{element}>) -> tensor<i1>\nstablehlo.return %p : tensor<i1>\n"
    )


UNARY = (
    "abs cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic negate "
    "round_nearest_afz round_nearest_even rsqrt sign sine sqrt tan tanh"
).split()
BINARY = "add atan2 divide maximum minimum multiply power remainder subtract".split()
BITWISE = "and or xor shift_left shift_right_arithmetic shift_right_logical".split()


def elementwise(rng: random.Random) -> Iterator[Case]:
    for shape in ((4, 6), (6,), (2, 1, 4)):
        real, whole, bits = (typed(shape, element) for element in ("f32", "i32", "i1"))
        for name in UNARY:
            yield Case(name, [real], [real])
        for name in BINARY:
            yield Case(name, [real] * 2, [real])
        for name in BITWISE:
            yield Case(name, [whole] * 2, [whole])
        for name in ("count_leading_zeros", "not", "popcnt"):
            yield Case(name, [whole], [whole])
        yield Case("is_finite", [real], [bits])
        yield Case("convert", [real], [whole])
        yield Case(
            "reduce_precision", [real], [real], "exponent_bits = 5 : i32, mantissa_bits = 2 : i32"
        )
        direction = "comparison_direction = #stablehlo<comparison_direction LT>"
        yield Case("compare", [real] * 2, [bits], direction)
        yield Case("select", [bits, real, real], [real])
        yield Case("select", ["i1", real, real], [real])
        yield Case("clamp", [real] * 3, [real])
        yield Case("clamp", ["f32", real, "f32"], [real], constants={0: "-1.0", 2: "2.0"})
        dims = f"dimensions = {array(range(len(shape)))}"
        yield Case("map", [real] * 2, [real], dims, joining("multiply"))
    yield Case("add", ["f32"] * 2, ["f32"])


def bitcasts(rng: random.Random) -> Iterator[Case]:
    for source, target in (
        ("4x6xf32", "4x6xi32"),
        ("4x6xf32", "4x6x4xi8"),
        ("4x6x2xi16", "4x6xi32"),
        ("f32", "4xi8"),
    ):
        yield Case("bitcast_convert", [source], [target])


def dots(rng: random.Random) -> Iterator[Case]:
    for number in range(16):
        element = ("f32", "i32", "i1")[number % 5 % 3]
        batch, summed, left, right = (
            [rng.choice(SIZES) for _ in range(rng.randrange(3))] for _ in range(4)
        )
        sides = []
        for own in (left, right):
            dims = [*batch, *summed, *own]
            order = rng.sample(range(len(dims)), len(dims))
            shape = [0] * len(dims)
            for dim, to in enumerate(order):
                shape[to] = dims[dim]
            shared = len(batch) + len(summed)
            kept = [dims[dim] for dim in sorted(range(shared, len(dims)), key=order.__getitem__)]
            sides.append((shape, order[: len(batch)], order[len(batch) : shared], kept))
        (a, a_batch, a_summed, a_kept), (b, b_batch, b_summed, b_kept) = sides
        yield Case(
            "dot_general",
            [typed(a, element), typed(b, element)],
            [typed([*batch, *a_kept, *b_kept], element)],
            "dot_dimension_numbers = #stablehlo.dot<"
            f"lhs_batching_dimensions = {a_batch}, rhs_batching_dimensions = {b_batch}, "
            f"lhs_contracting_dimensions = {a_summed}, rhs_contracting_dimensions = {b_summed}>",
        )


@dataclass(frozen=True)
class Window:
    """A spatial dimension of a convolution."""

    size: int
    width: int
    stride: int
    left: int
    right: int
    pad: list[int]

    @classmethod
    def drawn(cls, rng: random.Random) -> "Window":
        if rng.random() < 0.4:
            return cls(rng.choice((4, 6, 8)), 1, 1, 1, 1, [0, 0])
        width, pad = rng.choice((1, 2, 3, 8)), rng.choice(([0, 0], [1, 1], [2, 0]))
        stride, left, right = (rng.choice((1, 1, 2)) for _ in range(3))
        made = cls(rng.choice((4, 6, 8)), width, stride, left, right, pad)
        return made if made.count > 0 else cls.drawn(rng)

    @property
    def count(self) -> int:
        inside = (self.size - 1) * self.left + 1 + sum(self.pad)
        return (inside - (self.width - 1) * self.right - 1) // self.stride + 1


def convolution(rng: random.Random, groups: int, batch_groups: int) -> Case:
    """Of no, one or two spatial dimensions, in any layout."""
    windows = [Window.drawn(rng) for _ in range(rng.randrange(3))]
    batch, features, kernels = (rng.choice((1, 2, 4)) for _ in range(3))
    kernels *= groups * batch_groups
    tensors: list[dict[str, int]] = [
        {"b": batch * batch_groups, "f": features * groups},
        {"i": features, "o": kernels},
        {"b": batch, "f": kernels},
    ]
    for number, window in enumerate(windows):
        for sizes, size in zip(tensors, (window.size, window.width, window.count), strict=True):
            sizes[str(number)] = size
    layouts = [rng.sample(list(sizes), len(sizes)) for sizes in tensors]
    shapes = [
        typed([sizes[dim] for dim in layout])
        for sizes, layout in zip(tensors, layouts, strict=True)
    ]
    names = [f"[{', '.join(layout)}]" for layout in layouts]
    padding = f"dense<{[window.pad for window in windows]}> : tensor<{len(windows)}x2xi64>"
    return Case(
        "convolution",
        shapes[:2],
        shapes[2:],
        f"dimension_numbers = #stablehlo.conv<{names[0]}x{names[1]}->{names[2]}>, "
        f"window_strides = {array([window.stride for window in windows])}, "
        + (f"padding = {padding}, " if windows else "")
        + f"lhs_dilation = {array([window.left for window in windows])}, "
        f"rhs_dilation = {array([window.right for window in windows])}, "
        f"batch_group_count = {batch_groups} : i64, feature_group_count = {groups} : i64",
    )


def convolutions(rng: random.Random) -> Iterator[Case]:
    for number in range(20):
        groups, batch_groups = ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4))[number % 5]
        yield convolution(rng, groups, batch_groups)


def broadcasts(rng: random.Random) -> Iterator[Case]:
    for _ in range(10):
        made = [rng.choice(SIZES) for _ in range(rng.randrange(1, 5))]
        dims = rng.sample(range(len(made)), rng.randrange(len(made) + 1))
        source = [rng.choice((1, made[dim], made[dim])) for dim in dims]
        yield Case(
            "broadcast_in_dim",
            [typed(source)],
            [typed(made)],
            f"broadcast_dimensions = {array(dims)}",
        )


def transposes(rng: random.Random) -> Iterator[Case]:
    for rank in (0, 1, 2, 3, 4):
        shape = [rng.choice(SIZES) for _ in range(rank)]
        order = rng.sample(range(rank), rank)
        made = [shape[dim] for dim in order]
        yield Case("transpose", [typed(shape)], [typed(made)], f"permutation = {array(order)}")
    yield Case("transpose", ["4x6xf32"], ["4x6xf32"], f"permutation = {array([0, 1])}")


def reshapes(rng: random.Random) -> Iterator[Case]:
    for shapes in (
        ((4, 8), (4, 2, 4)), ((2, 4, 8), (8, 8)), ((4, 6, 4), (4, 4, 6)), ((4, 8), (1, 4, 1, 8)),
        ((6, 4), (4, 6)), ((2, 3, 2), (12,)), ((2, 4, 2), (4, 4)), ((1, 1), ()), ((), (1,)),
        ((8, 3), (2, 12)), ((1, 6), (6, 1)), ((6, 10), (15, 4)),
    ):  # fmt: skip
        yield Case("reshape", [typed(shapes[0])], [typed(shapes[1])])
    for _ in range(10):
        primes = [rng.choice((2, 2, 3)) for _ in range(5)]

        def merged(primes: list[int] = primes) -> list[int]:
            shape = [1]
            for prime in rng.sample(primes, len(primes)):
                if rng.random() < 0.5:
                    shape.append(1)
                shape[-1] *= prime
            return shape

        yield Case("reshape", [typed(merged())], [typed(merged())])


def slices(rng: random.Random) -> Iterator[Case]:
    for _ in range(10):
        shape, made, said = [], [], []
        for _ in range(rng.randrange(1, 4)):
            size = rng.choice((2, 4, 8))
            start, stride = rng.choice(((0, 1), (0, 1), (1, 1), (0, 2), (1, 3)))
            limit = size if (start, stride) == (0, 1) else rng.randrange(start + 1, size + 1)
            shape.append(size)
            made.append(-(-(limit - start) // stride))
            said.append((start, limit, stride))
        starts, limits, strides = (array(each) for each in zip(*said, strict=True))
        yield Case(
            "slice",
            [typed(shape)],
            [typed(made)],
            f"start_indices = {starts}, limit_indices = {limits}, strides = {strides}",
        )


def pads(rng: random.Random) -> Iterator[Case]:
    for _ in range(12):
        shape, made, said = [], [], []
        for _ in range(rng.randrange(1, 4)):
            size = rng.choice((1, 2, 4, 6))
            low, high, inside = rng.choice(
                (
                    (0, 0, 0),
                    (0, 0, 0),
                    (1, -1, 0),
                    (1, 2, 0),
                    (0, 0, 1),
                    (-1, 3, 1),
                    (0, 1 - size, 1),
                )
            )
            shape.append(size)
            made.append(size + low + high + inside * (size - 1))
            said.append((low, high, inside))
        if min(made) < 1:
            continue
        low, high, inside = (array(each) for each in zip(*said, strict=True))
        yield Case(
            "pad",
            [typed(shape), "f32"],
            [typed(made)],
            f"edge_padding_low = {low}, edge_padding_high = {high}, interior_padding = {inside}",
        )


def joins(rng: random.Random) -> Iterator[Case]:
    for count in (1, 2, 3):
        for _ in range(3):
            shape = [rng.choice(SIZES) for _ in range(rng.randrange(1, 4))]
            dim = rng.randrange(len(shape))
            parts = [[*shape[:dim], rng.choice(SIZES), *shape[dim + 1 :]] for _ in range(count)]
            made = [*shape[:dim], sum(part[dim] for part in parts), *shape[dim + 1 :]]
            yield Case(
                "concatenate", [*map(typed, parts)], [typed(made)], f"dimension = {dim} : i64"
            )
    for dims in ([], [0], [1], [0, 1]):
        said = f"dimensions = {array(dims)}"
        yield Case("reverse", ["4x6xf32"], ["4x6xf32"], said)
    for dim in (0, 1):
        yield Case("iota", [], ["4x6xi32"], f"iota_dimension = {dim} : i64")


IDENTITIES = {"add": "0", "multiply": "1", "and": "-1", "or": "0"}
LIMITS = {"maximum": ("0xFF800000", "-2147483648"), "minimum": ("0x7F800000", "2147483647")}


def start(name: str, element: str) -> str:
    """The identity of the op."""
    if element == "i1":
        return {"and": "true", "minimum": "true"}.get(name, "false")
    if name in LIMITS:
        return LIMITS[name][element != "f32"] if element != "ui32" else "0"
    return IDENTITIES[name] + (".0" if element == "f32" else "")


def reductions(rng: random.Random) -> Iterator[Case]:
    for name in ("add", "multiply", "maximum", "minimum", "and", "or"):
        for element in ("f32", "i32", "i1", "ui32"):
            if element == "f32" and name in IDENTITIES and name in ("and", "or"):
                continue
            if element == "ui32" and name in ("minimum", "and"):
                continue
            shape = [rng.choice((2, 4, 6)) for _ in range(rng.randrange(1, 4))]
            gone = sorted(rng.sample(range(len(shape)), rng.randrange(len(shape) + 1)))
            kept = [size for dim, size in enumerate(shape) if dim not in gone]
            inits = [start(name, element)]
            if element in ("f32", "i32"):
                inits.append("1.0" if element == "f32" else "1")
            for init in inits:
                yield Case(
                    "reduce",
                    [typed(shape, element), element],
                    [typed(kept, element)],
                    f"dimensions = {array(gone)}",
                    joining(name, element),
                    {1: init},
                )
    gone = f"dimensions = {array([1])}"
    real, made = "4x6xf32", "4xf32"
    yield Case("reduce", [real, "f32"], [made], gone, joining("add"))
    yield Case(
        "reduce", [real, real, "f32", "f32"], [made, made], gone, joining("add", count=2),
        {2: "0.0", 3: "0.0"},
    )  # fmt: skip
    yield Case("reduce", [real, real, "f32", "f32"], [made, made], gone, joining("add", count=2))
    yield Case(
        "reduce", [real, "4x6xi32", "f32", "i32"], [made, "4xi32"], gone, LARGEST,
        {2: "0xFF800000", 3: "0"},
    )  # fmt: skip


def windows(rng: random.Random) -> Iterator[Case]:
    for _ in range(14):
        shape, made, said, pads = [], [], [], []
        for _ in range(rng.randrange(1, 4)):
            size = rng.choice((4, 6))
            window, stride, base, dilation = rng.choice(
                ((1, 1, 1, 1), (1, 1, 1, 2), (2, 1, 1, 1), (2, 2, 1, 1), (1, 2, 1, 1), (1, 1, 3, 1),
                 (2, 1, 2, 2))
            )  # fmt: skip
            pad = [0, 0] if rng.random() < 0.7 else [1, 1]
            reach = (size - 1) * base + 1 + sum(pad) - ((window - 1) * dilation + 1)
            shape.append(size)
            made.append(reach // stride + 1)
            said.append((window, stride, base, dilation))
            pads.append(pad)
        window, stride, base, dilation = (array(each) for each in zip(*said, strict=True))
        attributes = f"window_dimensions = {window}"
        if any(each[1:] != (1, 1, 1) for each in said) or any(map(sum, pads)):
            attributes += (
                f", window_strides = {stride}, base_dilations = {base}, "
                f"window_dilations = {dilation}, padding = dense<{pads}> : "
                f"tensor<{len(shape)}x2xi64>"
            )
        yield Case(
            "reduce_window", [typed(shape), "f32"], [typed(made)], attributes, joining("add")
        )
    for _ in range(10):
        shape, made, said, pads = [], [], [], []
        for _ in range(rng.randrange(1, 4)):
            size = rng.choice((4, 6))
            window, stride = rng.choice(((1, 1), (1, 1), (2, 1), (2, 2), (1, 2), (3, 1)))
            pad = [0, 0] if rng.random() < 0.8 else [1, 0]
            shape.append(size)
            made.append((size + sum(pad) - window) // stride + 1)
            said.append((window, stride))
            pads.append(pad)
        window, stride = (array(each) for each in zip(*said, strict=True))
        regions = compare("GE") + "\n}, {" + joining("add")
        yield Case(
            "select_and_scatter",
            [typed(shape), typed(made), "f32"],
            [typed(shape)],
            f"window_dimensions = {window}, window_strides = {stride}, "
            f"padding = dense<{pads}> : tensor<{len(shape)}x2xi64>",
            regions,
            {2: "0.0"},
        )


@dataclass
class Indexing:
    """The tensors of a gather or scatter, drawn at random."""

    operand: list[int]
    indices: list[int]
    slices: list[int]
    sizes: list[int]
    window: list[int]
    dropped: list[int]
    batching: list[int]
    indices_batching: list[int]
    placed: list[int]
    vector: int

    @classmethod
    def drawn(cls, rng: random.Random) -> "Indexing":
        operand, sizes, dropped, batching, placed = [], [], [], [], []
        for dim in range(rng.randrange(1, 5)):
            size = rng.choice((1, 2, 4, 4))
            kind = rng.choice(("batch", "drop", "drop", "full", "full", "one", "some"))
            if kind == "batch" and batching:
                kind = "drop"
            operand.append(size)
            sizes.append({"full": size, "some": max(1, size - 1)}.get(kind, 1))
            if kind == "batch":
                batching.append(dim)
            else:
                if kind == "drop":
                    dropped.append(dim)
                if kind != "full" or rng.random() < 0.3:
                    placed.append(dim)
        rng.shuffle(placed)
        shape = [rng.choice((2, 3, 4)) for _ in range(rng.randrange(3))]
        indices_batching = []
        for dim in batching:
            indices_batching.append(len(shape))
            shape.append(operand[dim])
        vector = rng.randrange(len(shape) + 1)
        indices = [*shape[:vector], len(placed), *shape[vector:]]
        indices_batching = [dim + (dim >= vector) for dim in indices_batching]
        if len(placed) == 1 and vector == len(shape) and rng.random() < 0.5:
            indices = shape
        inside = [sizes[dim] for dim in range(len(operand)) if dim not in (*dropped, *batching)]
        rank = len(shape) + len(inside)
        window = sorted(rng.sample(range(rank), len(inside)))
        shards, batches = iter(inside), iter(shape)
        slices = [next(shards if dim in window else batches) for dim in range(rank)]
        return cls(
            operand, indices, slices, sizes, window, dropped, batching, indices_batching, placed,
            vector,
        )  # fmt: skip


def gathers(rng: random.Random) -> Iterator[Case]:
    for _ in range(40):
        each = Indexing.drawn(rng)
        yield Case(
            "gather",
            [typed(each.operand), typed(each.indices, "i32")],
            [typed(each.slices)],
            f"dimension_numbers = #stablehlo.gather<offset_dims = {each.window}, "
            f"collapsed_slice_dims = {each.dropped}, operand_batching_dims = {each.batching}, "
            f"start_indices_batching_dims = {each.indices_batching}, "
            f"start_index_map = {each.placed}, index_vector_dim = {each.vector}>, "
            f"slice_sizes = {array(each.sizes)}",
        )


def scatters(rng: random.Random) -> Iterator[Case]:
    for number in range(60):
        each = Indexing.drawn(rng)
        count = 2 if number % 10 == 9 else 1
        element = ("f32", "i32", "f32", "i1", "ui32")[number % 5] if count == 1 else "f32"
        names = (
            ["add", "maximum"] if element == "ui32" else ["add", "multiply", "maximum", "minimum"]
        )
        region = joining(rng.choice(names), element, count)
        if number % 4 == 3 and count == 1 and element == "f32":
            region = SECOND
        operand, slices = typed(each.operand, element), typed(each.slices, element)
        yield Case(
            "scatter",
            [*[operand] * count, typed(each.indices, "i32"), *[slices] * count],
            [operand] * count,
            "scatter_dimension_numbers = #stablehlo.scatter<"
            f"update_window_dims = {each.window}, inserted_window_dims = {each.dropped}, "
            f"input_batching_dims = {each.batching}, "
            f"scatter_indices_batching_dims = {each.indices_batching}, "
            f"scatter_dims_to_operand_dims = {each.placed}, index_vector_dim = {each.vector}>",
            region,
        )


INDEX_TYPES = ("i8", "ui8", "i16", "ui32", "i64", "ui64")


def lookups(rng: random.Random) -> Iterator[Case]:
    """Indices of every width into dimensions that some of them are too narrow for."""
    for element in INDEX_TYPES:
        for rows in (8, 264):
            said = (
                "dimension_numbers = #stablehlo.gather<offset_dims = [1], "
                "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
                "slice_sizes = array<i64: 1, 2>"
            )
            operand = typed((rows, 2), rng.choice(("f32", "i32", "i8")))
            made = typed((48, 2), operand.split("x")[-1])
            yield Case("gather", [operand, typed((48, 1), element)], [made], said)
            said = (
                "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], "
                "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
                "index_vector_dim = 1>"
            )
            operands = [typed((rows, 2)), typed((48, 1), element), typed((48, 2))]
            yield Case("scatter", operands, [typed((rows, 2))], said, joining("add"))
    said = (
        "dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], "
        "start_index_map = [1, 0], index_vector_dim = 0>, slice_sizes = array<i64: 1, 1>"
    )
    for element in ("i8", "ui64"):  # in pairs, in the other order, in front
        yield Case("gather", ["264x8xf32", typed((2, 48), element)], ["48xf32"], said)
    said = (
        "dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [0], "
        "index_vector_dim = 0>, slice_sizes = array<i64: 1, 4>"
    )
    yield Case("gather", ["8x4xf32", "i32"], ["1x4xf32"], said)  # one row, kept as a dimension
    yield Case("gather", ["8x4xi1", "i32"], ["1x4xi1"], said)


def dynamic_slices(rng: random.Random) -> Iterator[Case]:
    for _ in range(8):
        shape = [rng.choice(SIZES) for _ in range(rng.randrange(1, 4))]
        taken = [size if rng.random() < 0.5 else rng.randrange(1, size + 1) for size in shape]
        places = ["i32"] * len(shape)
        yield Case(
            "dynamic_slice",
            [typed(shape), *places],
            [typed(taken)],
            f"slice_sizes = {array(taken)}",
        )
        yield Case("dynamic_update_slice", [typed(shape), typed(taken), *places], [typed(shape)])


def sorts(rng: random.Random) -> Iterator[Case]:
    for shape, dim in (((6,), 0), ((4, 6), 0), ((4, 6), 1), ((1, 6), 1), ((2, 3, 4), 1)):
        for count in (1, 2):
            types = [typed(shape)] * count
            said = f"dimension = {dim} : i64, is_stable = true"
            yield Case("sort", types, types, said, compare("LT", count=count))


def plain_dots(rng: random.Random) -> Iterator[Case]:
    yield Case("dot", ["4x6xf32", "6x2xf32"], ["4x2xf32"])
    yield Case("dot", ["6xf32", "6x2xf32"], ["2xf32"])
    yield Case("dot", ["4x6xf32", "6xf32"], ["4xf32"])
    yield Case("dot", ["6xf32", "6xf32"], ["f32"])


def complexes(rng: random.Random) -> Iterator[Case]:
    wide, real = typed((4, 6), "complex<f32>"), typed((4, 6))
    yield Case("complex", [real] * 2, [wide])
    yield Case("real", [wide], [real])
    yield Case("imag", [wide], [real])
    said = "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], "
    said += "rhs_contracting_dimensions = [0]>"
    yield Case("dot_general", [wide, "6x4xcomplex<f32>"], ["4x4xcomplex<f32>"], said)
    said = f"dimensions = {array([1])}"
    yield Case(
        "reduce",
        [wide, "complex<f32>"],
        ["4xcomplex<f32>"],
        said,
        joining("add", "complex<f32>"),
        {1: "(0.0, 0.0)"},
    )


def algebra(rng: random.Random) -> Iterator[Case]:
    for shape in ((3, 3), (4, 3, 3), (2, 4, 2, 2)):
        yield Case("cholesky", [typed(shape)], [typed(shape)], "lower = true")
    for batch in ((), (4,), (2, 4)):
        for left in ("true", "false"):
            for transpose in ("NO_TRANSPOSE", "TRANSPOSE"):
                b = typed([*batch, *((3, 4) if left == "true" else (4, 3))])
                yield Case(
                    "triangular_solve",
                    [typed([*batch, 3, 3]), b],
                    [b],
                    f"left_side = {left}, lower = true, unit_diagonal = false, "
                    f"transpose_a = #stablehlo<transpose {transpose}>",
                )
    for kind, source, target, length in (
        ("FFT", "4x6xcomplex<f32>", "4x6xcomplex<f32>", [6]),
        ("IFFT", "2x4x6xcomplex<f32>", "2x4x6xcomplex<f32>", [4, 6]),
        ("RFFT", "4x6xf32", "4x4xcomplex<f32>", [6]),
        ("IRFFT", "2x4x4xcomplex<f32>", "2x4x6xf32", [4, 6]),
        ("RFFT", "2x4x1xf32", "2x4x1xcomplex<f32>", [1]),
    ):
        said = f"fft_type = #stablehlo<fft_type {kind}>, fft_length = {array(length)}"
        yield Case("fft", [source], [target], said)
    for shape, feature in (((4, 6), 1), ((2, 4, 6), 1), ((4, 2, 2), 0), ((4,), 0)):
        full, vector = typed(shape), typed([shape[feature]])
        said = f"epsilon = 1.0 : f32, feature_index = {feature} : i64"
        yield Case("batch_norm_inference", [full, *[vector] * 4], [full], said)
        yield Case("batch_norm_training", [full, *[vector] * 2], [full, vector, vector], said)
        yield Case("batch_norm_grad", [full, *[vector] * 3, full], [full, vector, vector], said)


Family = Callable[[random.Random], Iterator[Case]]


def named(*families: Family) -> dict[str, Family]:
    return {family.__name__: family for family in families}


INTERPRETED = named(
    elementwise, bitcasts, dots, broadcasts, transposes, reshapes, slices, pads, joins, reductions,
    windows, gathers, scatters, dynamic_slices, sorts,
)  # fmt: skip
"""What StableHLO's interpreter runs."""

COMPILED = named(plain_dots, complexes, convolutions, algebra, lookups)
"""What only XLA does: the interpreter's convolutions fail in most layouts, and it takes unsigned
indices for signed ones."""


def generators(rng: random.Random) -> Iterator[Case]:
    said = "rng_distribution = #stablehlo<rng_distribution UNIFORM>"
    constants = {0: "0.0", 1: "1.0", 2: "[4, 6, 8]"}
    yield Case("rng", ["f32", "f32", "3xi64"], ["4x6x8xf32"], said, constants=constants)
    for shape in ((4, 6), (8,), ()):
        yield Case(
            "rng_bit_generator",
            ["2xui64"],
            ["2xui64", typed(shape, "ui32")],
            "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>",
        )


PAIR = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"


def collectives(rng: random.Random) -> Iterator[Case]:
    full = "4x6xf32"
    yield Case("all_reduce", [full], [full], PAIR, joining("add"))
    yield Case("all_reduce", [full, full], [full, full], PAIR, joining("add"))
    yield Case("all_gather", [full], ["4x12xf32"], f"all_gather_dim = 1 : i64, {PAIR}")
    said = f"scatter_dimension = 0 : i64, {PAIR}"
    yield Case("reduce_scatter", [full], ["2x6xf32"], said, joining("add"))
    for split, concat, made in ((0, 1, "2x12xf32"), (1, 0, "8x3xf32"), (1, 1, full)):
        said = f"split_dimension = {split} : i64, concat_dimension = {concat} : i64"
        yield Case("all_to_all", [full], [made], f"{said}, split_count = 2 : i64, {PAIR}")
    pairs = "source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>"
    yield Case("collective_permute", [full], [full], pairs)
    yield Case("collective_broadcast", [full], [full], PAIR)
    yield Case("cross-replica-sum", [full], [full], PAIR)


def custom_calls(rng: random.Random) -> Iterator[Case]:
    def call(target: str, operands: Sequence[str], results: Sequence[str]) -> Case:
        return Case("custom_call", operands, results, f'call_target_name = "{target}"')

    full, words, square = "4x6xf32", "4x6xui32", "2x4x4xf32"
    for target in (
        "LayoutConstraint", "MoveToDevice", "MoveToHost", "annotate_device_placement", "mhlo.erf",
        "_SPMDInternalOp_RotateRight", "_SPMDInternalOp_MultiPad", "_SPMDInternalOp_Wrap",
        "InspectSharding", "xla.megascale.provide_metadata", "Cholesky", "CompactWyHelper",
        "InvertDiagBlocksLowerTriangular", "InvertDiagBlocksUpperTriangular",
    ):  # fmt: skip
        yield call(target, [square], [square])
    yield call("_SPMDInternalOp_MultiRotate", [full], [full, full])
    yield call("_SPMDInternalOp_MultiSlice", [full], [full, full])
    yield call("X64SplitHigh", ["4x6xui64"], [words])
    yield call("X64SplitLow", ["4x6xui64"], [words])
    yield call("X64Combine", [words, words], ["4x6xui64"])
    yield call("Eigh", [square], [square, "2x4xf32"])
    yield call("Eigh", ["4x4xf32"], ["4x4xf32", "4xf32"])
    for target in ("Qr", "QrDecompositionBlock"):
        yield call(target, ["2x6x4xf32"], ["2x6x4xf32", "2x4xf32"])
    yield call("ProductOfElementaryHouseholderReflectors", ["2x6x4xf32", "2x4xf32"], ["2x6x4xf32"])
    for size in (2, 6):
        made = [f"4x{size}xf32", f"4x{size}xi32"]
        yield call("mhlo.topk", [full], made)
        for target in ("ApproxTopK", "PartialReduce"):
            yield call(target, [full, "4x6xi32", "f32", "i32"], made)
    yield call("unknown", [full], [full])


NOT_RUN = named(generators, collectives, custom_calls)


def drawn(family: Family) -> dict[str, Case]:
    """The family's cases by name, the same at every run."""
    name = family.__name__
    return {
        f"{name}-{number}-{case.name}": case
        for number, case in enumerate(family(random.Random(name)))
    }
