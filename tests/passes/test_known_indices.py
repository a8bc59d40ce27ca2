"""Gathers and scatters of which constants and iotas make a part of the indices, drawn at random.

Their numbers are those of the unsharded program, and no more bytes move than without the pass.
"""

import random
import re
from math import prod

import pytest

import shard_dialect as sd
from tests.extras import needs

WITHOUT = "sink-reshapes,propagate,split-reductions,shift-slices,materialize,rewrite-collectives"
COMBINERS = ("add", "maximum", "minimum", "write")


def type_of(shape: list[int], element: str = "f32") -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


class Lookup:
    """One gather or scatter of [8, 4, 8, ...] elements, at an index of one to three components."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.operand = [rng.choice((4, 8)) for _ in range(rng.choice((2, 3, 4)))]
        rank = len(self.operand)
        self.indexed = rng.sample(range(rank), rng.randint(1, min(3, rank)))
        self.batch = [rng.choice((4, 8)) for _ in range(rng.choice((1, 2)))]
        self.vector = rng.randint(0, len(self.batch))
        self.sizes = [
            1 if dim in self.indexed and rng.random() < 0.8 else size
            for dim, size in enumerate(self.operand)
        ]
        self.dropped = [d for d in self.indexed if self.sizes[d] == 1 and rng.random() < 0.7]
        windows = [size for dim, size in enumerate(self.sizes) if dim not in self.dropped]
        places = sorted(rng.sample(range(len(windows) + len(self.batch)), len(windows)))
        self.window = places
        left = list(self.batch)
        self.slices = [
            windows[places.index(place)] if place in places else left.pop(0)
            for place in range(len(windows) + len(self.batch))
        ]
        self.grid = rng.choice(((2,), (4,), (2, 2)))

    def add(self, op: str) -> str:
        self.lines.append(f"  %{len(self.lines)} = {op}")
        return f"%{len(self.lines) - 1}"

    def component(self, number: int) -> str:
        """Part of an index, as a tensor with a dimension of size 1 for the components."""
        size, type_ = self.operand[self.indexed[number]], type_of(self.batch, "i32")
        kind = self.rng.choice(("constant", "count", "count", "count", "given"))
        same = [dim for dim, each in enumerate(self.batch) if each == size]
        if kind == "constant":
            value = self.add(f"stablehlo.constant dense<{self.rng.choice((0, 0, 1, 9))}> : {type_}")
        elif kind == "given":
            value = f"%ids{number}"
        elif same and self.rng.random() < 0.5:
            value = self.add(f"stablehlo.iota dim = {self.rng.choice(same)} : {type_}")
        else:
            dim = self.rng.randrange(len(self.batch))
            row = type_of([self.batch[dim]], "i32")
            count = self.add(f"stablehlo.constant dense<{[*range(self.batch[dim])]}> : {row}")
            value = self.add(
                f"stablehlo.broadcast_in_dim {count}, dims = [{dim}] : ({row}) -> {type_}"
            )
        single = [*self.batch]
        single.insert(self.vector, 1)
        return self.add(f"stablehlo.reshape {value} : ({type_}) -> {type_of(single, 'i32')}")

    def indices(self) -> tuple[str, str]:
        parts = [self.component(number) for number in range(len(self.indexed))]
        shape = [*self.batch]
        shape.insert(self.vector, 1)
        single = type_of(shape, "i32")
        if len(parts) == 1:
            return parts[0], single
        shape[self.vector] = len(parts)
        types = f"({', '.join([single] * len(parts))}) -> {type_of(shape, 'i32')}"
        op = f"stablehlo.concatenate {', '.join(parts)}, dim = {self.vector} : {types}"
        return self.add(op), type_of(shape, "i32")

    def sharding(self, shape: list[int]) -> str:
        dims: list[list[int]] = [[] for _ in shape]
        for axis in range(len(self.grid)):
            dims[self.rng.randrange(len(dims))].append(axis)
        fits = all(
            size % prod(self.grid[axis] for axis in axes) == 0
            for size, axes in zip(shape, dims, strict=True)
        )
        return f" {{mesh.sharding = #mesh.shard<@g, {dims}>}}" if fits else ""

    def annotation(self, shape: list[int]) -> str:
        return self.sharding(shape).replace("sharding = ", "shardings = [").replace("}", "]}")

    def text(self) -> str:
        rng = self.rng
        indices, index_type = self.indices()
        operand, slices = type_of(self.operand), type_of(self.slices)
        flags = "indices_are_sorted = false"
        arguments = [f"%x: {operand}{self.sharding(self.operand)}"]
        if rng.random() < 0.5:
            dims = (
                f"offset_dims = {self.window}, collapsed_slice_dims = {sorted(self.dropped)}, "
                f"start_index_map = {self.indexed}, index_vector_dim = {self.vector}"
            )
            sizes = f"slice_sizes = array<i64: {', '.join(map(str, self.sizes))}>"
            result, shape = slices, self.slices
            value = self.add(
                f'"stablehlo.gather"(%x, {indices}) <{{dimension_numbers = #stablehlo.gather<{dims}'
                f">, {flags}, {sizes}}}>{self.annotation(self.slices)} : "
                f"({operand}, {index_type}) -> {slices}"
            )
        else:
            dims = (
                f"update_window_dims = {self.window}, "
                f"inserted_window_dims = {sorted(self.dropped)}, "
                f"scatter_dims_to_operand_dims = {self.indexed}, index_vector_dim = {self.vector}"
            )
            arguments.append(f"%u: {slices}{self.sharding(self.slices)}")
            result, shape = operand, self.operand
            kind = rng.choice(COMBINERS)
            body = f"%s = stablehlo.{kind} %a, %b : tensor<f32>\nstablehlo.return %s"
            if kind == "write":  # places that are written twice may have either
                body = "stablehlo.return %b"
            value = self.add(
                f'"stablehlo.scatter"(%x, {indices}, %u) <{{scatter_dimension_numbers = '
                f"#stablehlo.scatter<{dims}>, {flags}, unique_indices = false}}> ({{\n"
                f"^bb0(%a: tensor<f32>, %b: tensor<f32>):\n{body} : tensor<f32>\n}}) "
                f"{self.annotation(self.operand)} : "
                f"({operand}, {index_type}, {slices}) -> {operand}"
            )
        given = sorted(set(re.findall(r"%ids\d", "\n".join(self.lines))))
        arguments += [f"{each}: {type_of(self.batch, 'i32')}" for each in given]
        head = f"func.func @main({', '.join(arguments)}) -> ({result}{self.sharding(shape)}) {{"
        grid = f"shard.grid @g(shape = {'x'.join(map(str, self.grid))})"
        return "\n".join([grid, head, *self.lines, f"  return {value} : {result}", "}"])


def bytes_moved(text: str, pipeline: str) -> int:
    module = sd.parse(text)
    sd.run_pipeline(module, f"{pipeline},partition")
    return sd.communication(module).bytes_moved


def is_written_twice(text: str) -> bool:
    return "return %b" in text


@needs("jax")
@pytest.mark.parametrize("seed", range(24))
def test_random_lookups(seed: int) -> None:
    text = Lookup(seed).text()
    if not is_written_twice(text):
        assert sd.compile(sd.parse(text)).check().passed
    before, _, after = WITHOUT.partition(",")
    assert bytes_moved(text, f"{before},batch-gathers,{after}") <= bytes_moved(text, WITHOUT)


class Box:
    """What JAX makes of `x.at[:, 3:11].add(u)`, or of a `dynamic_slice`, mostly at constants."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.kind = rng.choice((*COMBINERS, "slice"))
        shape = [rng.choice((4, 6, 8, 12)) for _ in range(rng.randint(1, 3))]
        indexed = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
        box = [rng.randint(1, size) if dim in indexed else size for dim, size in enumerate(shape)]
        dropped = [d for d in indexed if box[d] == 1 and rng.random() < 0.5]
        begins = [
            rng.choice((rng.randint(-1, shape[dim]), rng.randint(0, shape[dim] - box[dim])))
            for dim in indexed
        ]
        is_given = self.kind == "slice" and rng.random() < 0.3
        lookup = Lookup(seed)
        lookup.grid = rng.choice(((2,), (4,), (2, 2)))
        x, u = type_of(shape), type_of([n for d, n in enumerate(box) if d not in dropped])
        arguments, result = f"%x: {x}{lookup.sharding(shape)}, %i: tensor<i32>", x
        if self.kind == "slice":
            all_begins = dict(zip(indexed, begins, strict=True))
            lines = [
                f"%c{dim} = stablehlo.constant dense<{all_begins.get(dim, 0)}> : tensor<i32>"
                for dim in range(len(shape))
            ]
            starts = [f"%c{dim}" for dim in range(len(shape))]
            if is_given:
                starts[indexed[0]] = "%i"
            types = ", ".join([x, *["tensor<i32>"] * len(shape)])
            result = type_of(box)
            lines.append(
                f"%r = stablehlo.dynamic_slice %x, {', '.join(starts)}, sizes = {box} : "
                f"({types}) -> {result}"
            )
        else:
            arguments += f", %u: {u}"
            body = f"%s = stablehlo.{self.kind} %a, %b : tensor<f32>\nstablehlo.return %s"
            body = "stablehlo.return %b" if self.kind == "write" else body
            at = f"tensor<{len(indexed)}xi32>"
            window = list(range(len(box) - len(dropped)))
            numbers = (
                f"update_window_dims = {window}, inserted_window_dims = {dropped}, "
                f"scatter_dims_to_operand_dims = {indexed}, index_vector_dim = 0"
            )
            lines = [
                f"%at = stablehlo.constant dense<{begins}> : {at}",
                f'%r = "stablehlo.scatter"(%x, %at, %u) <{{scatter_dimension_numbers = '
                f"#stablehlo.scatter<{numbers}>, indices_are_sorted = true, "
                f"unique_indices = true}}> ({{\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
                f"{body} : tensor<f32>\n}}) : ({x}, {at}, {u}) -> {x}",
            ]
        head = f"func.func @main({arguments}) -> {result} {{"
        grid = f"shard.grid @g(shape = {'x'.join(map(str, lookup.grid))})"
        self.text = "\n".join([grid, head, *lines, f"return %r : {result}", "}"])


@needs("jax")
@pytest.mark.parametrize("seed", range(40))
def test_random_boxes(seed: int) -> None:
    assert sd.compile(sd.parse(Box(seed).text)).check().passed, Box(seed).text


def test_an_update_of_some_rows_moves_nothing() -> None:
    """`x.at[:, 3:11].set(u)`, of which each device has a part."""
    x, u = "tensor<8x32x4xf32>", "tensor<8x8x4xf32>"
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%x: {x} {{mesh.sharding = #mesh.shard<@g, [[], [0], []]>}}, %u: {u}) -> {x} {{
      %c = stablehlo.constant dense<3> : tensor<1xi32>
      %r = "stablehlo.scatter"(%x, %c, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [0, 1, 2], scatter_dims_to_operand_dims = [1]>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        stablehlo.return %b : tensor<f32>
      }}) : ({x}, tensor<1xi32>, {u}) -> {x}
      return %r : {x}
    }}"""
    module = sd.run_pipeline(sd.parse(text), "spmd")
    assert sd.communication(module).bytes_moved == 0
    assert "all_gather" not in str(module)


def lookup(index: str, count: int = 8) -> str:
    """Rows of a split tensor at indices `%at`, which `index` makes."""
    numbers = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0]"
    return f"""
"mesh.cluster"() {{sym_name = "g", rank = 1 : i64, dim_sizes = [2]}} : () -> ()
func.func @main(%x: tensor<{count}x4xf32> {{mesh.sharding = #mesh.shard<@g, [[], [0]]>}},
                %z: tensor<{count}x1xi32>) -> tensor<{count}x4xf32> {{
  {index}
  %0 = "stablehlo.gather"(%x, %at) <{{
    dimension_numbers = #stablehlo.gather<{numbers}, index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 4>}}>
    : (tensor<{count}x4xf32>, tensor<{count}x1xi32>) -> tensor<{count}x4xf32>
  return %0 : tensor<{count}x4xf32>
}}"""


@pytest.mark.parametrize("vocabulary", ["mesh", "sdy"])
def test_a_lookup_that_is_its_operand_keeps_its_annotation(vocabulary: str) -> None:
    text = lookup("%at = stablehlo.iota dim = 0 : tensor<8x1xi32>")
    noted = text.replace("4>}>", "4>}> {mesh.shardings = [#mesh.shard<@g, [[0]]>]}")
    if vocabulary == "sdy":
        noted = re.sub('^"mesh.*', 'sdy.mesh @g = <["a"=2]>', noted, flags=re.MULTILINE)
        noted = noted.replace(
            "mesh.shardings = [#mesh.shard<@g, [[0]]>]",
            'sdy.sharding = #sdy.sharding_per_value<[<@g, [{"a"}, {}]>]>',
        ).replace(
            "mesh.sharding = #mesh.shard<@g, [[], [0]]>",
            'sdy.sharding = #sdy.sharding<@g, [{}, {"a"}]>',
        )
    module = sd.parse(noted)
    sd.run_pipeline(module, "spmd")
    assert "all_to_all" in str(module)
    assert sd.compile(sd.parse(noted)).check().passed


CLOSE = {
    "floats below a half": lookup("""
  %f = stablehlo.iota dim = 0 : tensor<8x1xf32>
  %half = stablehlo.constant dense<0.5> : tensor<8x1xf32>
  %p = stablehlo.compare LT, %f, %half : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xi1>
  %i = stablehlo.iota dim = 0 : tensor<8x1xi32>
  %last = stablehlo.constant dense<7> : tensor<8x1xi32>
  %at = stablehlo.select %p, %last, %i : tensor<8x1xi1>, tensor<8x1xi32>"""),
    "narrow integers that wrap": lookup(
        """
  %i = stablehlo.iota dim = 0 : tensor<200x1xi8>
  %at = stablehlo.convert %i : (tensor<200x1xi8>) -> tensor<200x1xi32>""",
        200,
    ),
    "complex numbers": lookup("""
  %c = stablehlo.constant dense<(0.0, 0.0)> : tensor<8x1xcomplex<f32>>
  %p = stablehlo.compare EQ, %c, %c
    : (tensor<8x1xcomplex<f32>>, tensor<8x1xcomplex<f32>>) -> tensor<8x1xi1>
  %at = stablehlo.select %p, %z, %z : tensor<8x1xi1>, tensor<8x1xi32>"""),
    "infinity": lookup("""
  %f = stablehlo.iota dim = 0 : tensor<8x1xf32>
  %inf = stablehlo.constant dense<0x7F800000> : tensor<8x1xf32>
  %p = stablehlo.compare LT, %f, %inf : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xi1>
  %one = stablehlo.constant dense<1> : tensor<8x1xi32>
  %at = stablehlo.select %p, %one, %z : tensor<8x1xi1>, tensor<8x1xi32>"""),
    "unsigned counts": lookup("""
  %i = stablehlo.iota dim = 0 : tensor<8x1xui8>
  %at = stablehlo.convert %i : (tensor<8x1xui8>) -> tensor<8x1xi32>"""),
}
"""Indices that look like counts or constants."""


@needs("jax")
@pytest.mark.parametrize("text", CLOSE.values(), ids=list(CLOSE))
def test_only_integers_that_fit_count(text: str) -> None:
    assert sd.compile(sd.parse(text)).check().passed


def test_a_tensor_of_open_size_and_a_rule_are_left_alone() -> None:
    rows = lookup("%at = stablehlo.constant dense<1> : tensor<8x1xi32>")
    assert "stablehlo.gather" not in sd.to_text(sd.run_pipeline(sd.parse(rows), "batch-gathers"))
    for changed in (
        rows.replace("tensor<8x4xf32>", "tensor<?x4xf32>"),
        rows.replace(
            "slice_sizes = array<i64: 1, 4>}>",
            "slice_sizes = array<i64: 1, 4>}> "
            '{mesh.sharding_rule = "([i, j], [k, l])->([k, j]) {i=8, j=4, k=8, l=1}"}',
        ),
    ):
        kept = sd.to_text(sd.run_pipeline(sd.parse(changed), "batch-gathers"))
        assert "stablehlo.gather" in kept
