"""What is live when, counted by hand."""

from shard_dialect.analysis.costs.memory import Memory, memory_of
from tests.analysis.local_programs import EXAMPLES, local

HEAD = "shard.grid @g(shape = 2)\n"


def memory(text: str) -> Memory:
    return memory_of(local(HEAD + text))


def test_mlp_1d() -> None:
    """The peak is where the relu has its operand and its result, 8x16 numbers each."""
    found = memory_of(local(EXAMPLES / "mlp_1d.mlir"))
    arguments = 4 * (8 * 4 + 8 * 16 + 16 * 8)
    assert found.arguments == arguments
    assert found.results == 4 * 8 * 4
    assert found.temporaries == 2 * 4 * 8 * 16
    assert found.peak == arguments + 2 * 4 * 8 * 16
    assert [(live.name, live.kind, live.bytes) for live in found.live_at_peak] == [
        ("%arg1", "argument", 512),
        ("%arg2", "argument", 512),
        ("%2", "temporary", 512),
        ("%3", "temporary", 512),
        ("%arg0", "argument", 128),
    ]
    assert [moment.temporaries for moment in found.timeline] == [
        0,
        256,  # the gathered x
        256 + 512,  # and the zeros of h
        256 + 512,  # into which the product writes
        512,  # the constant of the relu takes nothing
        1024,  # h and relu(h)
        512 + 256,  # relu(h) and the zeros of y
        512 + 256,
        256,  # y; its scattered part is a result
        0,
    ]


def test_mlp_2d() -> None:
    """The first peak: the gathered x, 8x4 numbers, and h, 8x8; then h and its scattered sum."""
    found = memory_of(local(EXAMPLES / "mlp_2d.mlir"))
    assert found.arguments == 4 * (8 * 1 + 4 * 8 + 8 * 4)
    assert found.results == 4 * 8
    assert found.temporaries == 4 * (8 * 4 + 8 * 8)
    assert found.peak == found.arguments + found.temporaries


def test_a_value_dies_at_its_last_use() -> None:
    text = """
    func.func @main(%x: tensor<256xf32>) -> tensor<256xf32> {
      %a = stablehlo.tanh %x : tensor<256xf32>
      %b = stablehlo.exponential %a : tensor<256xf32>
      %c = stablehlo.add %b, %x : tensor<256xf32>
      %d = stablehlo.add %c, %c : tensor<256xf32>
      return %d : tensor<256xf32>
    }
    """
    found = memory(text)
    assert (found.peak, found.temporaries, found.results) == (3 * 1024, 2 * 1024, 1024)


def test_views_and_splats_take_no_memory() -> None:
    text = """
    func.func @main(%x: tensor<16x16xf32>) -> tensor<256xf32> {
      %one = stablehlo.constant dense<1.0> : tensor<16x16xf32>
      %a = stablehlo.add %x, %one : tensor<16x16xf32>
      %b = stablehlo.reshape %a : (tensor<16x16xf32>) -> tensor<256xf32>
      return %b : tensor<256xf32>
    }
    """
    found = memory(text)
    assert (found.peak, found.temporaries, found.results) == (2 * 1024, 0, 1024)


def test_constants_are_there_all_the_time() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %c = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
      %a = stablehlo.add %x, %c : tensor<4xf32>
      return %a : tensor<4xf32>
    }
    """
    found = memory(text)
    assert (found.constants, found.peak) == (16, 3 * 16)


def test_updates_are_in_place_where_nothing_reads_the_operand_later() -> None:
    text = """
    func.func @main(%x: tensor<256xf32>, %u: tensor<4xf32>) -> tensor<256xf32> {
      %at = stablehlo.constant dense<0> : tensor<i32>
      %a = stablehlo.tanh %x : tensor<256xf32>
      %b = stablehlo.dynamic_update_slice %a, %u, %at
          : (tensor<256xf32>, tensor<4xf32>, tensor<i32>) -> tensor<256xf32>
      USE
    }
    """
    once = memory(text.replace("USE", "return %b : tensor<256xf32>"))
    assert once.peak == 16 + 2 * 1024
    again = "%c = stablehlo.add %a, %b : tensor<256xf32>\n return %c : tensor<256xf32>"
    assert memory(text.replace("USE", again)).peak == 16 + 4 * 1024


def test_arguments_are_not_overwritten_unless_donated() -> None:
    text = """
    func.func @main(%x: tensor<256xf32> ATTRIBUTES, %u: tensor<4xf32>) -> tensor<256xf32> {
      %at = stablehlo.constant dense<0> : tensor<i32>
      %b = stablehlo.dynamic_update_slice %x, %u, %at
          : (tensor<256xf32>, tensor<4xf32>, tensor<i32>) -> tensor<256xf32>
      return %b : tensor<256xf32>
    }
    """
    kept = memory(text.replace("ATTRIBUTES", ""))
    assert (kept.peak, kept.donated) == (16 + 2 * 1024, 0)
    for attributes in ("{tf.aliasing_output = 0 : i32}", "{jax.buffer_donor = true}"):
        donated = memory(text.replace("ATTRIBUTES", attributes))
        assert (donated.peak, donated.donated, donated.results) == (16 + 1024, 1024, 1024)


def test_a_donated_argument_that_is_read_later_is_no_place_for_the_result_yet() -> None:
    text = """
    func.func @main(%x: tensor<256xf32> {tf.aliasing_output = 0 : i32}) -> tensor<256xf32> {
      %a = stablehlo.tanh %x : tensor<256xf32>
      %b = stablehlo.add %a, %x : tensor<256xf32>
      return %b : tensor<256xf32>
    }
    """
    found = memory(text)
    assert (found.peak, found.temporaries, found.donated) == (3 * 1024, 2 * 1024, 1024)


def test_an_argument_that_is_returned_is_copied() -> None:
    text = """
    func.func @main(%x: tensor<256xf32>) -> (tensor<256xf32>, tensor<256xf32>) {
      return %x, %x : tensor<256xf32>, tensor<256xf32>
    }
    """
    found = memory(text)
    assert (found.peak, found.results) == (3 * 1024, 2 * 1024)


WHILE = """
func.func @main(%x: tensor<256xf32>) -> tensor<256xf32> {
  %low = arith.constant 0 : index
  %one = arith.constant 1 : index
  %high = arith.constant 8 : index
  %y = stablehlo.tanh %x : tensor<256xf32>
  %r = scf.for %i = %low to %high step %one iter_args(%s = %y) -> tensor<256xf32> {
    %a = stablehlo.exponential %s : tensor<256xf32>
    BODY
  }
  return %r : tensor<256xf32>
}
"""


def test_the_state_of_a_loop_is_stored_once() -> None:
    """Of a and s one is read by the last op: it goes where s was if s is not read any more."""
    late = "%b = stablehlo.add %a, %a : tensor<256xf32>\n scf.yield %b : tensor<256xf32>"
    assert memory(WHILE.replace("BODY", late)).peak == 3 * 1024
    both = "%b = stablehlo.add %a, %s : tensor<256xf32>\n scf.yield %b : tensor<256xf32>"
    assert memory(WHILE.replace("BODY", both)).peak == 4 * 1024


def test_what_a_loop_reads_is_kept_until_its_end() -> None:
    """z is read first in the body, and again in each iteration: it is live with a, b and s."""
    text = WHILE.replace("%y =", "%z = stablehlo.cosine %x : tensor<256xf32>\n  %y =")
    body = """%b = stablehlo.add %a, %z : tensor<256xf32>
    %c = stablehlo.add %b, %b : tensor<256xf32>
    scf.yield %c : tensor<256xf32>"""
    assert memory(text.replace("BODY", body)).peak == 5 * 1024


def test_branches_share_their_memory() -> None:
    text = """
    func.func @main(%x: tensor<256xf32>, %p: tensor<i1>) -> tensor<256xf32> {
      %r = "stablehlo.if"(%p) ({
        %a = stablehlo.tanh %x : tensor<256xf32>
        %b = stablehlo.add %a, %x : tensor<256xf32>
        stablehlo.return %b : tensor<256xf32>
      }, {
        %a = stablehlo.cosine %x : tensor<256xf32>
        %b = stablehlo.add %a, %x : tensor<256xf32>
        stablehlo.return %b : tensor<256xf32>
      }) : (tensor<i1>) -> tensor<256xf32>
      return %r : tensor<256xf32>
    }
    """
    found = memory(text)
    assert (found.peak, found.temporaries) == (1 + 3 * 1024, 1024)


def test_calls_have_their_own_values() -> None:
    text = """
    func.func private @f(%x: tensor<256xf32>) -> tensor<256xf32> {
      %a = stablehlo.tanh %x : tensor<256xf32>
      %b = stablehlo.add %a, %x : tensor<256xf32>
      return %b : tensor<256xf32>
    }
    func.func @main(%x: tensor<256xf32>) -> tensor<256xf32> {
      %y = func.call @f(%x) : (tensor<256xf32>) -> tensor<256xf32>
      %z = func.call @f(%y) : (tensor<256xf32>) -> tensor<256xf32>
      return %z : tensor<256xf32>
    }
    """
    found = memory(text)
    assert (found.peak, found.temporaries) == (4 * 1024, 2 * 1024)
