"""Random stencils that compute the inside of a split tensor, and put it between its edges.

Their numbers are those of the unsharded program, and no more bytes move than without the pass.
"""

import random

import pytest

import shard_dialect as sd
from tests.extras import needs
from tests.passes.test_shift_slices import WITHOUT, bytes_moved

Term = tuple[str, tuple[int, ...]]
"""A value and its shape."""


class Inside:
    """A function of a tensor and a row, whose inside is computed one or two times."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.grid = rng.choice([(2,), (4,), (2, 2)])
        self.shape = tuple(rng.choice([16, 24, 19, 22]) for _ in range(rng.choice([1, 2, 2])))
        self.element = rng.choice(["f32", "f32", "f32", "i32"])
        self.lines: list[str] = []
        value = "%x"
        for _ in range(rng.choice([1, 1, 2])):
            value = self.step(value)
        self.result = value

    def add(self, op: str) -> str:
        self.lines.append(f"  %{len(self.lines)} = {op}")
        return f"%{len(self.lines) - 1}"

    def type(self, shape: tuple[int, ...], element: str = "") -> str:
        return f"tensor<{''.join(f'{size}x' for size in shape)}{element or self.element}>"

    def constant(self, number: int, shape: tuple[int, ...] = (), element: str = "") -> str:
        written = f"{number}.0" if (element or self.element) == "f32" else str(number)
        type_ = self.type(shape, element)
        return self.add(f"stablehlo.constant dense<{written}> : {type_}")

    def step(self, value: str) -> str:
        """The inside lies `low` from each beginning and `high` from each end."""
        rng = self.rng
        dims = [dim for dim in range(len(self.shape)) if rng.random() < 0.8] or [0]
        low = [rng.choice([0, 1, 1, 2]) if dim in dims else 0 for dim in range(len(self.shape))]
        high = [rng.choice([0, 1, 1, 2]) if dim in dims else 0 for dim in range(len(self.shape))]
        inside = self.inside(value, low, high)
        if rng.random() < 0.2:
            value = self.rolled(value)
        kind = rng.choice(["scatter", "add", "update", "pad", "join", "join"])
        if kind in ("scatter", "add"):
            return self.scatter(value, inside, low, kind)
        if kind == "update":
            indices = [self.constant(each, (), "i32") for each in low]
            types = ", ".join(
                [self.type(self.shape), self.type(inside[1]), *["tensor<i32>"] * len(low)]
            )
            op = f"stablehlo.dynamic_update_slice {value}, {inside[0]}, {', '.join(indices)}"
            return self.add(f"{op} : ({types}) -> {self.type(self.shape)}")
        if kind == "pad":
            widths = f"low = {low}, high = {high}, interior = {[0] * len(low)}"
            types = f"({self.type(inside[1])}, {self.type(())}) -> {self.type(self.shape)}"
            return self.add(f"stablehlo.pad {inside[0]}, {self.constant(3)}, {widths} : {types}")
        return self.joined(value, inside, low, high)

    def joined(self, value: str, inside: Term, low: list[int], high: list[int]) -> str:
        """Between slices of the tensor, dimension by dimension."""
        for dim in range(len(self.shape)):
            shape = inside[1]
            begins, ends = [0] * dim, list(self.shape[:dim])
            begins += [0, *low[dim + 1 :]]
            ends += [low[dim]]
            ends += [n - h for n, h in zip(self.shape[dim + 1 :], high[dim + 1 :], strict=True)]
            first = self.edge(value, begins, ends, dim) if low[dim] else None
            begins[dim], ends[dim] = self.shape[dim] - high[dim], self.shape[dim]
            last = self.slice(value, begins, ends) if high[dim] else None
            parts = [part for part in (first, inside, last) if part is not None]
            size = sum(part[1][dim] for part in parts)
            shape = (*shape[:dim], size, *shape[dim + 1 :])
            types = ", ".join(self.type(part[1]) for part in parts)
            names = ", ".join(part[0] for part in parts)
            op = f"stablehlo.concatenate {names}, dim = {dim} : ({types}) -> {self.type(shape)}"
            inside = self.add(op), shape
        return inside[0]

    def rolled(self, value: str) -> str:
        """Rolled by an element, or shifted, with another element at its end."""
        dim = self.rng.randrange(len(self.shape))
        begins, ends = [0] * len(self.shape), list(self.shape)
        at = 0 if self.rng.random() < 0.6 else 1
        ends[dim], begins[dim] = at + 1, at
        first = self.slice(value, begins, ends)
        begins[dim], ends[dim] = 1, self.shape[dim]
        rest = self.slice(value, begins, ends)
        types = f"({self.type(rest[1])}, {self.type(first[1])}) -> {self.type(self.shape)}"
        return self.add(f"stablehlo.concatenate {rest[0]}, {first[0]}, dim = {dim} : {types}")

    def edge(self, value: str, begins: list[int], ends: list[int], dim: int) -> Term:
        """A slice, or its first row as often as the slice has rows."""
        count = ends[dim] - begins[dim]
        term = self.slice(value, begins, ends)
        if self.rng.random() < 0.6:
            return term
        row, one = self.slice(value, begins, [*ends[:dim], begins[dim] + 1, *ends[dim + 1 :]])
        dims = list(range(len(one)))
        if self.rng.random() < 0.5:
            types = f"({self.type(one)}) -> {self.type(term[1])}"
            return self.add(f"stablehlo.broadcast_in_dim {row}, dims = {dims} : {types}"), term[1]
        at = self.rng.choice([dim, dim + 1])
        more = (*one[:at], count, *one[at:])
        dims = [each + (each >= at) for each in dims]
        types = f"({self.type(one)}) -> {self.type(more)}"
        repeated = self.add(f"stablehlo.broadcast_in_dim {row}, dims = {dims} : {types}")
        types = f"({self.type(more)}) -> {self.type(term[1])}"
        return self.add(f"stablehlo.reshape {repeated} : {types}"), term[1]

    def scatter(self, value: str, inside: Term, low: list[int], kind: str) -> str:
        rank = len(low)
        at = self.add(f"stablehlo.constant dense<{low}> : {self.type((rank,), 'i32')}")
        dims = list(range(rank))
        number = f"update_window_dims = {dims}, scatter_dims_to_operand_dims = {dims}"
        scalar, whole = self.type(()), self.type(self.shape)
        line = (
            f'"stablehlo.scatter"({value}, {at}, {inside[0]}) <{{indices_are_sorted = true, '
            f"scatter_dimension_numbers = #stablehlo.scatter<{number}>, unique_indices = true}}> "
            f"({{\n  ^bb0(%old: {scalar}, %new: {scalar}):\n"
        )
        returned = "%new"
        if kind == "add":
            line += f"    %sum = stablehlo.add %old, %new : {scalar}\n"
            returned = "%sum"
        line += f"    stablehlo.return {returned} : {scalar}\n  }}) : "
        types = f"({whole}, {self.type((rank,), 'i32')}, {self.type(inside[1])}) -> {whole}"
        return self.add(line + types)

    def slice(self, value: str, begins: list[int], ends: list[int]) -> Term:
        bounds = ", ".join(f"{a}:{b}" for a, b in zip(begins, ends, strict=True))
        shape = tuple(b - a for a, b in zip(begins, ends, strict=True))
        types = f"({self.type(self.shape)}) -> {self.type(shape)}"
        return self.add(f"stablehlo.slice {value} [{bounds}] : {types}"), shape

    def inside(self, value: str, low: list[int], high: list[int]) -> Term:
        rng = self.rng
        size = tuple(n - a - b for n, a, b in zip(self.shape, low, high, strict=True))
        result: Term | None = None
        for _ in range(rng.choice([1, 2, 3])):
            begins = [rng.choice([0, a, a + b]) for a, b in zip(low, high, strict=True)]
            ends = [begin + n for begin, n in zip(begins, size, strict=True)]
            term = self.slice(value, begins, ends)
            result = term if result is None else self.binary("add", result, term)
        assert result is not None
        for _ in range(rng.choice([0, 1, 2])):
            result = self.changed(result)
        return result

    def binary(self, name: str, one: Term, other: Term) -> Term:
        return self.add(f"stablehlo.{name} {one[0]}, {other[0]} : {self.type(one[1])}"), one[1]

    def changed(self, term: Term) -> Term:
        """An elementwise op of the term and something else."""
        rng, (name, shape) = self.rng, term
        kind = rng.choice(["constant", "row", "iota", "select", "repeated"])
        if kind == "row" and len(shape) == 2:
            types = f"({self.type((32,))}) -> {self.type(shape[1:])}"
            row = self.add(f"stablehlo.slice %r [0:{shape[1]}] : {types}")
            types = f"({self.type(shape[1:])}) -> {self.type(shape)}"
            other = self.add(f"stablehlo.broadcast_in_dim {row}, dims = [1] : {types}")
        elif kind == "iota":
            other = self.add(
                f"stablehlo.iota dim = {rng.randrange(len(shape))} : {self.type(shape)}"
            )
        elif kind == "select":
            bits = self.type(shape, "i1")
            less = f"{name}, {self.constant(0, shape)} : ({self.type(shape)}, {self.type(shape)})"
            mask = self.add(f"stablehlo.compare GT, {less} -> {bits}")
            twice = self.binary("add", term, term)[0]
            return self.add(
                f"stablehlo.select {mask}, {name}, {twice} : {bits}, {self.type(shape)}"
            ), shape
        elif kind == "repeated":
            types = f"({self.type(())}) -> {self.type(shape)}"
            other = self.add(f"stablehlo.broadcast_in_dim {self.constant(2)}, dims = [] : {types}")
        else:
            other = self.constant(3, shape)
        return self.binary(rng.choice(["add", "multiply", "maximum"]), term, (other, shape))

    def text(self) -> str:
        dims: list[list[int]] = [[] for _ in self.shape]
        for axis in range(len(self.grid)):
            dims[self.rng.randrange(len(dims))].append(axis)
        sharding = f"{{mesh.sharding = #mesh.shard<@g, {dims}>}}"
        type_ = self.type(self.shape)
        arguments = f"%x: {type_} {sharding}, %r: tensor<32x{self.element}>"
        head = f"func.func @main({arguments}) -> ({type_} {sharding}) {{"
        grid = f"shard.grid @g(shape = {'x'.join(map(str, self.grid))})"
        return "\n".join([grid, head, *self.lines, f"  return {self.result} : {type_}", "}"])


@needs("jax")
@pytest.mark.parametrize("seed", range(40))
def test_random_insides(seed: int) -> None:
    text = Inside(seed).text()
    assert sd.compile(sd.parse(text)).check().passed
    # On shards of few elements, halos of three reads are more than the exchange that they share.
    assert bytes_moved(text, "spmd") <= 1.1 * bytes_moved(text, WITHOUT)


@needs("jax")
def test_a_column_that_is_repeated_and_reshaped_is_not_a_repeated_column() -> None:
    """The edge has the rows a b, c d, a b, c d of a column a b c d."""
    text = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<4x16xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> (tensor<4x16xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) {
  %column = stablehlo.slice %x [0:4, 0:1] : (tensor<4x16xf32>) -> tensor<4x1xf32>
  %twice = stablehlo.broadcast_in_dim %column, dims = [1, 2]
      : (tensor<4x1xf32>) -> tensor<2x4x1xf32>
  %edge = stablehlo.reshape %twice : (tensor<2x4x1xf32>) -> tensor<4x2xf32>
  %rest = stablehlo.slice %x [0:4, 2:16] : (tensor<4x16xf32>) -> tensor<4x14xf32>
  %0 = stablehlo.concatenate %edge, %rest, dim = 1
      : (tensor<4x2xf32>, tensor<4x14xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
"""
    assert sd.compile(sd.parse(text)).check().passed
