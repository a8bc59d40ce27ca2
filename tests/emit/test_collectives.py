"""What emitted programs say to other devices: what each of them gets, roots and others."""

from collections.abc import Sequence

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from shard_dialect.backends.python.python_module import TARGETS
from shard_dialect.backends.python.writer import Target
from shard_dialect.errors import ShardError
from tests.emit.test_emit_python import Batch, batch, emit
from tests.runtime import collective_cases
from tests.runtime.collective_cases import DTYPES, GRID, SHAPE, Case, inputs_of, refusals

pytestmark = pytest.mark.usefixtures("unoptimized")

__all__ = ["batch"]
REFUSED = ("i4",)
"""Element types that neither numpy nor torch has."""


def typed(shape: Sequence[int], element: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


def of_all(shape: Sequence[int], element: str) -> str:
    """The type of what the devices have, one behind the other along the first dimension."""
    whole = typed((GRID.size * shape[0], *shape[1:]), element)
    split = [[0, 1], *([] for _ in shape[1:])]
    return f"{whole[:-1]}, #mesh.shard<@g, {split}>>"


def program(cases: Sequence[Case], element: str, *, started: bool) -> str:
    """Each case on this device's shard of the argument, with a shard of a result for each."""
    text = collective_cases.program(cases, element, started=started)
    types = [typed(case.shape, element) for case in cases]
    results = [
        f"{type_} {{mesh.result = {of_all(case.shape, element)}}}"
        for type_, case in zip(types, cases, strict=True)
    ]
    x = f"%x: {typed(SHAPE, element)}"
    head = f"({x}) -> ({', '.join(types)})"
    assert head in text
    argument = f"{x} {{mesh.argument = {of_all(SHAPE, element)}}}"
    return text.replace(head, f"({argument}) -> ({', '.join(results)})")


def everyone(case: Case, inputs: Sequence[Array]) -> Array:
    """What the devices get, one behind the other."""
    return np.concatenate([case.expected(inputs, rank) for rank in range(GRID.size)])


MESSAGES = """
shard.grid @g(shape = 2x2)
!t = tensor<1xi32>
func.func @main(%x: !t {mesh.argument = tensor<4xi32, #mesh.shard<@g, [[0, 1]]>>})
    -> (tensor<3xi32> {mesh.result = tensor<12xi32, #mesh.shard<@g, [[0, 1]]>>})
    attributes {mesh.form = "local"} {
  %i:2 = shard.process_multi_index on @g : index, index
  %column = shard.process_multi_index on @g axes = [1] : index
  %rank = shard.process_linear_index on @g : index
  %zero = arith.constant 0 : index
  %sends = arith.cmpi eq, %column, %zero : index
  scf.if %sends {
    %y = arith.addi %x, %x : !t
    %a = shard.send %x on @g grid_axes = [1] destination = [1] : (!t) -> !t
    %b = shard.send %y on @g grid_axes = [1] destination = [1] : (!t) -> !t
  }
  %0 = tensor.collapse_shape %x [] : !t into tensor<i32>
  %1 = "mesh.collective_permute"(%0) {cluster = @g, mesh_axis = [1],
      permutation = array<i64: 1, 0>} : (tensor<i32>) -> tensor<i32>
  %2 = tensor.expand_shape %1 [] output_shape [1] : tensor<i32> into !t
  %3:2 = scf.if %sends -> (!t, !t) {
    %row = arith.index_cast %i#0 : index to i32
    %place = arith.index_cast %rank : index to i32
    %a = tensor.from_elements %row : !t
    %b = tensor.from_elements %place : !t
    scf.yield %a, %b : !t, !t
  } else {
    %a = shard.recv %x on @g grid_axes = [1] source = [0] : (!t) -> !t
    %b = shard.recv %x on @g grid_axes = [1] : (!t) -> !t
    scf.yield %a, %b : !t, !t
  }
  %4 = tensor.concat dim(0) %2, %3#0, %3#1 : (!t, !t, !t) -> tensor<3xi32>
  return %4 : tensor<3xi32>
}
"""
"""Two messages, the second twice the first, and an exchange while they are on the way."""


WIDER = """
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<2xi8> {mesh.argument = tensor<8xi8, #mesh.shard<@g, [[0, 1]]>>})
    -> (tensor<2xi32> {mesh.result = tensor<8xi32, #mesh.shard<@g, [[0, 1]]>>})
    attributes {mesh.form = "local"} {
  %0 = shard.all_reduce %x on @g grid_axes = [0, 1] : tensor<2xi8> -> tensor<2xi32>
  return %0 : tensor<2xi32>
}
"""


def test_every_device_gets_what_it_should(batch: Batch) -> None:
    for element, started in (*((each, False) for each in DTYPES), ("f32", True)):
        if element in REFUSED:
            continue
        inputs = inputs_of(element)
        found = [case for case in collective_cases.cases() if case.name not in refusals(element)]
        batch.expect(
            f"{element}_{started}",
            program(found, element, started=started),
            [np.concatenate(inputs)],
            {case.text(element, 0): everyone(case, inputs) for case in found},
        )
    got = [[11, 0, 0], [10, 10, 20], [13, 1, 2], [12, 12, 24]]
    given, result = np.array([10, 11, 12, 13], np.int32), np.array(got, np.int32).reshape(-1)
    batch.expect("messages", MESSAGES, [given], {"what it exchanges, and gets": result})
    large = np.array([100, 3, 100, 4, 100, -5, 100, 6], np.int8)
    batch.expect("wider", WIDER, [large], {"a sum": np.array([400, 8] * 4, np.int32)})
    batch.check()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("element", "reduction", "message"),
    [
        ("i32", "average", "of the reduction average"),
        ("f32", "generic", "reduction 'generic' is not supported yet: expected one of .*"),
        ("i1", "max", "a reduction max of elements of type i1"),
    ],
)
@pytest.mark.parametrize("op", ["all_reduce", "reduce"])
def test_reductions_that_are_refused(
    op: str, element: str, reduction: str, message: str, target: Target
) -> None:
    type_ = f"tensor<4x{element}>"
    how = f"{op} %x on @g grid_axes = [0] reduction = {reduction}"
    how += f" root = [0] : ({type_}) -> {type_}" if op == "reduce" else f" : {type_} -> {type_}"
    text = f"""shard.grid @g(shape = 1)
func.func @main(%x: {type_}) -> {type_} attributes {{mesh.form = "local"}} {{
  %0 = shard.{how}
  return %0 : {type_}
}}"""
    with pytest.raises(ShardError, match=rf"^-:3:8: error: 'shard.{op}' op .*{message}$"):
        emit(text, target, "canonicalize")
