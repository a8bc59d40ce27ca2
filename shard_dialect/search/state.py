"""State that goes in and comes out: results of a function that are arguments of it, updated.

    func.func @step(%w, %x) -> %new                the result is the state %w
      %new = subtract %w, %g                       of which it is computed element by element,
                                                   and of an update that is computed otherwise;
                                                   or it is %w with some elements written anew

A step takes what the step before it returned, so that both need one sharding. Where neither is
annotated, a search puts them into a sharding group, whatever would be cheaper in one step.

A residual block is computed of its input in the same way as a new weight of the old one. What the
caller donates tells them apart, so only donated arguments are state where there are any. Else the
result of a block is alone, but for caches, and those of a step are several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import ALIAS, DONOR, boundary, functions_of, name_of
from shard_dialect.ir.walk import walk
from shard_dialect.ops.op_table import traits_of
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.passes.propagate.module_graph import GROUP
from shard_dialect.propagation.graph import NO_TENSOR, Node
from shard_dialect.search.searched_function import SearchedFunction


def states_of(function: SearchedFunction, free: frozenset[int]) -> tuple[tuple[int, int], ...]:
    """Pairs of an argument and a result, by their numbers at the boundary, of those in `free`.

    Where several arguments fit, as a weight and its moments do, the result with the fewest is
    decided first. Each argument is the state of one result at most.
    """
    tensors = dict(enumerate(function.boundary))
    donated = _donated(function)
    arguments = {
        value: n
        for n, value in tensors.items()
        if n < function.arguments and function.shapes[n] and n in (donated or tensors)
    }
    makers = _makers(function)
    found = {
        result: _updated(tensors[result], arguments, makers, function)
        for result in tensors
        if result >= function.arguments and tensors[result] != NO_TENSOR
    }
    pairs: dict[int, int] = {}
    written = set()
    for result in sorted(found, key=lambda each: (len(found[each][0]), each)):
        candidates, is_written = found[result]
        left = [argument for argument in candidates if argument not in pairs]
        if left:
            pairs[left[0]] = result
            written |= {left[0]} if is_written else set()
    for argument, alias in donated.items():
        is_alike = alias in found and function.shapes[argument] == function.shapes[alias]
        if alias is not None and is_alike and alias not in pairs.values():
            pairs.setdefault(argument, alias)
    if not donated and len(pairs) - len(written) < _SEVERAL:
        pairs = {argument: pairs[argument] for argument in written}
    return tuple(sorted(pair for pair in pairs.items() if free.issuperset(pair)))


_SEVERAL = 2
"""The fewest results that are taken for updates of arguments where none is donated."""


def _donated(function: SearchedFunction) -> Mapping[int, int | None]:
    """The donated arguments, each with the result that takes its memory, if that is known."""
    handle = next(each for each in function.graph.functions if each.name == function.name).handle
    found: dict[int, int | None] = {}
    for number, attributes in enumerate(boundary(handle, "arg_attrs")):
        if ALIAS in attributes:
            found[number] = function.arguments + int(attributes[ALIAS].value)
        elif DONOR in attributes and bool(attributes[DONOR].value):
            found[number] = None
    return found


def _makers(function: SearchedFunction) -> Mapping[int, list[Node]]:
    graph = function.graph.graph
    makers: dict[int, list[Node]] = defaultdict(list)
    for node in (*graph.nodes, *graph.exits):
        for value in node.values[graph.rules[node.rule_number].results :]:
            makers[value].append(node)
    return makers


def _updated(
    result: int,
    arguments: Mapping[int, int],
    makers: Mapping[int, Sequence[Node]],
    function: SearchedFunction,
) -> tuple[list[int], bool]:
    """The arguments of the result's type of which it is computed element by element.

    None where it is computed of arguments alone: `tanh %x` is no state. With them, whether some of
    its elements are written anew.
    """
    graph = function.graph.graph
    constants = {copy.number for copy in function.graph.copies}
    found, seen, todo, is_updated, is_written = set(), {result}, [result], False, False
    while todo:
        value = todo.pop()
        if value in arguments:
            found.add(arguments[value])
        read = [_read(node, function) for node in makers.get(value, ())]
        is_updated |= not any(read) and value not in arguments and value not in constants
        for node, operands in zip(makers.get(value, ()), read, strict=True):
            is_written |= bool(operands) and len(operands) < _operands(node, function)
            for operand in operands:
                is_alike = graph.kinds[operand] == graph.kinds[result]
                is_updated |= not is_alike and operand not in constants
                if operand not in seen and is_alike:
                    seen.add(operand)
                    todo.append(operand)
    return sorted(found) if is_updated or is_written else [], is_written


def _operands(node: Node, function: SearchedFunction) -> int:
    return function.graph.graph.rules[node.rule_number].results


def _read(node: Node, function: SearchedFunction) -> Sequence[int]:
    """The operands whose elements the results of a node have at the same places."""
    operands = node.values[: _operands(node, function)]
    if node.role in ("elementwise", "pass"):
        return operands
    updates = Trait.UPDATES in traits_of(function.graph.ops[node.origin][1].name)
    return operands[:1] if updates else ()


def tie(module: ir.Operation, entry: str, pairs: Iterable[tuple[int, int]]) -> None:
    """Put each argument into one sharding group with its result, in place."""
    function = next(op for op in functions_of(module) if name_of(op) == entry)
    block = function.regions[0].blocks[0]
    end = block.operations[len(block.operations) - 1]
    groups = [op.attributes["group_id"].value for op in walk(module) if op.name == GROUP]
    i64 = ir.IntegerType.get_signless(64, module.context)
    count = len(block.arguments)
    with ir.InsertionPoint(end), end.location:
        for number, (argument, result) in enumerate(pairs, max(groups, default=-1) + 1):
            for value in (block.arguments[argument], end.operands[result - count]):
                identity = {"group_id": ir.IntegerAttr.get(i64, number)}
                ir.Operation.create(GROUP, [], [value], identity)
