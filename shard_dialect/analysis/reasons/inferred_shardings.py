"""Take from a propagated module what an earlier propagation inferred, to see how it came about.

    %0 = "mesh.annotate"(%x) {sharding = ..., mesh.shardings = [...]}     stays
    %1 = math.exp %0 {mesh.shardings = [...]}                             loses its sharding

Propagation then finds the same shardings again, with their history. Where it does not, since
somebody has edited them, they stay, and explanations end at them.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import boundary, form_of, functions_of, set_boundary
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.attributes import BLOCKS, FORM, SHARDING, SHARDINGS
from shard_dialect.ir.walk import operations, walk
from shard_dialect.passes.framework.pipeline import run_pipeline


def forget_inferred(module: ir.Module) -> None:
    """Take the inferred shardings from a module, in place, if propagation finds them again."""
    if not any(form_of(each) == "propagated" for each in functions_of(module.operation)):
        return
    text = module.operation.get_asm(enable_debug_info=True)
    again, before = (ir.Module.parse(text, module.context) for _ in range(2))
    _forget(again.operation)
    for each in (again, before):
        run_pipeline(each, "propagate")
    if again.operation.get_asm() == before.operation.get_asm():
        _forget(module.operation)


def _forget(module: ir.Operation) -> None:
    for function in functions_of(module):
        if form_of(function) != "propagated":
            continue
        del function.attributes[FORM]
        for op in walk(function):
            for name in (SHARDINGS, BLOCKS) if op.name not in annotation_ops.OPS else ():
                if name in op.attributes:
                    del op.attributes[name]
        _forget_boundary(function)


def _forget_boundary(function: ir.Operation) -> None:
    """Take what annotation ops say of arguments and results, too, from the boundary."""
    block = function.regions[0].blocks[0]
    arguments, results = boundary(function, "arg_attrs"), boundary(function, "res_attrs")
    for entry, argument in zip(arguments, block.arguments, strict=True):
        users = [use.owner.operation for use in argument.uses]
        if any(each.name in annotation_ops.OPS for each in users):
            entry.pop(SHARDING, None)
    for entry, value in zip(results, operations(block)[-1].operands, strict=False):
        maker = value.owner
        if not isinstance(maker, ir.Block) and maker.name in annotation_ops.OPS:
            entry.pop(SHARDING, None)
    set_boundary(function, "arg_attrs", arguments)
    set_boundary(function, "res_attrs", results)
