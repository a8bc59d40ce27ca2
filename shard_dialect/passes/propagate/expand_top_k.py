"""Write the largest elements of each row, of which XLA has a custom call, as a sort and slices.

    %0:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 3 : i64, largest = true}}
        : (tensor<8x64xf32>) -> (tensor<8x3xf32>, tensor<8x3xi32>)

becomes

    %i = stablehlo.iota dim = 1 : tensor<8x64xi32>
    %s:2 = stablehlo.sort(%x, %i) along 1, larger ones first, equal ones in their order
    %v, %p = slices [0:8, 0:3] of %s#0, %s#1

so that devices can run it, and find the largest of each shard first (`split-reductions`). The call
`@TopK` gives a tuple of the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import create
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.walk import walk
from shard_dialect.ops.stablehlo.attribute_reading import integer
from shard_dialect.passes.framework.base import Pass, needs
from shard_dialect.passes.propagate.annotated_results import replace_annotated

_CALL, _ELEMENT = "stablehlo.custom_call", "stablehlo.get_tuple_element"
_TARGETS = ("TopK", "mhlo.topk")


@needs(ops=(_CALL,), forms=("annotated",))
@dataclass(frozen=True)
class ExpandTopK(Pass):
    """Make sorts and slices of XLA's custom calls that find the largest elements of each row."""

    name = "expand-top-k"

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite the calls of functions in the annotated form."""
        for function in functions_of(module, "annotated"):
            for op in [each for each in walk(function) if _is_top_k(each)]:
                with ir.InsertionPoint(op), op.location:
                    _expand(op)


def _is_top_k(op: ir.Operation) -> bool:
    if op.name != _CALL or op.attributes["call_target_name"].value not in _TARGETS:
        return False
    types = [value.type for value in (*op.operands, *op.results)]
    users = [use.owner.operation for result in op.results for use in result.uses]
    is_tuple = len(types) == 2 and all(user.name == _ELEMENT for user in users)
    of_tensor = isinstance(types[0], ir.RankedTensorType) and types[0].has_static_shape
    return of_tensor and types[0].rank > 0 and (is_tuple or len(types) == 3)


def _expand(op: ir.Operation) -> None:
    value = op.operands[0]
    type_, dim = value.type, value.type.rank - 1
    along = hlo.i64(dim)
    users, found = _uses_by_result(op)
    integer_type = next((each.type.element_type for each in found[1]), hlo.integer(32))
    places = hlo.tensor(type_.shape, integer_type)
    counted = hlo.stablehlo_op("iota", places, [], {"iota_dimension": along})
    made = create(
        "stablehlo.sort",
        [type_, places],
        [value, counted],
        {"dimension": along, "is_stable": ir.BoolAttr.get(True)},
        regions=1,
    )
    elements = [hlo.tensor([], each.element_type) for each in (type_, places)]
    types = [each for each in elements for _ in range(2)]
    block = made.regions[0].blocks.append(*types, arg_locs=[op.location] * 4)
    with ir.InsertionPoint(block):
        before = hlo.compare("GT" if _finds_largest(op) else "LT", *list(block.arguments)[:2])
        if isinstance(type_.element_type, ir.FloatType):
            total = ir.Attribute.parse("#stablehlo<comparison_type TOTALORDER>")
            before.owner.attributes["compare_type"] = total
        hlo.ends([before])
    for number, results in found.items():
        for result in results:
            first = hlo.slice_along(made.results[number], dim, 0, result.type.shape[dim])
            replace_annotated(ir.OpResult(result), first)
    for user in dict.fromkeys([*users, op]):
        user.erase()


def _uses_by_result(op: ir.Operation) -> tuple[list[ir.Operation], dict[int, list[ir.Value]]]:
    """The ops that take elements of a tuple, and the values that are the elements and places."""
    if len(op.results) == 2:
        return [], {number: [result] for number, result in enumerate(op.results)}
    users = [use.owner.operation for use in op.results[0].uses]
    found: dict[int, list[ir.Value]] = {0: [], 1: []}
    for user in users:
        found[integer(user, "index")].append(user.results[0])
    return users, found


def _finds_largest(op: ir.Operation) -> bool:
    if "mhlo.attributes" not in op.attributes:
        return True
    given = op.attributes["mhlo.attributes"]
    return "largest" not in given or bool(given["largest"].value)
