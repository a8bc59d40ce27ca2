"""Write a rewritten graph back to its function in the IR."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.passes.optimize.graph.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph.graph_elements import GraphBlock, GraphOp, GraphValue


def write_graph(graph: FunctionGraph) -> None:
    """Create the new ops, change the operands and types of the others, and erase dropped ones."""
    writer = _Writer(graph)
    for value in graph.retyped:
        if value.handle is not None:
            value.handle.set_type(graph.shardings.typed(value.handle.type, value.sharding))
    writer.find_insertion_points(graph.blocks)
    for op in writer.insertion_points:
        writer.create(op)
    dropped = set(graph.dropped)
    for op in graph.ops_with_new_operands:
        if op.operands_read is not None and op not in dropped:
            writer.write_operands(op, op.operands_read)
    _erase([op.handle for op in graph.dropped if op.operands_read is not None])


def _erase(handles: list[ir.Operation]) -> None:
    """Erase ops, of which some may use others, in an order that the graph does not tell."""
    while handles:
        used: list[ir.Operation] = []
        for handle in handles:
            if any(True for result in handle.results for _ in result.uses):
                used.append(handle)
            else:
                handle.erase()
        handles = used


class _Writer:
    def __init__(self, graph: FunctionGraph) -> None:
        self.shardings = graph.shardings
        self.insertion_points: dict[GraphOp, ir.Operation] = {}
        """The new ops in order, each with the op in the IR before which it goes."""

    def find_insertion_points(self, blocks: Sequence[GraphBlock]) -> None:
        for block in blocks:
            new: list[GraphOp] = []
            for op in block.ops:
                if op.operands_read is None:
                    new.append(op)
                    continue
                self.insertion_points |= dict.fromkeys(new, op.handle)
                new.clear()
                self.find_insertion_points(op.blocks)

    def create(self, op: GraphOp) -> None:
        """Create a new op, after the new ops that make its operands."""
        result = op.results[0]
        if result.handle is not None:
            return
        operands = [self._handle(value) for value in op.operands]
        type_ = self.shardings.typed(result.kind.type, result.sharding)
        with ir.InsertionPoint(self.insertion_points[op]), op.location_of.location:
            if op.name == "linalg.fill":
                created = build.fill(*operands)
            else:
                created = build.create(op.name, [type_], operands, dict(op.attributes))
        result.handle = created.results[0]

    def write_operands(self, op: GraphOp, operands_read: Sequence[GraphValue | None]) -> None:
        operands = op.handle.operands
        for number, (value, read) in enumerate(zip(op.operands, operands_read, strict=True)):
            if value is not read:
                operands[number] = self._handle(value)

    def _handle(self, value: GraphValue | None) -> ir.Value:
        assert value is not None, "an op of a block has all operands"
        if value.handle is None:
            assert value.owner is not None, "block arguments have handles"
            self.create(value.owner)
        return value.handle
