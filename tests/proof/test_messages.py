"""Messages of the local form: what is received is what was sent before it."""

import pytest

from tests.proof.test_prove import proof

ROTATED = """
func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> {
  %0 = stablehlo.slice %x [4:6] : (tensor<6xf32>) -> tensor<2xf32>
  %1 = stablehlo.slice %x [0:4] : (tensor<6xf32>) -> tensor<4xf32>
  %2 = stablehlo.concatenate %0, %1, dim = 0
    : (tensor<2xf32>, tensor<4xf32>) -> tensor<6xf32>
  return %2 : tensor<6xf32>
}
"""
SEND = """%4 = shard.send %x on @g grid_axes = [0] destination = [%next]
    : (tensor<2xf32>, index) -> tensor<2xf32>"""
RECV = """%5 = shard.recv %x on @g grid_axes = [0] source = [%last]
    : (tensor<2xf32>, index) -> tensor<2xf32>"""
SHARD = "#mesh.shard<@g, [[0]]>"
LOCAL = f"""
shard.grid @g(shape = 3)
func.func @main(%x: tensor<2xf32> {{mesh.argument = tensor<6xf32, {SHARD}>}})
    -> (tensor<2xf32> {{mesh.result = tensor<6xf32, {SHARD}>}})
    attributes {{mesh.form = "local"}} {{
  %own = shard.process_multi_index on @g axes = [0] : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %0 = arith.addi %own, %c1 : index
  %next = arith.remui %0, %c3 : index
  %1 = arith.addi %own, %c2 : index
  %last = arith.remui %1, %c3 : index
  SEND
  RECV
  return %5 : tensor<2xf32>
}}
"""


@pytest.mark.parametrize(
    ("sent", "received", "answer", "said"),
    [
        (SEND, RECV, "proven", ""),
        (SEND.replace("%next", "%last"), RECV.replace("%last", "%next"), "refuted", ""),
        (SEND, RECV.replace("%last", "%next"), "unknown", "what no device has sent before it"),
        (RECV, SEND, "unknown", "what no device has sent before it"),
        (SEND, RECV.replace(" source = [%last]", "").replace(", index", ""), "unknown", "any"),
        (SEND, RECV.replace("%x", "%4").replace("%last", "%c3"), "unknown", "not in the group"),
        (
            f"%6 = stablehlo.sine %x : tensor<2xf32>\n{SEND}\n"
            + SEND.replace("%4", "%7").replace("%x", "%6"),
            RECV + "\n" + RECV.replace("%5", "%8"),
            "proven",
            "",
        ),
        (
            f"%6 = stablehlo.sine %x : tensor<2xf32>\n{SEND}\n"
            + SEND.replace("%4", "%7").replace("%x", "%6"),
            RECV.replace("%5", "%8") + "\n" + RECV,
            "refuted",
            "",
        ),
    ],
)
def test_they_come_in_order(sent: str, received: str, answer: str, said: str) -> None:
    found = proof(ROTATED, LOCAL.replace("SEND", sent).replace("RECV", received))
    assert found.answer == answer, found
    assert said in str(found)


MOVED = """
func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> {
  %0 = stablehlo.slice %x [0:2] : (tensor<6xf32>) -> tensor<2xf32>
  %1 = stablehlo.slice %x [0:4] : (tensor<6xf32>) -> tensor<4xf32>
  %2 = stablehlo.concatenate %1, %0, dim = 0
    : (tensor<4xf32>, tensor<2xf32>) -> tensor<6xf32>
  return %2 : tensor<6xf32>
}
"""


def test_branches_send_and_receive() -> None:
    sent = SEND.replace("destination = [%next]", "destination = [2]").replace(", index", "")
    received = RECV.replace("source = [%last]", "source = [0]").replace(", index", "")
    branches = f"""
      %c0 = arith.constant 0 : index
      %first = arith.cmpi eq, %own, %c0 : index
      scf.if %first {{
        {sent}
      }}
      %end = arith.cmpi eq, %own, %c2 : index
      %5 = scf.if %end -> tensor<2xf32> {{
        {received.replace("%5", "%6")}
        scf.yield %6 : tensor<2xf32>
      }} else {{
        scf.yield %x : tensor<2xf32>
      }}
    """
    local = LOCAL.replace("SEND", branches).replace("RECV", "")
    assert proof(MOVED, local).answer == "proven"
    assert proof(MOVED, local.replace("[0:2]", "[2:4]")).answer == "proven"
    assert proof(MOVED.replace("[0:2]", "[2:4]"), local).answer == "refuted"
