"""Write the largest elements of each row, of which XLA has a custom call, as a sort and slices.

    %0:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 3 : i64, largest = true}}
        : (tensor<8x64xf32>) -> (tensor<8x3xf32>, tensor<8x3xi32>)

becomes

    %i = stablehlo.iota dim = 1 : tensor<8x64xi32>
    %s:2 = stablehlo.sort(%x, %i) along 1, larger ones first, equal ones in their order
    %v, %p = slices [0:8, 0:3] of %s#0, %s#1

so that devices can run it, and find the largest of each shard first (`split-reductions`). The call
`@TopK` gives a tuple of the two.

A call that may miss some of the largest, and has the order as a function, is exact then:

    %v, %p = stablehlo.custom_call @ApproxTopK(%x, %i, %least, %none) {called_computations = [@gt],
        mhlo.backend_config = {reduction_dim = 1, top_k = 4, ...}}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import create
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.walk import operations, walk
from shard_dialect.ops.stablehlo.attribute_reading import integer
from shard_dialect.ops.stablehlo.custom_call import CUSTOM_CALL, options_of, target_of
from shard_dialect.passes.framework.base import Pass, is_imported, needs
from shard_dialect.passes.propagate.annotated_results import replace_annotated

_ELEMENT = "stablehlo.get_tuple_element"
_TARGETS = ("TopK", "mhlo.topk")
_APPROXIMATE, _CALLED = ("ApproxTopK", "PartialReduce"), "called_computations"


@needs(ops=(CUSTOM_CALL,), forms=("annotated",), keeps=(is_imported,))
@dataclass(frozen=True)
class ExpandTopK(Pass):
    """Make sorts and slices of XLA's custom calls that find the largest elements of each row."""

    name = "expand-top-k"

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite the calls of functions in the annotated form."""
        functions = {name_of(op): op for op in functions_of(module)}
        orders = set[str]()
        for function in functions_of(module, "annotated"):
            for op in walk(function):
                with ir.InsertionPoint(op), op.location:
                    if _is_top_k(op):
                        _expand(op)
                    elif _is_approximate(op) and _order_of(op) in functions:
                        orders.add(_order_of(op))
                        _expand_approximate(op, functions[_order_of(op)])
        for name in orders - _called(module) if orders else ():
            functions[name].erase()


def _is_top_k(op: ir.Operation) -> bool:
    if op.name != CUSTOM_CALL or target_of(op) not in _TARGETS:
        return False
    types = [value.type for value in (*op.operands, *op.results)]
    users = [use.owner.operation for result in op.results for use in result.uses]
    is_tuple = len(types) == 2 and all(user.name == _ELEMENT for user in users)
    of_tensor = isinstance(types[0], ir.RankedTensorType) and types[0].has_static_shape
    return of_tensor and types[0].rank > 0 and (is_tuple or len(types) == 3)


def _called(module: ir.Operation) -> set[str]:
    """The names of the functions that custom calls are given."""
    calls = (op for op in walk(module) if op.name == CUSTOM_CALL and _CALLED in op.attributes)
    return {each.value for op in calls for each in op.attributes[_CALLED]}


def _order_of(op: ir.Operation) -> str:
    """The name of the function that is the order of a call which may miss some of the largest."""
    name: str = op.attributes[_CALLED][0].value
    return name


def _is_approximate(op: ir.Operation) -> bool:
    if op.name != CUSTOM_CALL or target_of(op) not in _APPROXIMATE or _CALLED not in op.attributes:
        return False
    called, count = op.attributes[_CALLED], len(op.results)
    types = [each.type for each in (*op.results, *list(op.operands)[:count])]
    has_shapes = all(
        isinstance(each, ir.RankedTensorType) and each.has_static_shape for each in types
    )
    return has_shapes and len(called) == 1 and len(op.operands) == 2 * count


def _expand_approximate(op: ir.Operation, function: ir.Operation) -> None:
    """Sort all operands by the first in the order of a function, and slice the results."""
    values = list(op.operands)[: len(op.results)]
    dim = json.loads(options_of(op))["reduction_dim"]
    order = function.clone()
    (block,) = order.regions[0].blocks
    made = _sorted(values, dim)
    block.append_to(made.regions[0])
    order.erase()
    *_, end = operations(made.regions[0].blocks[0])
    with ir.InsertionPoint(end), end.location:
        hlo.ends(list(end.operands))
    end.erase()
    for number, result in enumerate(op.results):
        first = hlo.slice_along(made.results[number], dim, 0, result.type.shape[dim])
        replace_annotated(result, first)
    op.erase()


def _sorted(values: Sequence[ir.Value], dim: int) -> ir.Operation:
    """A stable sort of all tensors, still without an order."""
    attributes = {"dimension": build.i64(dim), "is_stable": ir.BoolAttr.get(True)}
    types = [each.type for each in values]
    return create("stablehlo.sort", types, values, attributes, regions=1)


def _expand(op: ir.Operation) -> None:
    value = op.operands[0]
    type_, dim = value.type, value.type.rank - 1
    along = build.i64(dim)
    users, found = _uses_by_result(op)
    integer_type = next((each.type.element_type for each in found[1]), build.integer(32))
    places = hlo.tensor(type_.shape, integer_type)
    counted = hlo.stablehlo_op("iota", places, [], {"iota_dimension": along})
    made = _sorted([value, counted], dim)
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
