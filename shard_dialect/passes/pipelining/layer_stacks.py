"""The tensors that hold the weights of all layers, or what becomes of them, one layer a row.

    %w: tensor<4x8x8xf32>                                   the weights of four layers,
    %1 = stablehlo.slice %w [1:2, 0:8, 0:8]                 of which one op takes those of a layer
    %9 = stablehlo.dynamic_update_slice %8, %g, %c1, ...    the gradients of four layers, into
                                                            which one op puts those of a layer

Such tensors are on no stage: their rows are divided among all stages. A stage takes its layers, and
puts in what becomes of them, without moving anything if they are in its own rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ir.numbered_function import Op
from shard_dialect.ir.reading.constant_integer import constant_integer
from shard_dialect.passes.pipelining.annotations_on_stages import MARK
from shard_dialect.passes.pipelining.fold_counters import UPDATE, written
from shard_dialect.passes.pipelining.microbatch_program import MicrobatchProgram

_STABLEHLO, _TENSOR, _INSERT = "stablehlo.slice", "tensor.extract_slice", "tensor.insert_slice"
SLICES = (_STABLEHLO, _TENSOR)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that an op takes of a tensor, or puts into one, from `begin` on.

    The part that is put is `operand` of the op.
    """

    begin: int
    size: int
    operand: int = 0

    @property
    def into(self) -> int:
        """The operand that a part is put into."""
        return 1 - self.operand


@dataclass
class LayerStacks:
    """The stacks of layers in one microbatch's program."""

    arguments: set[int] = field(default_factory=set)
    """The arguments that are stacks: all that the program does of them for a microbatch is to take
    each of their rows."""
    takes: dict[int, Rows] = field(default_factory=dict)
    """The rows that ops take of these, by the op's id."""
    puts: dict[int, Rows] = field(default_factory=dict)
    """The rows that ops put into a stack, by the op's id."""
    last: set[int] = field(default_factory=set)
    """The values that are stacks to which all rows have been put."""

    @classmethod
    def find(cls, program: MicrobatchProgram) -> LayerStacks:
        """The stacks among the arguments, and those that are made after all microbatches."""
        stacks = cls()
        early = [*program.once, *program.ops]
        sliced = {*program.batched, *(source for source, _ in program.slices.values())}
        users: dict[int, list[Op]] = {}
        for op in early:
            for value in program.reads[id(op)]:
                users.setdefault(value, []).append(op)
        for value in program.function.arguments:
            rows = {id(op): _taken(op, value) for op in users.get(value, ())}
            known = {key: each for key, each in rows.items() if each is not None}
            if value not in sliced and len(known) == len(rows) and _are_all(known, program, value):
                stacks.arguments.add(value)
                stacks.takes |= known
        stacks._find_puts(program)
        return stacks

    def _find_puts(self, program: MicrobatchProgram) -> None:
        chains: dict[int, list[tuple[Op, Rows]]] = {}
        """By the last value of each chain of ops that put rows into one tensor, these ops."""
        for op in program.after:
            rows = _put(op)
            if rows is not None:
                before = chains.pop(op.operands[rows.into], ())
                chains[op.results[0]] = [*before, (op, rows)]
        for value, chain in chains.items():
            if _are_all({id(op): rows for op, rows in chain}, program, value):
                self.puts |= {id(op): rows for op, rows in chain}
                self.last.add(value)


def _are_all(rows: Mapping[int, Rows], program: MicrobatchProgram, value: int) -> bool:
    """Whether several ops have rows, and together all those of the tensor `value`."""
    shape = program.function.values[value].shape
    covered = {at for each in rows.values() for at in range(each.begin, each.begin + each.size)}
    return (
        len({each.begin for each in rows.values()}) > 1
        and shape is not None
        and len(covered) == shape[0]
    )


def _taken(op: Op, value: int) -> Rows | None:
    """The rows of `value` that an op takes; `None` if it does something else."""
    handle = op.handle
    if op.name not in SLICES or op.operands[0] != value or SHARDINGS in handle.attributes:
        return None
    whole = handle.operands[0].type
    if op.name == _STABLEHLO:
        begins, ends, strides = (
            list(handle.attributes[key]) for key in ("start_indices", "limit_indices", "strides")
        )
        sizes = [end - begin for begin, end in zip(begins, ends, strict=True)]
        return _rows(begins, sizes, strides, whole)
    return _of_slice(handle, list(handle.operands)[1:], whole)


def _put(op: Op) -> Rows | None:
    """The rows that an op puts into a tensor; `None` if it does something else."""
    handle = op.handle
    if MARK in handle.attributes:  # it is split as it says
        return None
    if op.name == UPDATE:
        found = written(handle.results[0])
        if found is None:
            return None
        update, begins = found
        rows = _rows(begins, list(update.type.shape), [1] * len(begins), handle.results[0].type)
        return None if rows is None else replace(rows, operand=1)
    if op.name == _INSERT and SHARDINGS not in handle.attributes:
        return _of_slice(handle, list(handle.operands)[2:], handle.results[0].type)
    return None


def _of_slice(
    handle: ir.Operation, operands: Sequence[ir.Value], whole: ir.RankedTensorType
) -> Rows | None:
    """The rows of a slice of `tensor`, whose dynamic offsets, sizes and strides are `operands`."""
    dynamic, rest = ir.ShapedType.get_dynamic_size(), iter(map(constant_integer, operands))
    lists = [
        [next(rest) if each == dynamic else each for each in handle.attributes[key]]
        for key in ("static_offsets", "static_sizes", "static_strides")
    ]
    begins, sizes, strides = ([each for each in numbers if each is not None] for numbers in lists)
    if any(None in numbers for numbers in lists):
        return None
    return _rows(begins, sizes, strides, whole)


def _rows(
    begins: Sequence[int], sizes: Sequence[int], strides: Sequence[int], whole: ir.RankedTensorType
) -> Rows | None:
    """The rows of a box that has all of the other dimensions."""
    if not whole.has_static_shape or not whole.rank or any(each != 1 for each in strides):
        return None
    is_whole = list(sizes[1:]) == list(whole.shape)[1:] and not any(begins[1:])
    return Rows(begins[0], sizes[0]) if is_whole and sizes[0] < whole.shape[0] else None
