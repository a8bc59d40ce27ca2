"""Programs of one sample, with shardings of its arguments and results.

    "mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
    func.func @main(%0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
        -> tensor<4x8xf32> attributes {mesh_cluster = @g} {
      %r = math.sin %0 : tensor<4x8xf32>
      return %r : tensor<4x8xf32>
    }

The shardings follow from an assignment of grid axes to the factors of the op's rule
(`sharded_samples`), or the caller draws them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from random import Random

from shard_dialect.errors import as_symbol, quoted
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import (
    EQUAL,
    Assignment,
    Extents,
    Grid,
    Sharding,
    ShardingError,
    ShardingRule,
)
from shard_dialect.ops import rule_of
from shard_dialect.ops.uneven_shards import may_be_uneven, may_have_offsets
from shard_dialect.testing.sample import Sample


@dataclass(frozen=True, slots=True)
class ShardedSample:
    """A sample with the factors of its rule split by `assignment`: the program that requests it."""

    assignment: Assignment
    text: str


def cluster(grid: Grid) -> str:
    """The grid's declaration in the RFC's vocabulary."""
    devices = f", device_ids = {list(grid.device_ids)}" if grid.device_ids else ""
    return (
        f'"mesh.cluster"() {{sym_name = {quoted(grid.name)}, rank = {grid.rank} : i64, '
        f"dim_sizes = {list(grid.shape)}{devices}}} : () -> ()\n"
    )


def declaration(grid: Grid) -> str:
    """The grid's declaration in upstream's vocabulary; the devices' order is our attribute."""
    devices = f" {{device_ids = {list(grid.device_ids)}}}" if grid.device_ids else ""
    return f"shard.grid {as_symbol(grid.name)}(shape = {'x'.join(map(str, grid.shape))}){devices}\n"


def encoding(sharding: Sharding | None) -> str:
    """The sharding as an attribute of an argument or a result; empty for `None`."""
    if sharding is None:
        return ""
    return f" {{mesh.sharding = #mesh.shard<{as_symbol(sharding.grid)}, {sharding}>}}"


def placed(
    sample: Sample,
    grid: Grid | None = None,
    arguments: Sequence[Sharding | None] = (),
    results: Sequence[Sharding | None] = (),
) -> str:
    """The program of the sample alone, with these shardings of its arguments and results.

    Without a grid it has no shardings.
    """
    positions = arguments or [None] * len(sample.operands)
    inputs = ", ".join(
        f"%{number}: {type_}{encoding(sharding)}"
        for number, (type_, sharding) in enumerate(zip(sample.operands, positions, strict=True))
    )
    shardings = results or [None] * len(sample.results)
    outputs = ", ".join(
        f"{type_}{encoding(sharding)}"
        for type_, sharding in zip(sample.results, shardings, strict=True)
    )
    types = ", ".join(map(str, sample.results))
    returned = f"{', '.join(sample.result_names)} : {types}" if sample.results else ""
    head, attributes = "", ""
    if grid is not None:
        head, attributes = cluster(grid), f"attributes {{mesh_cluster = {as_symbol(grid.name)}}} "
    return (
        f"{head}{sample.declared}func.func @main({inputs}) -> ({outputs}) {attributes}{{\n"
        f"{sample.body}\nreturn {returned}\n}}\n"
    )


def named(module: ir.Operation, name: str) -> ir.Operation:
    """The last op of this name."""
    *_, last_op = (op for op in walk(module) if op.name == name)
    return last_op


def assignments(rule: ShardingRule, uneven: frozenset[int], grid: Grid) -> Iterator[Assignment]:
    """Yield the assignments of the grid's axes to factors, in any order, without strided shards.

    The factors in `uneven` are also split unevenly.
    """
    free = [factor for factor in range(len(rule.sizes)) if factor not in rule.unsplit]
    seen: set[Assignment] = set()
    for order in permutations(range(grid.rank)):
        for chosen in product([None, *free], repeat=grid.rank):
            options: list[tuple[int, ...]] = [()] * len(rule.sizes)
            for axis in order:
                factor = chosen[axis]
                if factor is not None:
                    options[factor] += (axis,)
            assignment = tuple(options)
            if any(options) and assignment not in seen and _can_be(rule, uneven, assignment, grid):
                seen.add(assignment)
                yield assignment


def _can_be(rule: ShardingRule, uneven: frozenset[int], assignment: Assignment, grid: Grid) -> bool:
    for factor, (size, axes) in enumerate(zip(rule.sizes, assignment, strict=True)):
        if size % grid.axes_size(axes) and factor not in uneven:
            return False
    if len({kind for factor, kind in rule.reductions if assignment[factor]}) > 1:
        return False
    return _are_shards(rule, assignment, EQUAL, grid)


def _are_shards(rule: ShardingRule, assignment: Assignment, extents: Extents, grid: Grid) -> bool:
    """Whether each tensor's shards are such of a sharding, and not strided."""
    try:
        for index in range(len(rule.operands)):
            rule.operand_sharding(index, assignment, grid, extents)
        for index in range(len(rule.results)):
            rule.result_sharding(index, assignment, grid, extents)
    except ShardingError:
        return False
    return True


def sharded_samples(
    sample: Sample, grid: Grid, offsets: Random | None = None
) -> list[ShardedSample]:
    """For each assignment the program that requests it: by its boundary, or on the op itself.

    With `offsets`, which draws them, shards begin at offsets where they can; without those that
    cannot. Raises `ShardError` for a sample that does not parse; there are none for an op without a
    rule.
    """
    with make_context():
        module = Source.of(placed(sample, grid)).parse()
        op = named(module.operation, sample.op)
        rule = rule_of(op)
        if rule is None:
            return []
        may_be_at = may_have_offsets(op, rule)
        asked = []
        for each in assignments(rule, may_be_uneven(op, rule), grid):
            extents = _at_offsets(rule, may_be_at, each, grid, offsets) if offsets else EQUAL
            if (extents and _are_shards(rule, each, extents, grid)) or offsets is None:
                asked.append((each, _asking(sample, op, rule, each, extents, grid)))
    return [
        ShardedSample(each, _with_loops(text, sample.op, each) if _is_dear(rule, each) else text)
        for each, text in asked
    ]


def _at_offsets(
    rule: ShardingRule, may_be_at: frozenset[int], assignment: Assignment, grid: Grid, rng: Random
) -> Extents:
    """Random offsets of the factors in `may_be_at` that are split; shards may be empty."""
    drawn = []
    for factor in sorted(may_be_at):
        size, count = rule.sizes[factor], grid.axes_size(assignment[factor])
        if assignment[factor]:
            inner = sorted(rng.randint(0, size) for _ in range(count - 1))
            drawn.append((factor, (0, *inner, size)))
    return Extents(offsets=tuple(drawn))


def _is_dear(rule: ShardingRule, assignment: Assignment) -> bool:
    """Sums and wide halos cost more than gathering, of tensors so small: the op itself asks."""
    dear = [*rule.reduction_of, *(window.factor for window in rule.windows)]
    return any(assignment[factor] for factor in dear)


def _asking(
    sample: Sample,
    op: ir.Operation,
    rule: ShardingRule,
    assignment: Assignment,
    extents: Extents,
    grid: Grid,
) -> str:
    block = body(op.parent) if op.parent.name == "func.func" else body(_function_of(op))

    def operand(value: ir.Value) -> Sharding | None:
        positions = [number for number, each in enumerate(op.operands) if each == value]
        shardings = [
            rule.operand_sharding(number, assignment, grid, extents) for number in positions
        ]
        return shardings[0].bare if shardings and shardings[0] else None

    def result(value: ir.Value) -> Sharding | None:
        positions = [number for number, each in enumerate(op.results) if each == value]
        shardings = [
            rule.result_sharding(number, assignment, grid, extents) for number in positions
        ]
        return shardings[0].with_partial(()) if shardings and shardings[0] else None

    returned = operations(block)[-1].operands
    return placed(sample, grid, [*map(operand, block.arguments)], [*map(result, returned)])


def _function_of(op: ir.Operation) -> ir.Operation:
    while op.name != "func.func":
        op = op.parent
    return op


def _with_loops(text: str, name: str, assignment: Assignment) -> str:
    with make_context():
        module = Source.of(text).parse()
        loops = str([list(axes) for axes in assignment])
        named(module.operation, name).attributes["sharding"] = ir.Attribute.parse(loops)
        return str(module)
