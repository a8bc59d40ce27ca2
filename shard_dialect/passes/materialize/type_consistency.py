"""Check that the types of each op in the distributed form agree with its sharding rule.

Passes produce only types that agree, but a user may edit the IR. Partitioning an op whose types
disagree would compute wrong results.

Before the check, `remove_casts` removes the casts by which MLIR's canonicalization changes only the
sharding in a type.

    %1 = tensor.cast %0 : tensor<4x8xf32, #mesh.shard<@g, [[0], []]>> to tensor<4x8xf32>
    %2 = tensor.concat dim(1) %1, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
    %3 = tensor.cast %2 : tensor<4x16xf32> to tensor<4x16xf32, #mesh.shard<@g, [[0], []]>>

Some canonicalization patterns replace the type of an op's result by the type that the op infers,
which has no sharding. A cast moves no data, so its operand and its result have one sharding. The op
between the casts gets its former type back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import update_type
from shard_dialect.ir.mesh.annotation_ops import (
    BOUNDARY_OPS,
    TO_GLOBAL,
    TO_LOCAL,
    boundary_of,
    manual_computations,
)
from shard_dialect.ir.mesh.attributes import MANUAL, ints
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES, TRANSFER, UPDATE_HALO
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import (
    ENDS,
    FLOWS,
    Function,
    Kind,
    Op,
    Value,
    flows_between,
    flows_through,
    read_function,
)
from shard_dialect.ir.walk import walk
from shard_dialect.model import (
    EQUAL,
    Assignment,
    Extents,
    Grid,
    Sharding,
    ShardingError,
    ShardingRule,
    SubAxis,
)
from shard_dialect.model.grid import Axes
from shard_dialect.ops.op_table import OpKind, OpKinds, carries
from shard_dialect.ops.uneven_shards import may_be_uneven, may_have_halos, may_have_offsets
from shard_dialect.passes.materialize.resharded_values import FRESH


def remove_casts(function: Function) -> bool:
    """Erase the casts in `function` that change only shardings, and restore the former types.

    Returns whether there were such casts: the function is to be read again then.
    """
    handles = [op.handle for op in function.ops if op.name == "tensor.cast"]
    casts = [op for op in handles if _changes_only_sharding(op)]
    for op in casts:
        source, result = op.operands[0], op.results[0]
        # The type of a block argument is fixed by other ops: its function's type, or a branch.
        if source.type.encoding is None and not isinstance(source.owner, ir.Block):
            source.set_type(result.type)
        replace_op(op, source)
    return bool(casts)


def _changes_only_sharding(op: ir.Operation) -> bool:
    types = [op.operands[0].type, op.results[0].type]
    if not all(isinstance(each, ir.RankedTensorType) for each in types):
        return False
    source, result = types
    has_same_shape = list(source.shape) == list(result.shape)
    return has_same_shape and source.element_type == result.element_type and source != result


_FREE = (*COLLECTIVES, *FLOWS, *ENDS, TRANSFER, "func.call")
"""Ops whose operands may have any sharding here: their own verifiers or other checks apply."""


def read_distributed(handle: ir.Operation, shardings: Shardings) -> Function:
    """Read a function in the distributed form.

    Raises a located `ShardError` for a sharding in a type that no pass can partition yet.
    """
    # The numbers and kinds of values were read before the types changed.
    function = read_function(handle)
    if remove_casts(function):
        function = read_function(handle)
    if _write_in_full(function, shardings):
        function = read_function(handle)
    checked: set[Kind] = set()
    _check_kinds(handle, function.arguments, function, shardings, checked)
    for op in function.ops:
        arguments = [number for block in op.blocks for number in block.arguments]
        _check_kinds(op.handle, (*op.results, *arguments), function, shardings, checked)
    return function


def _write_in_full(function: Function, shardings: Shardings) -> bool:
    """Write the shardings in types with a list for each dimension, as passes do.

    MLIR takes `#mesh.shard<@g, [[0]]>` and `#mesh.shard<@g, [[0], []]>` for two types, and a
    replicated tensor has none, but between two grids, which its type then tells apart. Returns
    whether it changed some.
    """
    kinds = {value.kind for value in function.values if value.kind.is_tensor}
    known = {kind: shardings.of_type(kind.type) for kind in kinds}
    has_one_grid = len({each.grid for each in known.values() if each is not None}) == 1
    full = {
        kind: shardings.typed(kind.type, sharding)
        for kind, sharding in known.items()
        if sharding is not None and (has_one_grid or not sharding.is_replicated)
    }
    is_short = {kind for kind, type_ in full.items() if type_ != kind.type}
    for value in function.values if is_short else ():
        if value.kind in is_short:
            build.retype(value.handle, full[value.kind])
    if is_short:
        update_type(function.handle)
    return bool(is_short)


def _check_kinds(
    op: ir.Operation,
    numbers: Sequence[int],
    function: Function,
    shardings: Shardings,
    checked: set[Kind],
) -> None:
    """Raise unless the values that `op` makes may be partitioned, for kinds not yet `checked`."""
    for number in numbers:
        kind = function.values[number].kind
        sharding = shardings.of_type(kind.type) if kind not in checked else None
        if sharding is None:
            continue
        with located(op):
            _check_shardable(sharding)
        checked.add(kind)


def _check_shardable(sharding: Sharding) -> None:
    sharding.check_sizes_known()
    if any(isinstance(axis, SubAxis) for axis in sharding.axes):
        raise ShardingError(f"cannot shard a tensor as {sharding}: it has sub-axes")


def check_flows(function: Function, shardings: Shardings) -> None:
    """Raise a located `ShardError` unless the values of each flow have one sharding.

    MLIR checks this for some of the ops only. An operand that chooses a control flow path must be
    replicated: devices on different paths would wait for each other's collectives forever.
    """
    flows = flows_between(function.blocks)
    flows += [flow for op in function.ops for flow in flows_through(op)]
    sources = {(id(op), number) for flow in flows for op, number in flow.sources}
    for flow in flows:
        expected = _sharding_of(function, flow.targets[0], shardings)
        for value in flow.targets[1:]:
            if _sharding_of(function, value, shardings) != expected:
                raise _disagree(function, flow.sources[0][0], value, flow.targets[0])
        for op, number in flow.sources:
            if _sharding_of(function, op.operands[number], shardings) != expected:
                raise _disagree(function, op, op.operands[number], flow.targets[0])
    for op in function.ops:
        if op.name not in (*FLOWS, *ENDS) or op.name == "func.return":
            continue
        for number, value in enumerate(op.operands):
            sharding = _sharding_of(function, value, shardings)
            if sharding is not None and (id(op), number) not in sources:
                raise error_at(
                    op.location,
                    f"'{op.name}' op operand {number} is {sharding}, but it must be replicated: it "
                    "chooses the control flow path",
                )


def _sharding_of(function: Function, value: int, shardings: Shardings) -> Sharding | None:
    return shardings.of_type(function.values[value].handle.type)


def _disagree(function: Function, op: Op, value: int, target: int) -> ShardError:
    types = [function.values[each].handle.type for each in (value, target)]
    return error_at(
        op.location,
        f"'{op.name}' op passes on a {types[0]} to what is a {types[1]}: they must have the "
        "same sharding",
    )


@dataclass(frozen=True, slots=True)
class TypeChecks:
    """Checks the types of a module's ops, once for ops that are alike."""

    shardings: Shardings
    _kinds: OpKinds = field(default_factory=OpKinds)
    _checked: set[tuple[OpKind, frozenset[int]]] = field(default_factory=set)

    def rule_of(self, op: Op, values: Sequence[Value]) -> ShardingRule | None:
        """The op's sharding rule, or `None` if no tensor that a rule relates is sharded.

        Raises `ShardingError` unless the shardings in the op's types agree with its rule.
        """
        if op.name in BOUNDARY_OPS:
            _check_boundary(op.handle, self.shardings)
            return None
        if op.name in _FREE:
            return None
        if len(op.handle.regions):
            _check_regions(op.handle, self.shardings)
        operands = [self.shardings.of_type(values[value].kind.type) for value in op.operands]
        results = [self.shardings.of_type(values[value].kind.type) for value in op.results]
        if not any(operands) and not any(results):
            return None
        kind = self._kinds.kind_in(values, op)
        if kind.rule is None:
            raise ShardingError(
                f"'{op.name}' op has no sharding rule: its tensors must be replicated"
            )
        name = next(sharding.grid for sharding in operands + results if sharding is not None)
        # Whether partial values are right may depend on the ops that make them.
        is_partial = any(each is not None and each.partial for each in operands + results)
        key = (kind, may_be_uneven(op.handle, kind.rule))
        if is_partial or key not in self._checked:
            _check(op.handle, kind.rule, operands, results, self.shardings.grid(name))
            self._checked.add(key)
        return kind.rule


def _check_boundary(op: ir.Operation, shardings: Shardings) -> None:
    """Raise unless the type inside is the shard along the manual axes of the type outside."""
    boundary = boundary_of(op, shardings)
    types = [op.operands[0].type, op.results[0].type]
    outer, inner = types if op.name == TO_LOCAL else reversed(types)
    if not isinstance(outer, ir.RankedTensorType):
        return
    inside = shardings.sharding_of(inner, boundary.grid)
    expected = boundary.outside(inside)
    actual = shardings.sharding_of(outer, boundary.grid)
    if inside.partial or actual != expected:
        raise ShardingError(
            f"'{op.name}' op is between {outer} and {inner}: by its manual axes the one outside "
            f"must be {expected}"
        )
    if boundary.fitting(inside, tuple(inner.shape)) != inside:
        raise ShardingError(f"'{op.name}' op has shards that {inside} does not split evenly")


def check_manual_axes(function: ir.Operation, shardings: Shardings) -> None:
    """Raise a located `ShardError` for a tensor sharded along a manual axis in its computation."""
    for computation in manual_computations(function):
        manual = ints(computation.attributes[MANUAL])
        for op in walk(computation):
            if op.name == TO_GLOBAL and op.parent == computation:
                continue
            for value in op.results:
                sharding = shardings.of_type(value.type)
                if sharding is not None and set(sharding.axes) & set(manual):
                    raise error_at(
                        op.location,
                        f"'{op.name}' op makes a tensor sharded as {sharding} in a manual "
                        f"computation along axes {manual}",
                    )


def _check_regions(op: ir.Operation, shardings: Shardings) -> None:
    """Raise for a sharded tensor in a region: regions are not partitioned."""
    for inner in walk(op):
        types = [value.type for value in (*inner.operands, *inner.results)]
        types += [
            argument.type
            for region in inner.regions
            for block in region.blocks
            for argument in block.arguments
        ]
        if any(shardings.of_type(type_) is not None for type_ in types):
            raise ShardingError(
                f"'{op.name}' op has a region with a '{inner.name}' op on a sharded tensor: "
                "inside regions tensors must be replicated"
            )


def _check(
    op: ir.Operation,
    rule: ShardingRule,
    operands: list[Sharding | None],
    results: list[Sharding | None],
    grid: Grid,
) -> None:
    assignment = assignment_of(op.name, rule, operands, results, grid)
    extents = _extents_of(op, rule, operands, results)
    _check_uneven(op, rule, assignment, grid)
    kept_partial, partial_operands = _kept_partial(op, rule, operands)
    for index, actual in enumerate(results):
        expected = rule.result_sharding(index, assignment, grid, extents)
        expected = with_partial_axes(expected, kept_partial)
        # Such an op makes the same elements in any sharding, so only partial values can be wrong: a
        # fill with 1 that is partial over two devices is a 2.
        if op.name in (*FRESH, *build.CONSTANTS) and actual is not None:
            if actual.partial and not reductions.may_be_partial(op, actual.reduction):
                raise ShardingError(
                    f"'{op.name}' op gives a partial {actual.reduction} whose shards would be "
                    "counted once a device"
                )
            continue
        if expected is not None:
            _expect(op, f"result {index}", actual, expected)
    for index, actual in enumerate(operands):
        expected = rule.operand_sharding(index, assignment, grid, extents)
        if index in rule.inits:
            result = rule.inits.index(index)
            expected = with_partial_axes(
                rule.result_sharding(result, assignment, grid, extents), kept_partial
            )
        elif index in partial_operands:
            expected = with_partial_axes(expected, kept_partial)
        # Its operands are a scalar and a tensor that it overwrites.
        if op.name == "linalg.fill":
            continue
        if expected is not None:
            _expect(op, f"operand {index}", actual, expected)


def _extents_of(
    op: ir.Operation,
    rule: ShardingRule,
    operands: list[Sharding | None],
    results: list[Sharding | None],
) -> Extents:
    """The offsets and halos of the op's factors, halos by its results only.

    Raises `ShardingError` if the op cannot have them.
    """
    tensors = [*zip(rule.windowed_operands, operands, strict=True)]
    tensors += zip(rule.results, results, strict=True)
    if not any(sharding and (sharding.offsets or sharding.halos) for _, sharding in tensors):
        return EQUAL
    halos = Extents.of(zip(rule.results, results, strict=True), rule.sizes)
    if halos.halos and op.name != "tensor.empty" and not may_have_halos(op, rule):
        sharding = next(each for each in results if each is not None and each.halos)
        raise ShardingError(
            f"'{op.name}' op makes a tensor with halos, {sharding}: only '{UPDATE_HALO}' and "
            "elementwise ops do"
        )
    offsets = Extents.of(tensors, rule.sizes).offsets
    barred = {factor for factor, _ in offsets} - may_have_offsets(op, rule)
    if barred:
        at = next(at for factor, at in offsets if factor in barred)
        raise ShardingError(
            f"'{op.name}' op has a loop whose shards begin at offsets {list(at)}: by its rule "
            f"{rule} they must be equal"
        )
    return Extents(offsets, halos.halos, halos.fill)


def _check_uneven(op: ir.Operation, rule: ShardingRule, assignment: Assignment, grid: Grid) -> None:
    sizes = zip(rule.sizes, assignment, strict=True)
    uneven = {factor for factor, (size, axes) in enumerate(sizes) if size % grid.axes_size(axes)}
    if uneven and uneven - may_be_uneven(op, rule):
        size, axes = min((rule.sizes[factor], assignment[factor]) for factor in uneven)
        raise ShardingError(
            f"'{op.name}' op splits a loop of {size} among {grid.axes_size(axes)} devices, which "
            f"do not divide it: by its rule {rule} their shards must be equal"
        )


def with_partial_axes(sharding: Sharding | None, kept_partial: Sharding | None) -> Sharding | None:
    """`sharding`, partial also over the axes of `kept_partial`; either may be `None`.

    Raises `ShardingError` if the two are partial with different reductions.
    """
    if sharding is None or kept_partial is None:
        return sharding
    if sharding.partial and sharding.reduction != kept_partial.reduction:
        raise ShardingError(f"{sharding} would be partial as {kept_partial} is, too")
    return sharding.with_partial(sharding.partial + kept_partial.partial, kept_partial.reduction)


def _kept_partial(
    op: ir.Operation, rule: ShardingRule, operands: list[Sharding | None]
) -> tuple[Sharding | None, frozenset[int]]:
    """The partial sharding that the op passes from operands to results, and those operands.

    Raises `ShardingError` if the op does not give a partial result for its partial operands.
    """
    partial = {
        number: each
        for number, each in enumerate(operands)
        if each is not None and each.partial and number not in rule.inits
    }
    if not partial or op.name in (*FRESH, *build.CONSTANTS):
        return None, frozenset()
    first = next(iter(partial.values()))
    numbers = carries(op, rule, frozenset(partial), first.reduction, narrow=True)
    if numbers is None:
        number = min(partial)
        raise ShardingError(
            f"'{op.name}' op operand {number} is partial {partial[number]}, but the op does not "
            "make a partial result of partial operands"
        )
    kinds = {kind for factor, kind in rule.reductions}
    if kinds - {first.reduction}:
        raise ShardingError(f"'{op.name}' op reduces in another way than its operand {first}")
    return first, numbers


def assignment_of(
    name: str,
    rule: ShardingRule,
    operands: list[Sharding | None],
    results: list[Sharding | None],
    grid: Grid,
) -> tuple[Axes, ...]:
    """The axes that split each factor of a `name` op, read from the first tensor that splits it.

    Only operands give the axes of reduced factors. Raises `ShardingError` if the shardings split a
    factor or dimension that the rule does not allow to be split.
    """
    axes: dict[int, Axes] = {}
    for dims, sharding in (
        *zip(rule.windowed_operands, operands, strict=True),
        *zip(rule.results, results, strict=True),
    ):
        if dims is None or sharding is None:
            continue
        try:
            axes_by_factor = rule.factors_of(dims, sharding, grid)
        except ShardingError:
            raise ShardingError(
                f"'{name}' op splits a dimension that its rule {rule} keeps unsplit"
            ) from None
        for factor, split in axes_by_factor.items():
            # Only where it is split: a tensor may be replicated along a factor that another one
            # splits. `_check` then compares all tensors with this assignment.
            if split:
                axes.setdefault(factor, split)
    unsplit = sorted(factor for factor in axes if factor in rule.unsplit)
    if unsplit:
        raise ShardingError(f"'{name}' op splits a loop that its rule {rule} keeps unsplit")
    return tuple(axes.get(factor, ()) for factor in range(len(rule.sizes)))


def _expect(op: ir.Operation, what: str, present: Sharding | None, expected: Sharding) -> None:
    actual = present or Sharding.replicated(expected.grid, expected.rank)
    if actual != expected:
        raise ShardingError(
            f"'{op.name}' op {what} is {actual}, but by the other types and its rule it must be "
            f"{expected}"
        )
