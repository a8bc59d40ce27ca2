"""Compute tensors that are too large to store in blocks, in a loop: the scores of attention.

    %s = dot_general %q, %k     4096x4096      %o = scf.for %i = 0 to 16 iter_args(%o = empty) {
    %p = softmax %s                              %s = dot_general %q[256 rows], %k    256x4096
    %o = dot_general %p, %v                      %p = softmax %s
                                                 insert (dot_general %p, %v) into %o
                                               }

The loop is to a dimension what devices along an axis are to a split one: the sharding rules of the
ops say which dimensions of their tensors go along, and what a reduction along it leaves to be added
up, and their partition functions write the ops for one block. So this is not only for attention:
the logits of a large vocabulary are computed in blocks, too. Softmax is over whole rows, so that
what the forward pass computes is rounded as before; sums over blocks, such as the gradients of keys
and values, are added in another order, in f32 where elements have 16 bits.

A backward pass reads what the forward pass has computed, long before. Values as large are computed
again for it, from those that are stored anyway, so that there are two loops. What a scan over
layers keeps of each layer is computed again, too (`kept_by_loops`).

The pass is for the local form, where tensors are as large as on a device. It begins at products
that are larger than what they are made of. Tensors that are arguments, results, communicated, or
carried by loops in another way are stored whatever their size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import functions_of, is_private, name_of
from shard_dialect.ir.numbered_function import Block, read_function
from shard_dialect.ir.verify import declares_no_grid
from shard_dialect.ir.walk import walk
from shard_dialect.passes.blockwise.block_loop import BlockLoop
from shard_dialect.passes.blockwise.kept_by_loops import compute_kept_again
from shard_dialect.passes.blockwise.tilings import Values, bytes_of
from shard_dialect.passes.calls import callee_of, drop_uncalled, inline_call
from shard_dialect.passes.framework.base import Pass


@dataclass(frozen=True)
class BlockwiseAttention(Pass):
    """Compute in blocks what is too large to store, such as the scores of attention."""

    name = "blockwise-attention"

    block_bytes: int = 1 << 26
    """Tensors of more bytes on a device are computed in blocks of at most as many."""

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite functions in the local form; raises `ShardError` where there is none."""
        if self.block_bytes < 1:
            raise ShardError(f"block-bytes is {self.block_bytes}: expected a positive number")
        if declares_no_grid(module):
            return
        if not functions_of(module, "local"):
            raise ShardError("no function is in the local form: put it behind --spmd")
        while _inline_large(module, self.block_bytes):
            pass  # what was inlined may have such calls, too
        for handle in functions_of(module, "local"):
            compute_kept_again(handle, lambda type_: bytes_of(type_) > self.block_bytes)
            tried: set[ir.Value] = set()
            changed = [True]
            while any(changed):
                function = read_function(handle)
                values = [
                    Values(function, each, self.block_bytes) for each in _blocks(function.blocks)
                ]
                changed = [_rewrite(each, tried) for each in values]


def _rewrite(values: Values, tried: set[ir.Value]) -> bool:
    """Compute the large tensors in blocks that can be; whether the values are to be read anew.

    Loops that lie one after another are written at once: a module may have one for each layer.
    """
    is_changed, end = False, -1
    for component in values.components():
        first = values.ops[component[0]].handle.results[0]
        if first in tried:
            continue
        inside, late = values.before_others(component)
        tiling = values.tiling(inside)
        if tiling is None:
            tried.add(first)
        elif values.compute_again(tiling.positions, late):
            is_changed = True
        elif tiling.positions[0] > end:  # else the ops of the loop before may have moved
            BlockLoop(values, tiling).write()
            is_changed, end = True, tiling.positions[-1]
    return is_changed


def _blocks(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        for op in block.ops:
            yield from _blocks(op.blocks)


def _inline_large(module: ir.Operation, limit: int) -> bool:
    """Inline the calls that take or make a large tensor, as JAX writes `where` by one."""
    functions = functions_of(module, "local")
    callees = {
        name_of(each): each
        for each in functions
        if is_private(each) and len(each.regions[0].blocks) == 1
    }
    calls = [
        op
        for handle in functions
        for op in walk(handle)
        if op.name == "func.call" and callee_of(op) in callees
        if any(bytes_of(each.type) > limit for each in (*op.operands, *op.results))
    ]
    called = {callee_of(op) for op in calls}
    for op in calls:
        inline_call(op, callees[callee_of(op)])
    drop_uncalled(module, called)
    return bool(calls)
