"""Ops that are functions of whole vectors or matrices, of which nothing else is known.

An op is named with how many of the last dimensions of its operands, and of its result, belong
together; all before them it does one by one, so a program may split those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shard_dialect.proof.elementwise import combined
from shard_dialect.proof.field import Elements
from shard_dialect.proof.machine import Machine, Value, means, widened, wrapped
from shard_dialect.proof.reading import Block, Op, Type


@means("stablehlo.cholesky")
def _cholesky(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    return m.mapped(op, values, [2], op.type, 2)


@means("stablehlo.fft")
def _fft(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    count = len(op.attributes["fft_length"])
    return m.mapped(op, values, [count], op.type, count)


@means("stablehlo.triangular_solve")
def _triangular_solve(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """Each column of the right side by itself; each row where the matrix stands on the right."""
    matrix, right = values
    along = -2 if op.attributes["left_side"] else -1
    rows = right.with_data(np.moveaxis(right.data, along, -1))
    keys = Value(m.digest(matrix, 2)[..., None], True)
    moved = list(op.type.shape)
    moved.append(moved.pop(len(moved) + along))
    type_ = Type(op.type.text, tuple(moved), op.type.kind, op.type.width)
    solved = m.mapped(op, [keys, rows], [0, 1], type_, 1)
    return Value(np.moveaxis(solved.data, -1, along), True)


@means("stablehlo.bitcast_convert", "tensor.bitcast")
def _bitcast(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """Between elements of other widths the last dimension comes or goes; integers stay as bits."""
    given_type = op.operand_types[0]
    if given_type.is_integer and op.type.is_integer and given_type.width == op.type.width:
        return Value(wrapped(m.integers(values[0]), op.type), False)
    given, made = len(op.operand_types[0].shape), len(op.type.shape)
    return m.mapped(op, values, [max(given - made, 0)], op.type, max(made - given, 0))


@means("tosa.table")
def _table(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    digest = m.digest(values[1], 1)
    table = Value(widened(digest, digest.ndim + len(op.type.shape)), True)
    return m.mapped(op, [values[0], table], [0, 0], op.type, 0)


@means("tosa.rescale", "tosa.apply_scale")
def _rescale(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """Multipliers and shifts are one for all, or one for each place of the last dimension."""
    aligned = []
    for value in values:
        own = value.data.shape[m.axes :]
        aligned.append(m.shaped(value, [*[1] * (len(op.type.shape) - len(own)), *own]))
    return m.mapped(op, aligned, [0] * len(aligned), op.type, 0)


@means("stablehlo.custom_call")
def _custom_call(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    """LAPACK's functions are of matrices, one after the other; of others nothing is known."""
    if op.attributes.get("called_computations"):
        op = _with_bodies(m, op)
    target = op.attributes["call_target_name"]
    if target in ("Sharding", "annotate_device_placement"):
        return values
    if op.attributes.get("has_side_effect"):
        raise m.unproven(op, "has side effects, which are not compared")
    if not target.startswith("lapack_"):
        return m.black_box(op, values)
    batch = len(op.operand_types[0].shape) - 2
    together = [len(type_.shape) - batch for type_ in op.operand_types]
    owns = [len(type_.shape) - batch for type_ in op.types]
    if min((*together, *owns)) < 0:
        return m.black_box(op, values)
    return [
        m.mapped(op, values, together, type_, own, number)
        for number, (type_, own) in enumerate(zip(op.types, owns, strict=True))
    ]


def _with_bodies(m: Machine, op: Op) -> Op:
    """The call, with what the functions that it calls do in place of their names."""
    called = [
        _text_of(m.program.functions[name].body, {}) if name in m.program.functions else name
        for name in op.attributes["called_computations"]
    ]
    return replace(op, attributes={**op.attributes, "called_computations": str(called)})


def _text_of(block: Block, numbers: dict[int, int]) -> str:
    """What a block does, with its values by their order."""

    def named(values: Sequence[int]) -> list[int]:
        return [numbers.setdefault(each, len(numbers)) for each in values]

    ops = [
        (
            op.function,
            named(op.operands),
            [_text_of(each, numbers) for each in op.regions],
            named(op.results),
        )
        for op in block.ops
    ]
    return f"{named(block.arguments)} {ops}"


Dims = tuple[int | None, ...]
"""The dimensions along which an op does the same; `None` where an operand has none such."""

_BY_DIMS: dict[str, tuple[tuple[Dims, ...], tuple[Dims, ...]]] = {
    "linalg.winograd_filter_transform": (((0, 3),), ((3, 2),)),
    "linalg.winograd_input_transform": (((0, 3),), ((4, 5),)),
    "tosa.fft2d": (((0,), (0,)), ((0,), (0,))),
    "tosa.rfft2d": (((0,),), ((0,), (0,))),
    "tosa.resize": (((0, 3), (None, None), (None, None), (None, None)), ((0, 3),)),
    "tosa.scatter": (((0, 2), (0, None), (0, 2)), ((0, 2),)),
}
"""For each op those of its operands and of its results."""


@means(*_BY_DIMS)
def _by_dims(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    operands, results = _BY_DIMS[op.name]
    return _along(m, op, values[: len(operands)], operands, results)


@means("linalg.winograd_output_transform")
def _winograd_output(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    """Is added to what is there, as the sums of a convolution are."""
    (made,) = _along(m, op, values[:1], ((4, 5),), ((0, 3),))
    return combined(m, "add", values[1], made, op.type)


@means("linalg.softmax")
def _softmax(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    others = tuple(dim for dim in range(len(op.type.shape)) if dim != op.attributes["dimension"])
    return _along(m, op, values[:1], (others,), (others,))


@means("stablehlo.batch_norm_training", "stablehlo.batch_norm_grad")
def _batch_norm(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    """For each feature by itself."""
    feature = (op.attributes["feature_index"],)
    operands = [feature if len(type_.shape) > 1 else (0,) for type_ in op.operand_types]
    results = [feature if len(type_.shape) > 1 else (0,) for type_ in op.types]
    return _along(m, op, values, operands, results)


@means("stablehlo.batch_norm_inference")
def _normalized(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    """For each element by itself."""
    dims = tuple(range(len(op.type.shape)))
    feature = tuple(0 if dim == op.attributes["feature_index"] else None for dim in dims)
    return _along(m, op, values, (dims, *(feature,) * (len(values) - 1)), (dims,))


def _along(
    m: Machine, op: Op, values: Sequence[Value], operands: Sequence[Dims], results: Sequence[Dims]
) -> list[Value]:
    """The function of what is at each place of these dimensions."""
    digests = [
        Value(_digest_around(m, value, dims), True)
        for value, dims in zip(values, operands, strict=True)
    ]
    made = []
    for number, (type_, dims) in enumerate(zip(op.types, results, strict=True)):
        places = [dim for dim in dims if dim is not None]
        order = [*places, *(dim for dim in range(len(type_.shape)) if dim not in places)]
        moved = Type(type_.text, tuple(type_.shape[dim] for dim in order), type_.kind, type_.width)
        own = len(order) - len(places)
        value = m.mapped(op, digests, [0] * len(digests), moved, own, number)
        back = [m.axes + order.index(dim) for dim in range(len(order))]
        made.append(value.with_data(value.data.transpose(*range(m.axes), *back)))
    return made


def _digest_around(m: Machine, value: Value, dims: Dims) -> Elements:
    """One number for each place of `dims`, of all that is there."""
    places = [dim for dim in dims if dim is not None]
    rank = value.data.ndim - m.axes
    order = [*places, *(dim for dim in range(rank) if dim not in places)]
    data = value.data.transpose(*range(m.axes), *(m.axes + dim for dim in order))
    digest = m.digest(value.with_data(data), rank - len(places))
    shape = iter(digest.shape[m.axes :])
    sizes = [1 if dim is None else next(shape) for dim in dims]
    return digest.reshape((*digest.shape[: m.axes], *sizes))
