"""What devices in one process send each other; tests/runtime/collective_cases.py is about all."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.communicators.mailbox import Mailbox
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.compile import compile_sharded
from tests.conftest import Program

PROGRAM = """
shard.grid @g(shape = 3)
!t = tensor<1xindex>
func.func @main() -> (!t, !t) attributes {{mesh.form = "local"}} {{
  %rank = shard.process_linear_index on @g : index
  %ten = arith.constant 10 : index
  %mine = arith.muli %rank, %ten : index
  %x = tensor.from_elements %mine : !t
  %zero = arith.constant 0 : index
  %first = arith.cmpi eq, %rank, %zero : index
  %a, %b = scf.if %first -> (!t, !t) {{
    {first}
  }} else {{
    {others}
  }}
  return %a, %b : !t, !t
}}
"""
SEND = "%s{} = shard.send {} on @g grid_axes = [0] destination = [{}] : (!t) -> !t"
RECEIVE = "%r{} = shard.recv %x on @g grid_axes = [0] {}: (!t) -> !t"
SUM = "%all = shard.all_reduce %x on @g grid_axes = [0] : !t -> !t"
AGAIN = SUM.replace("%all", "%again").replace("%x", "%all")
KEEP = "scf.yield %x, %x : !t, !t"
SUMMED, SUMMED_AGAIN = (KEEP.replace("%x", each) for each in ("%all", "%again"))
BOTH = "scf.yield %r0, %r1 : !t, !t"


def run(first: list[str], others: list[str]) -> list[list[int]]:
    """The results of each device."""
    text = PROGRAM.format(first="\n    ".join(first), others="\n    ".join(others))
    with make_context():
        executable = compile_sharded(Source.of(text))
    outputs = InProcess(3).run(executable, [()] * 3)
    return [[int(each[0]) for each in found] for found in outputs]


def test_a_receiver_takes_from_whom_it_names_and_else_from_anyone() -> None:
    send = SEND.format(0, "%x", 0)
    named = [RECEIVE.format(0, "source = [2] "), RECEIVE.format(1, "source = [1] "), BOTH]
    assert run(named, [send, KEEP]) == [[20, 10], [10, 10], [20, 20]]
    anyone = [RECEIVE.format(0, ""), RECEIVE.format(1, ""), BOTH]
    found = run(anyone, [send, KEEP])
    assert sorted(found[0]) == [10, 20]


def test_messages_arrive_in_order_and_wait_for_nobody() -> None:
    double = "%y = arith.addi %x, %x : !t"
    sends = [SEND.format(0, "%x", 0), double, SEND.format(1, "%y", 0)]
    takes = [RECEIVE.format(0, "source = [0] "), RECEIVE.format(1, "source = [0] "), BOTH]
    itself = run([*sends, *takes], [*sends, KEEP])
    assert itself[0] == [0, 0]
    order = [RECEIVE.format(0, "source = [1] "), RECEIVE.format(1, "source = [1] "), BOTH]
    assert run(order, [*sends, KEEP])[0] == [10, 20]


@pytest.mark.parametrize(
    ("first", "others", "message"),
    [
        ([RECEIVE.format(0, "source = [1] "), KEEP], [KEEP], "device 0 waits for what device 1 "),
        ([RECEIVE.format(0, ""), KEEP], [SUM, KEEP], "device 0 waits for what any other device "),
        (
            [RECEIVE.format(0, "source = [2] "), SEND.format(0, "%x", 1), KEEP],
            [RECEIVE.format(0, "source = [0] "), SEND.format(0, "%x", 0), KEEP],
            "waits for what device ",
        ),
    ],
    ids=["it has ended", "it is at a meeting", "all wait"],
)
def test_who_waits_for_ever_says_so(first: list[str], others: list[str], message: str) -> None:
    with pytest.raises(ShardError, match="does not send: each device has ended, or waits too") as e:
        run(first, others)
    assert message in e.value.message


@pytest.mark.parametrize(
    ("first", "others", "message"),
    [
        ([SUM, SUMMED], [KEEP], "device 0 waits at a collective of devices 0, 1, 2 for devices 1"),
        ([KEEP], [SUM, SUMMED], "device 1 waits at a collective of devices 0, 1, 2 for device 0: "),
        ([SUM, AGAIN, SUMMED_AGAIN], [SUM, SUMMED], "device 0 waits at a collective of devices 0"),
    ],
    ids=["one alone", "all but one", "once more than the others"],
)
def test_a_collective_that_not_all_reach(first: list[str], others: list[str], message: str) -> None:
    with pytest.raises(ShardError, match="all devices of a group must reach each of its") as error:
        run(first, others)
    assert message in error.value.message


def test_devices_at_other_collectives() -> None:
    largest = SUM.replace(": !t", "reduction = max : !t")
    with pytest.raises(ShardError, match="'all_reduce' is reached while other devices") as error:
        run([SUM, SUMMED], [largest, SUMMED])
    assert error.value.location


def test_who_has_a_message_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that gets no time for a while, as on a busy machine, has not ended."""
    post, array = Mailbox(2), np.ones(1)
    wait, answers = post._changed.wait, threading.Event()

    def wait_long(timeout: float | None = None) -> bool:
        woken = wait(timeout)
        if threading.current_thread() is thread and not answers.is_set():
            answers.set()
            post._changed.release()
            time.sleep(3)
            post._changed.acquire()
        return woken

    def answer() -> None:
        post.send((0, 1), 1, 0, post.receive((0, 1), 1, 0))

    thread = threading.Thread(target=answer, daemon=True)
    monkeypatch.setattr(post._changed, "wait", wait_long)
    thread.start()
    answers.wait()
    post.send((0, 1), 0, 1, array)
    assert post.receive((0, 1), 0, 1) is array


def test_what_is_sent_is_what_is_received() -> None:
    wide = "%w = tensor.concat dim(0) %x, %x : (!t, !t) -> tensor<2xindex>"
    send = SEND.format(0, "%w", 0).replace("!t", "tensor<2xindex>")
    with pytest.raises(
        ShardError, match=r"receives an array of shape \(1,\) of int64, and was sent"
    ):
        run([RECEIVE.format(0, "source = [1] "), KEEP], [wide, send, KEEP])


ROOT = """
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {{mesh.form = "local"}} {{
  %two = arith.constant 2 : index
  %rank = shard.process_linear_index on @g : index
  %root = arith.{} %rank, %two : index
  %0 = shard.broadcast %x on @g grid_axes = [0] root = [%root]
      : (tensor<4xf32>, index) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}}
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("remui", ""),
        ("divui", "names another root on other devices of its group: expected one for all"),
        ("addi", "names no member of its group as its root: expected 0 to 1"),
    ],
)
def test_devices_that_name_other_roots_are_found(
    name: str, message: str, run: Program, tmp_path: Path
) -> None:
    file = tmp_path / "roots.mlir"
    file.write_text(ROOT.format(name))
    done = run(str(file))
    assert done.returncode == bool(message), done.stderr
    # The compiled program itself says it, on standard output.
    assert f"{file}:7:8: error: 'shard.broadcast' op {message}" in done.stdout or not message


def test_a_message_that_is_sent_while_its_receiver_looks_for_it_arrives() -> None:
    """Anything may run while a box is made: the search for garbage lets threads take turns."""
    mailbox, message = Mailbox(2), np.arange(3)
    boxes = mailbox._messages
    make = boxes.default_factory
    assert make is not None

    def slowly() -> object:
        time.sleep(0.05)
        return make()

    def send() -> None:
        mailbox.send((0, 1), 0, 1, message)
        mailbox.leave(0)  # so that what is lost is an error

    boxes.default_factory = slowly  # type: ignore[assignment]
    sender = threading.Thread(target=send)
    sender.start()
    assert mailbox.receive((0, 1), 1, 0) is message
    sender.join()
