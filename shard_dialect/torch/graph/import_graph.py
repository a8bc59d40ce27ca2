"""torch's graph as StableHLO, by torch-mlir's importer.

The importer's own pipeline accepts no op that it does not know. So a mark, or a call of torch, is
a call of a function until the ops of torch are gone, and then a `stablehlo.custom_call`:

    torch.operator "torch.shard_dialect.mark"(%x, %int3)
    func.call @shard_dialect.mark.3(%x)
    stablehlo.custom_call @shard_dialect.mark.3(%x)
"""

from __future__ import annotations

import importlib
import warnings
from functools import cache
from typing import Any

from shard_dialect.errors import ShardError, first_line_of
from shard_dialect.ir.bindings import PassManager, ir, know_stablehlo_passes, provider
from shard_dialect.ir.building.build import call, create, declare, replace_op
from shard_dialect.ir.diagnostics import from_mlir, reporting
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.mesh.attributes import RULE
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.ops.library_calls import TORCH_TARGET
from shard_dialect.ops.stablehlo.custom_call import CUSTOM_CALL
from shard_dialect.passes.decompose_chlo import keep_functions
from shard_dialect.torch.graph.complex_parts import MARK
from shard_dialect.torch.graph.fx_nodes import alone_with_types, is_node, location_of
from shard_dialect.torch.graph.module_paths import layer_of
from shard_dialect.torch.graph.torch_calls import CALL, call_of

_IMPORTER = "torch_mlir"
_CHECK = "torch-verify-stablehlo-backend-contract"
_TO_TORCH = (
    "func.func(torch-match-quantized-custom-ops),torchdynamo-export-to-torch-backend-pipeline"
)
_DECOMPOSE_CHLO = ",func.func(chlo-legalize-to-stablehlo),"
_TO_STABLEHLO = "builtin.module(torch-backend-to-stablehlo-backend-pipeline)"


class RefusedOp(ShardError):
    """An op that StableHLO cannot say."""

    op: Any = None


def stablehlo_text(graph: Any, entry: str) -> str:
    """A graph of torch as the text of a module, with locations in the user's Python.

    Raises `ShardError`, with such a location and the op of torch, for what StableHLO cannot say.
    """
    if provider != _IMPORTER:
        raise ShardError(f"sd.torch needs the bindings of torch-mlir, not those of {provider}")
    try:
        return _converted(graph, entry)
    except ShardError as error:
        raise _refusal_of_one(graph) or error from error


def _converted(graph: Any, entry: str) -> str:
    try:
        importer = importlib.import_module(f"{_IMPORTER}.extras.fx_importer")
        dialect = importlib.import_module(f"{_IMPORTER}.dialects.torch")
        context = ir.Context()
        dialect.register_dialect(context)
        reader = importer.FxImporter(context=context)
        reader._cc.__class__ = _with_layers(importer.ContextCache)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, of itself
            reader.import_graph_module(graph, func_name=entry)
        module = reader.module
    except Exception as error:  # the importer's are of many classes
        raise ShardError(f"torch-mlir cannot read the graph: {first_line_of(error)}") from error
    with module.context, ir.Location.unknown():
        importlib.import_module(f"{_IMPORTER}._mlir_libs._stablehlo").register_dialect(
            module.context, load=True
        )
        called = _calls_of_functions(module.operation)
        know_stablehlo_passes()
        convert, check, simplify = str(PassManager.parse(_TO_STABLEHLO)).partition(f",{_CHECK},")
        _run(module, f"builtin.module({_TO_TORCH})")
        convert, rest = convert.split(_DECOMPOSE_CHLO)
        _run(module, f"{convert.replace('static-shape=false', 'static-shape=true')})")
        keep_functions(module.operation)
        _run(module, f"builtin.module({rest})")
        if called:
            _custom_calls(module.operation, called)
        _run(module, f"builtin.module({check.strip(',')},{simplify}")
        for op in walk(module.operation):
            if op.name == "stablehlo.sort":  # what orders by a sort counts on it
                op.attributes["is_stable"] = ir.BoolAttr.get(True)
        return str(module.operation.get_asm(enable_debug_info=True))


@cache
def _with_layers(importers: Any) -> Any:
    """The importer's class that makes locations, with the modules around an op in them."""

    def get_node_location(self: Any, node: Any) -> Any:
        place, layer = importers.get_node_location(self, node), layer_of(node)
        if layer is None:
            return place
        return ir.Location.name(f"{layer}/{node.name}", place, context=self._c)

    members = {"__slots__": (), "get_node_location": get_node_location}
    return type(importers.__name__, (importers,), members)


def _refusal_of_one(graph: Any) -> ShardError | None:
    """The error of the first op that does not convert alone: the converter names a later one."""
    known: set[str] = set()
    for node in graph.graph.nodes:
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        alone, operands = alone_with_types(node)
        key = f"{node.target} {operands} {[each for each in node.args if not is_node(each)]}"
        if key in known:
            continue
        known.add(key)
        try:
            _converted(alone, "main")
        except ShardError as error:
            refused = RefusedOp(
                f"{node.target} of {operands} cannot be written as StableHLO: "
                f"{error.message.partition(': %')[0]}; use other ops there, or say it "
                "by others with sd.torch.decompose",
                location_of(node),
            )
            refused.op = node.target
            return refused
    return None


def _run(module: ir.Module, pipeline: str) -> None:
    with reporting(module.context):
        try:
            PassManager.parse(pipeline).run(module.operation)
        except ir.MLIRError as error:
            raise from_mlir(error) from None


def _calls_of_functions(module: ir.Operation) -> set[str]:
    """Call a function in the place of each mark and each call of torch; the functions' names."""
    names: set[str] = set()
    for op in walk(module):
        if op.name != "torch.operator":
            continue
        target = op.attributes["name"].value.removeprefix("torch.")
        if not target.startswith((MARK, CALL)):
            continue
        *operands, number = op.operands
        types = [each.type for each in op.results]
        name = f"{target}.{number.owner.attributes['value'].value}"
        if name not in names:
            names.add(name)
            with ir.InsertionPoint(body(module)), op.location:
                declare(name, ir.FunctionType.get([each.type for each in operands], types))
        with ir.InsertionPoint(op), op.location:
            results = call(name, operands, types).results
        replace_op(op, *results)
    return names


def _custom_calls(module: ir.Operation, names: set[str]) -> None:
    for op in walk(module):
        if op.name != "func.call" or op.attributes["callee"].value not in names:
            continue
        target, _, number = op.attributes["callee"].value.rpartition(".")
        texts = {"call_target_name": op.attributes["callee"].value}
        if target.startswith(CALL):
            what = call_of(int(number))
            texts = {"call_target_name": TORCH_TARGET, "backend_config": what.text, RULE: what.rule}
        attributes = {key: ir.StringAttr.get(each) for key, each in texts.items()}
        with ir.InsertionPoint(op), op.location:
            types = [each.type for each in op.results]
            new = create(CUSTOM_CALL, types, list(op.operands), attributes)
        replace_op(op, *new.results)
    for function in operations(body(module)):
        if function.name == "func.func" and name_of(function) in names:
            function.erase()


def marks_of(module: ir.Operation) -> list[tuple[int, ir.Operation]]:
    """The marks that are left in a module, by number."""
    found = []
    for function in functions_of(module):
        for op in operations(body(function)):
            target = op.attributes.get("call_target_name")
            if op.name == CUSTOM_CALL and target.value.startswith(MARK):
                found.append((int(target.value.rpartition(".")[2]), op))
    return found
