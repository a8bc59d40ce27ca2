"""The argument of rule functions."""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.model.sharding import Shape


@dataclass(frozen=True, slots=True)
class Query:
    """One op, and the global shape of each of its operands and results.

    A shape is `None` where the value is not a tensor.
    """

    op: ir.Operation
    operands: tuple[Shape | None, ...]
    results: tuple[Shape | None, ...]

    @classmethod
    def of(cls, op: ir.Operation) -> Query | None:
        """The query about `op`, or `None` if one of its tensors has an unknown size."""
        types = [value.type for value in (*op.operands, *op.results)]
        if any(
            isinstance(type_, ir.UnrankedTensorType)
            or (isinstance(type_, ir.RankedTensorType) and not type_.has_static_shape)
            for type_ in types
        ):
            return None
        shapes = tuple(
            tuple(type_.shape) if isinstance(type_, ir.RankedTensorType) else None
            for type_ in types
        )
        count = len(op.operands)
        return cls(op, shapes[:count], shapes[count:])
