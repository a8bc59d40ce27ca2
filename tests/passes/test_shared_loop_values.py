"""Where a loop carries one value for several stages, each stage has what it makes of its own."""

import pytest

from shard_dialect.testing.check_program import reference_of, run_and_check
from tests.extras import needs

X, ONE, I = "tensor<4xf32>", "tensor<1xf32>", "tensor<i32>"
LOOP = f"""
shard.grid @g(shape = 2)
mesh.sub_cluster @first(cluster = @g, offsets = [0], sizes = [1])
mesh.sub_cluster @second(cluster = @g, offsets = [1], sizes = [1])
func.func @main(%x: {X}, %y: {X}) -> ({X}, {X}) {{{{
  %x0 = mesh.collective_permute %x {{{{cluster = @first}}}} : {X} -> {X}
  %y0 = mesh.collective_permute %y {{{{cluster = @second}}}} : {X} -> {X}
  %known = stablehlo.tanh %x0 : {X}
  %zero = stablehlo.constant dense<0> : {I}
  %one = stablehlo.constant dense<1> : {I}
  %two = stablehlo.constant dense<2> : {I}
  %0:3 = stablehlo.while(%i = %zero, %a = %x0, %b = %y0) : {I}, {X}, {X}
  cond {{{{
    %p = stablehlo.compare LT, %i, %two, SIGNED : ({I}, {I}) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }}}} do {{{{
    %j = stablehlo.add %i, %one : {I}
    {{body}}
  }}}}
  return %0#1, %0#2 : {X}, {X}
}}}}"""
# The second stage updates its value before the first one does, and again after it.
UPDATED_TWICE = f"""
    %b1 = stablehlo.dynamic_update_slice %b, %row, %zero : ({X}, {ONE}, {I}) -> {X}
    %sent = mesh.collective_permute %row {{cluster = @first}} : {ONE} -> {ONE}
    %a1 = stablehlo.dynamic_update_slice %a, %sent, %one : ({X}, {ONE}, {I}) -> {X}
    %last = stablehlo.slice %a1 [3:4] : ({X}) -> {ONE}
    %back = mesh.collective_permute %last {{cluster = @second}} : {ONE} -> {ONE}
    %b2 = stablehlo.dynamic_update_slice %b1, %back, %two : ({X}, {ONE}, {I}) -> {X}
    stablehlo.return %j, %a1, %b2 : {I}, {X}, {X}"""
ROW = f"""
    %part = stablehlo.slice %b [1:2] : ({X}) -> {ONE}
    %row = stablehlo.tanh %part : {ONE}"""


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize(
    "body",
    [
        f"stablehlo.return %j, %known, %b : {I}, {X}, {X}",
        f"%made = stablehlo.tanh %b : {X}\n    stablehlo.return %j, %a, %made : {I}, {X}, {X}",
        ROW + UPDATED_TWICE,
    ],
    ids=["replaced beside kept", "kept beside made anew", "updated twice"],
)
@needs("jax")
def test_each_stage_has_what_it_makes(body: str) -> None:
    text = LOOP.format(body=body)
    outcome = run_and_check(text, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, str(outcome.verdict)
