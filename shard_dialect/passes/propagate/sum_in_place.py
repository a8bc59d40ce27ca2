"""Add into a part of a tensor where a part is put into zeros first, and all of that is added.

    %z = stablehlo.constant dense<0.0>                  the gradient of a slice, as JAX writes it:
    %1 = stablehlo.dynamic_update_slice %z, %part, %i   as large as all that was sliced
    %2 = stablehlo.add %sum, %1

    %1 = stablehlo.dynamic_slice %sum, %i
    %2 = stablehlo.add %1, %part
    %3 = stablehlo.dynamic_update_slice %sum, %2, %i    touches the part alone

The same holds for a scatter that adds each element once, and behind a transpose, as `vmap` writes
them; also where a private function puts the part into zeros. A loop that adds up the gradients of
weights that it slices then touches the slices only, not all weights in each iteration. Elements
that nothing is added to keep the sign of a zero; several parts are added one after another.
`sum-apart` is the inverse, for sums that are split along what is sliced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import is_used, replace_op
from shard_dialect.ir.building.reductions import is_identity
from shard_dialect.ir.function import boundary, functions_of, is_private, name_of
from shard_dialect.ir.mesh.attributes import RULE, SHARDING, SHARDINGS
from shard_dialect.ir.walk import body, is_made_by, operations, walk
from shard_dialect.ops.stablehlo.attribute_reading import integers
from shard_dialect.ops.stablehlo.gather_scatter import Numbers
from shard_dialect.ops.stablehlo.reduction_rules import combiner
from shard_dialect.passes.calls import callee_of, drop_uncalled, inline_call
from shard_dialect.passes.framework.base import Pass, is_imported, needs

_ADD, _TRANSPOSE = "stablehlo.add", "stablehlo.transpose"
_SCATTER, _UPDATE = "stablehlo.scatter", "stablehlo.dynamic_update_slice"


@needs(ops=(_SCATTER, _UPDATE), forms=("annotated",), grid=True, keeps=(is_imported,))
@dataclass(frozen=True)
class SumInPlace(Pass):
    """Add a part into a sum where the part is put into zeros, and all of that is added."""

    name = "sum-in-place"

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite sums of functions in the annotated form."""
        annotated = functions_of(module, "annotated")
        putting = {name_of(each): each for each in annotated if _puts_into_zeros(each)}
        read = {each for op in _sums(module) for each in op.operands}
        calls = [each.owner.operation for each in read if _is_call(each, putting)]
        called = {callee_of(call) for call in calls}
        for call in calls:
            inline_call(call, putting[callee_of(call)])
        drop_uncalled(module, called)
        for op in _sums(module):
            _rewrite(op)


def _sums(module: ir.Operation) -> list[ir.Operation]:
    """The sums of tensors of one type; those of elements stand in the regions of scatters, say."""
    found = (
        op
        for function in functions_of(module, "annotated")
        for op in walk(function)
        if op.name == _ADD
    )
    return [op for op in found if _is_plain(op)]


def _is_plain(op: ir.Operation) -> bool:
    types = {each.type for each in (*op.operands, *op.results)}
    return len(types) == 1 and bool(op.results[0].type.rank) and RULE not in op.attributes


def _is_call(value: ir.Value, names: dict[str, ir.Operation]) -> bool:
    """Whether a call of one of these makes a value with one reader."""
    if not is_made_by(value, "func.call"):
        return False
    call = value.owner.operation
    return _has_one_use(value) and SHARDINGS not in call.attributes and callee_of(call) in names


def _has_one_use(value: ir.Value) -> bool:
    return len(list(value.uses)) == 1


def _puts_into_zeros(function: ir.Operation) -> bool:
    if not is_private(function) or len(function.regions[0].blocks) != 1:
        return False
    if any(SHARDING in entry for entry in boundary(function, "res_attrs")):
        return False
    *_, last = operations(body(function))
    return len(last.operands) == 1 and _put(last.operands[0]) is not None


@dataclass(frozen=True)
class _Put:
    """The op that puts a part into zeros, or beside other parts, and how that is transposed."""

    op: ir.Operation
    permutation: tuple[int, ...]
    before: _Put | None = None

    def is_in(self, block: ir.Block) -> bool:
        """Whether all that is put stands in this block."""
        before = self.before is None or self.before.is_in(block)
        return before and bool(self.op.block == block)

    def transposed(self, permutation: Sequence[int]) -> _Put:
        """The same behind one more transpose."""
        return replace(self, permutation=tuple(self.permutation[each] for each in permutation))


def _put(value: ir.Value) -> _Put | None:
    if isinstance(value.owner, ir.Block) or not _has_one_use(value):
        return None
    op = value.owner.operation
    # What these say holds for this op, in this order of dimensions.
    if RULE in op.attributes or SHARDINGS in op.attributes:
        return None
    if op.name == _TRANSPOSE:
        found, permutation = _put(op.operands[0]), integers(op, "permutation")
        return found and found.transposed(permutation)
    puts = op.name == _UPDATE or (op.name == _SCATTER and _adds_each_once(op))
    if not puts or op.operands[0].type != value.type:
        return None
    if not all(each.type.has_static_shape for each in (value, *op.operands)):
        return None
    whole = _Put(op, tuple(range(value.type.rank)))
    if _is_zero(op.operands[0]):
        return whole
    # An update overwrites what is there; only a scatter adds to it.
    before = _put(op.operands[0]) if op.name == _SCATTER else None
    return before and replace(whole, before=before)


def _adds_each_once(scatter: ir.Operation) -> bool:
    """Whether the scatter adds, and no two updates to one element, which would be rounded first."""
    unique = scatter.attributes.get("unique_indices")
    is_unique = unique is not None and bool(unique.value)
    return len(scatter.results) == 1 and is_unique and combiner(scatter, 1) == "sum"


def _is_zero(value: ir.Value) -> bool:
    is_made = not isinstance(value.owner, ir.Block)
    if is_made and value.owner.name == "stablehlo.broadcast_in_dim":
        return _is_zero(value.owner.operands[0])
    return is_identity("sum", value)


def _rewrite(op: ir.Operation) -> None:
    for number, value in enumerate(op.operands):
        put = _put(value)
        if put is None or not put.is_in(op.block):  # what a loop adds each time is put once
            continue
        with ir.InsertionPoint(op), op.location:
            result = _summed(op.operands[1 - number], put)
        for name in op.attributes:
            result.owner.attributes[name] = op.attributes[name]
        replace_op(op, result)
        _drop_unused(value)
        return


def _summed(total: ir.Value, put: _Put) -> ir.Value:
    if put.before is not None:
        total = _summed(total, put.before.transposed(put.permutation))
    return (_updated if put.op.name == _UPDATE else _scattered)(total, put)


def _drop_unused(value: ir.Value) -> None:
    """Erase the op that makes a value that nobody reads, and so on along the first operands."""
    while not isinstance(value.owner, ir.Block) and not is_used(value):
        op = value.owner.operation
        before = list(op.operands)
        op.erase()
        if not before:
            return
        value = before[0]


def _updated(total: ir.Value, put: _Put) -> ir.Value:
    _, part, *starts = put.op.operands
    part = hlo.transpose(part, put.permutation)
    starts = [starts[each] for each in put.permutation]
    before = hlo.dynamic_slice(total, starts, part.type.shape)
    return hlo.dynamic_update(total, hlo.elementwise("add", before, part), starts)


def _scattered(total: ir.Value, put: _Put) -> ir.Value:
    """With the dimensions of the operand renumbered; those of the windows follow their order."""
    _, indices, updates = put.op.operands
    dims, rank = Numbers.of_scatter(put.op), total.type.rank
    now = [put.permutation.index(dim) for dim in range(rank)]
    windows = dims.windows(rank)  # from dimensions of the updates
    order = sorted(windows, key=lambda each: now[windows[each]])
    places = dict(zip(dims.window, order, strict=True))
    updates = hlo.transpose(updates, [places.get(d, d) for d in range(updates.type.rank)])
    batching = sorted(zip((now[d] for d in dims.batching), dims.indices_batching, strict=True))
    numbers = Numbers(
        dims.window,
        sorted(now[d] for d in dims.dropped),
        [d for d, _ in batching],
        [d for _, d in batching],
        [now[d] for d in dims.indexed],
        dims.index_vector,
    )
    copy = put.op.clone(ir.InsertionPoint.current).operation
    for number, value in enumerate((total, indices, updates)):
        copy.operands[number] = value
    copy.results[0].set_type(total.type)
    copy.attributes["scatter_dimension_numbers"] = numbers.attribute("Scatter")
    return copy.results[0]
