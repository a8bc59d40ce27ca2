"""The exchange of several hosts: who may join it, and what it passes on."""

import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from shard_dialect.processes import hosts
from shard_dialect.processes.hosts import (
    Door,
    Exchange,
    HostLink,
    Invitation,
    TorchStore,
    enter,
    seek,
)
from shard_dialect.processes.launchers import MPICH, OPEN_MPI, SLURM, Rank, launched_by
from tests.extras import needs

Find = Callable[[str, Rank], HostLink]
RANK = Rank(0, 4, here=2, job="test")


@pytest.fixture
def selector() -> Iterator[selectors.BaseSelector]:
    """At the end, what is registered is closed."""
    with selectors.DefaultSelector() as made:
        yield made
        for key in made.get_map().values():
            os.close(key.fd) if isinstance(key.fileobj, int) else key.fileobj.close()


def attend(selector: selectors.BaseSelector, until: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not until():
        assert time.monotonic() < deadline
        for key, _ in selector.select(0.05):
            key.data()


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    yield made
    made.close()


@pytest.fixture
def exchange(selector: selectors.BaseSelector, door: Door) -> Exchange:
    return Exchange(selector, door, RANK)


def call(door: Door) -> socket.socket:
    return socket.create_connection(("127.0.0.1", door.invitation.port), timeout=5)


@pytest.fixture
def hub(selector: selectors.BaseSelector, exchange: Exchange) -> Iterator[Find]:
    """A connection of a hub that is invited with a text, or by its store."""
    made: list[HostLink] = []

    def find(invitation: str, rank: Rank) -> HostLink:
        before = len(made), exchange._ranks_met
        accept = seek(selector, rank, made.append)
        if invitation:
            accept(invitation)
        attend(selector, lambda: len(made) > before[0] and exchange._ranks_met > before[1])
        return made[-1]

    yield find
    for each in made:
        each.close()


def heard(link: HostLink) -> list[tuple[str, str]] | None:
    link.socket.settimeout(5)
    return link.hear()


def test_the_first_failure_reaches_all(
    selector: selectors.BaseSelector, door: Door, exchange: Exchange, hub: Find
) -> None:
    text = str(door.invitation)
    first, second = (hub(text, replace(RANK, number=n)) for n in (0, 2))
    second.tell(hosts.FAILED, "error: a\nb")
    attend(selector, lambda: exchange._failure)
    first.tell(hosts.FAILED, "error: another")
    assert heard(second) == [(hosts.SAY, "error: a\nb")]
    assert heard(first) == [(hosts.END, "error: a\nb")]
    for each in (first, second):
        each.close()
    attend(selector, lambda: exchange.is_over)
    assert heard_late(selector, door) == [(hosts.END, "error: a\nb")]


def heard_late(selector: selectors.BaseSelector, door: Door) -> list[tuple[str, str]] | None:
    link = enter(call(door), door.invitation.token, "3 1")
    assert link is not None
    for key, _ in selector.select(5):
        key.data()
    lines = heard(link)
    link.close()
    return lines


def test_a_hub_that_goes_is_a_failure_unless_it_is_done(
    selector: selectors.BaseSelector, door: Door, exchange: Exchange, hub: Find
) -> None:
    text = str(door.invitation)
    links = [hub(text, replace(RANK, number=n, here=1)) for n in range(3)]
    links[1].tell(hosts.DONE)
    links[1].close()
    attend(selector, lambda: len(exchange._links) == 2)
    assert exchange._failure is None
    links[2].close()
    attend(selector, lambda: exchange._failure)
    assert heard(links[0]) == [(hosts.END, "error: rank 2 was killed")]


def test_strangers_do_not_join(door: Door, exchange: Exchange, hub: Find) -> None:
    assert enter(call(door), "another token", "2 2") is None
    silent = [call(door) for _ in range(hosts._STRANGERS // 2)]
    with call(door) as rude:
        rude.sendall(b"x" * 10_000)
        hub(str(door.invitation), replace(RANK, number=2))
    assert len(exchange._links) == 1
    for each in silent:
        each.close()


def test_a_hub_does_not_trust_another_listener(door: Door) -> None:
    """Who listens in the exchange's place does not know the token, and is not told it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        link = socket.create_connection(listener.getsockname(), timeout=5)
        other, _ = listener.accept()
        with other:
            other.sendall(b"0" * 32 + b"\n" + b"1" * 64 + b"\n")
            assert enter(link, door.invitation.token, "2 2") is None
            assert door.invitation.token.encode() not in other.recv(10_000)


def test_no_exchange_no_harm(selector: selectors.BaseSelector) -> None:
    found: list[HostLink] = []
    accept = seek(selector, RANK, found.append)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    for text in ("", "what", "token port address", str(Invitation("token", port, ("127.0.0.1",)))):
        accept(text)
    time.sleep(0.5)
    assert not selector.select(0)
    assert not found


@needs("torch")
def test_the_store_is_that_of_torch() -> None:
    from torch.distributed import TCPStore

    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    address = f"127.0.0.1:{server.port}"
    first, second = TorchStore(address), TorchStore(address)
    assert first.get("key") is None
    first.set("key", "a value")
    assert second.get("key") == "a value"
    assert second.own_address == "127.0.0.1"
    for each in (first, second):
        each.close()


@needs("torch")
def test_hubs_find_the_exchange_by_the_store(selector: selectors.BaseSelector, door: Door) -> None:
    from torch.distributed import TCPStore

    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    rank = replace(RANK, store=f"127.0.0.1:{server.port}")
    exchange = Exchange(selector, door, rank)
    found: list[HostLink] = []
    seek(selector, replace(rank, number=2), found.append)
    attend(selector, lambda: found and exchange._ranks_met)
    found[0].close()
    del server


STEP = {
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "2",
    "SLURM_PROCID": "9",
    "SLURM_STEP_NUM_TASKS": "11",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2),3",
    "SLURM_NODEID": "2",
}


def test_steps_of_slurm() -> None:
    launchers = (OPEN_MPI, MPICH, SLURM)
    expected = Rank(9, 11, here=3, job="slurm/17.2")
    assert launched_by(launchers, STEP) == expected
    by_pmi = {"PMI_RANK": "9", "PMI_SIZE": "11"}
    assert launched_by(launchers, {**STEP, **by_pmi}) == expected
    started_in_a_step = {"PMI_RANK": "1", "PMI_SIZE": "2"}
    assert launched_by(launchers, {**STEP, **started_in_a_step}) == Rank(1, 2)
