"""Modules and contexts that others made: they work, or an error says what to do instead."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import shard_dialect as sd
from shard_dialect.ir import context as user_dialects
from shard_dialect.ir.bindings import ir, irdl, provider
from tests.conftest import start_child
from tests.extras import needs

PROGRAM = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  %1 = math.tanh %0 : tensor<4x8xf32>
  %2 = call @f(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
func.func private @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = math.exp %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""

TOY = """
irdl.dialect @toy {
  irdl.operation @double {
    %0 = irdl.any
    irdl.operands(x: %0)
    irdl.results(y: %0)
  }
}
"""


def foreign(text: str, allow_unregistered: bool = False) -> ir.Module:
    """A module that only MLIR has read, in a context that is as the bindings make it."""
    context = ir.Context()
    context.allow_unregistered_dialects = allow_unregistered
    with context:
        return ir.Module.parse(text)


@contextmanager
def registered(name: str, definition: "str | user_dialects.Loader") -> Iterator[None]:
    sd.register_dialect(name, definition)
    try:
        yield
    finally:
        del user_dialects._loaders[name]


@pytest.mark.parametrize("pipeline", ["propagate", "propagate,materialize", "spmd", "spmd,lower"])
def test_passes_run_on_a_foreign_module(pipeline: str) -> None:
    ours, module = sd.parse(PROGRAM), foreign(PROGRAM)
    sd.run_pipeline(ours, pipeline)
    sd.run_pipeline(module, pipeline)
    assert module.operation.verify()
    assert sd.to_text(module) == sd.to_text(ours)


def test_what_it_communicates_is_told() -> None:
    assert str(sd.communication(foreign(PROGRAM))) == str(sd.communication(sd.parse(PROGRAM)))


def test_values_of_a_foreign_module_are_annotated() -> None:
    module = foreign("func.func @main(%x: tensor<4x8xf32>) { return }")
    argument = module.body.operations[0].regions[0].blocks[0].arguments[0]
    sd.annotate(argument, sd.Grid("g", (2,)), [[0], []])
    assert "mesh.annotate" in sd.to_text(module)


def test_text_is_read_in_a_foreign_context() -> None:
    text = sd.parse(PROGRAM)
    sd.run_pipeline(text, "propagate,materialize")
    module = sd.parse(sd.to_text(text), ir.Context())
    assert sd.to_text(module) == sd.to_text(text)


@pytest.mark.parametrize("name", ["mesh.size", "stablehlo.add", "toy.double"])
def test_ops_read_before_their_dialect_are_refused(name: str) -> None:
    """MLIR aborts, sooner or later, where a dialect is loaded after its ops."""
    module = foreign(f'func.func @main() {{\n  "{name}"() : () -> ()\n  return\n}}', True)
    with registered("toy", TOY):
        message = rf"2:\d+: error: '{name}' op was read before its dialect was loaded: .*sd.parse"
        with pytest.raises(sd.ShardError, match=message):
            sd.run_pipeline(module, "propagate")


def test_ops_of_unknown_dialects_are_left_alone() -> None:
    module = foreign('func.func @main() {\n  "any.thing"() : () -> ()\n  return\n}', True)
    before = str(module)
    sd.run_pipeline(module, "spmd")
    assert str(module) == before


def test_a_dialect_that_the_context_has_is_kept() -> None:
    context = ir.Context()
    with context:
        irdl.load_dialects(ir.Module.parse(TOY))
        module = ir.Module.parse(PROGRAM)
    with registered("toy", TOY):
        sd.run_pipeline(module, "spmd")
    assert context.is_registered_operation("toy.double")


def test_another_dialect_of_our_name_is_refused() -> None:
    context = ir.Context()
    with context:
        irdl.load_dialects(ir.Module.parse(TOY.replace("@toy", "@mesh")))
        module = ir.Module.parse(PROGRAM)
    with pytest.raises(sd.ShardError, match="has another dialect called 'mesh': use one that sd"):
        sd.run_pipeline(module, "spmd")


@needs("jax")
def test_a_module_of_other_bindings_is_refused() -> None:
    from jaxlib.mlir import ir as other

    with other.Context() as context:
        module = other.Module.parse("module {}")
    message = rf"is no module of {provider}, .*: give the module's text to sd.parse"
    for call in (sd.communication, sd.compile, lambda each: sd.run_pipeline(each, "spmd")):
        with pytest.raises(sd.ShardError, match=message):
            call(module)
    with pytest.raises(sd.ShardError, match=f"is no context of {provider}"):
        sd.parse(PROGRAM, context)


@pytest.mark.parametrize("call", [sd.communication, sd.report, sd.to_text, sd.compile])
def test_what_is_no_module_says_what_to_give(call: Callable[[Any], object]) -> None:
    for given in ("module {}", Path("a.mlir")):
        with pytest.raises(sd.ShardError, match="is no module: give what sd"):
            call(given)
    with pytest.raises(sd.ShardError, match="give the module that it is the report on"):
        call(sd.report(sd.parse(PROGRAM)))


@needs("jax")
@pytest.mark.parametrize("call", [sd.communication, sd.report, sd.to_text])
def test_what_jax_compiles_is_no_module(call: Callable[[Any], object]) -> None:
    import jax

    function = jax.jit(lambda x: x + x)
    with pytest.raises(sd.ShardError, match=r"give what \.lower\(\.\.\.\) returns"):
        call(function)
    with pytest.raises(sd.ShardError, match=r"give what \.lower\(\.\.\.\) has returned"):
        call(function.lower(1.0).compile())


@pytest.mark.parametrize("where", ["context", "plugin"])
def test_a_dialect_that_extends_another_is_loaded(where: str) -> None:
    """Types of `transform` abort the process where that dialect is not loaded."""
    code = f"""
import shard_dialect as sd
from {provider} import ir
from {provider}.dialects import transform

def load():
    transform.AnyOpType.get()
    print("extended")

if {where == "plugin"}:
    sd.register_dialect("extension", load)
    from shard_dialect.ir.context import make_context
    make_context()
else:
    with sd.make_context():
        load()
"""
    with start_child([sys.executable, "-c", code]) as child:
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, "extended\n"), err
