"""The hosts of a job meet at an exchange, so that a failure on one of them ends all.

    host of rank 0               another host
    watch 0: exchange <--------- hub              each host has a hub (`jobs.py`), which connects
       ^---- hub                                  to the exchange in the watch of rank 0

The first hub that has a failure tells the exchange, which tells all. The exchange invites the hubs:
where it listens, and a token that each must know (`hosts.py`). torchrun's store takes the
invitation before the ranks import anything (`hosts.py`); else they share it once they have
joined each other. So a stranger needs what a stranger to the ranks themselves would need.

A hub that cannot reach the exchange is alone, and its launcher ends its host, or does not.

The hosts of a job are connected by TCP. Both ends prove that they belong to it:

    exchange                                   hub
    a random number  ------------------------->
                     <-------------------------  another, a proof that it knows the token, its name
    a proof that it knows the token  --------->

The token is a secret of the job that never goes over this connection, and is another for each run.
What follows are lines of two fields.

`TorchStore` is the key-value store of a torchrun job, in which hosts leave invitations before
anybody imports torch.

torchrun starts the store at `MASTER_ADDR:MASTER_PORT`, for its ranks to find each other. This is a
client for two of its requests, in the bytes of torch's `TCPStoreBackend.cpp`. The store's clients
and server are of one machine kind, and send numbers in its own order.

    SET    01 key value          nothing
    GET    03 key                value, after CHECK has said that it is there
    CHECK  05 1:u64 key          00 if it is there

Texts are their length as u64, and then their bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from secrets import token_hex

from shard_dialect.processes.launchers import Rank
from shard_dialect.processes.to_parent import heard

TALK = 5.0
"""The seconds that each step of an introduction, and sending a message, may take."""
_MOST, _LONGEST_LINE = 5_000, 60_000
"""The largest number of characters of a text, and of bytes of a line, where they are escaped."""
_KEEP_ALIVE = {"TCP_KEEPIDLE": 3, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 6000}
"""With these a host that vanishes is noticed after six seconds."""


class HostLink:
    """One end of a connection. `name` is what its other end calls itself."""

    def __init__(self, link: socket.socket, name: str = "") -> None:
        self.socket = link
        self.name = name
        self._rest = b""
        link.settimeout(TALK)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEP_ALIVE.items():
            if hasattr(socket, option):
                link.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def tell(self, kind: str, text: str = "") -> None:
        """Send a line, unless the peer has disconnected, which the reader will notice."""
        fields = (each.encode("unicode_escape") for each in (kind, text[:_MOST]))
        with suppress(OSError):
            self.socket.sendall(b"\t".join(fields) + b"\n")

    def hear(self) -> list[tuple[str, str]] | None:
        """The lines that have arrived, once there is something to read; `None` after the end.

        Raises `OSError` if the peer's machine no longer answers.
        """
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not data or len(self._rest) > _LONGEST_LINE:
            return None
        return [heard(line) for line in lines]

    def close(self) -> None:
        """Disconnect."""
        self.socket.close()


def admit(link: socket.socket, token: str) -> HostLink | None:
    """At the exchange: introduce both ends; `None` if the other does not know the token."""
    link.settimeout(TALK)
    with suppress(OSError, ValueError):
        own = secrets.token_hex(16)
        _send(link, own)
        theirs, proof, name = _line(link).split(" ", 2)
        if hmac.compare_digest(proof.encode(), _proof(token, "hub", own, theirs, name).encode()):
            _send(link, _proof(token, "exchange", theirs, own, name))
            return HostLink(link, name)
    link.close()
    return None


def enter(link: socket.socket, token: str, name: str) -> HostLink | None:
    """At a hub, called `name`: introduce both ends; `None` if the other does not know the token."""
    link.settimeout(TALK)
    with suppress(OSError, ValueError):
        theirs, own = _line(link), secrets.token_hex(16)
        _send(link, f"{own} {_proof(token, 'hub', theirs, own, name)} {name}")
        proof = _proof(token, "exchange", own, theirs, name)
        if hmac.compare_digest(_line(link).encode(), proof.encode()):
            return HostLink(link)
    link.close()
    return None


def _proof(token: str, *what: str) -> str:
    return hmac.new(token.encode(), "\n".join(what).encode(), hashlib.sha256).hexdigest()


def _send(link: socket.socket, line: str) -> None:
    link.sendall(line.encode() + b"\n")


def _line(link: socket.socket) -> str:
    """The next line, and nothing of what follows it, if all of it comes soon."""
    data, deadline = b"", time.monotonic() + TALK
    while not data.endswith(b"\n"):
        link.settimeout(max(0.01, deadline - time.monotonic()))
        part = link.recv(1)
        if not part or len(data) > 512:
            raise OSError("no introduction")
        data += part
    return data[:-1].decode()


_VALIDATE, _SET, _GET, _CHECK = 0, 1, 3, 5
_MAGIC = 0x3C85F7CE
_TALK = 5.0
"""The seconds that a request may take."""
_LONGEST_WAIT = 4096
"""The largest number of bytes of a value."""


class TorchStore:
    """A connection to the store at `address`, `host:port`. Raises `OSError`, as its methods do."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._link = socket.create_connection((host, int(port)), timeout=_TALK)
        self._link.sendall(struct.pack("=BI", _VALIDATE, _MAGIC))

    @property
    def own_address(self) -> str:
        """The address of this machine, as the store sees it."""
        return str(self._link.getsockname()[0])

    def set(self, key: str, value: str) -> None:
        """Set the value of a key."""
        self._link.sendall(bytes([_SET]) + _text(key) + _text(value))
        self.get(key)  # the answer shows that the store has it

    def get(self, key: str) -> str | None:
        """The value of a key; `None` if it has none."""
        self._link.sendall(bytes([_CHECK]) + struct.pack("=Q", 1) + _text(key))
        if self._read(1) != b"\0":
            return None
        self._link.sendall(bytes([_GET]) + _text(key))
        (length,) = struct.unpack("=Q", self._read(8))
        if length > _LONGEST_WAIT:
            raise OSError(f"a value of {length} bytes, expected at most {_LONGEST_WAIT}")
        return self._read(length).decode(errors="replace")

    def close(self) -> None:
        """Disconnect."""
        self._link.close()

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self._link.recv(length - len(data))
            if not part:
                raise OSError("the store has disconnected")
            data += part
        return data


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("=Q", len(data)) + data


FAILED, SAY, END, DONE, OVER = "failed", "say", "end", "done", "over"
"""A hub tells of a failure, or that its ranks are done; the exchange answers the hub whose failure
was the first that it is to say it, and the others that they end; or tells all that it leaves."""
_FIND = 60.0
"""The seconds in which the invitation is expected in the store."""
_GOODBYE = 2.0
_STRANGERS = 64
"""The most connections that are being introduced at once."""
_SIOCGIFADDR = 0x8915


@dataclass(frozen=True, slots=True)
class Invitation:
    """Where the exchange listens, and the token.

    >>> str(Invitation("c0ffee", 4000, ("10.0.0.1",)))
    'c0ffee 4000 10.0.0.1'
    >>> Invitation.read("c0ffee 4000 10.0.0.1").addresses
    ('10.0.0.1',)
    """

    token: str
    port: int
    addresses: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.token, str(self.port), *self.addresses))

    @classmethod
    def read(cls, text: str) -> Invitation:
        """From its text; raises `ValueError` for another text."""
        token, port, *addresses = text.split()
        return cls(token, int(port), tuple(addresses))


class Door:
    """The listener of the exchange, made before the watch forks, so that the rank can invite."""

    def __init__(self) -> None:
        self.listener = _listener()
        port = self.listener.getsockname()[1]
        self.invitation = Invitation(token_hex(32), port, tuple(_own_addresses()))

    def close(self) -> None:
        """Close it in a process that is not to listen."""
        self.listener.close()


def _listener() -> socket.socket:
    """Listen on all networks."""
    if socket.has_dualstack_ipv6():
        with suppress(OSError):  # the system has no address of that kind
            return socket.create_server(
                ("", 0), family=socket.AF_INET6, backlog=_STRANGERS, dualstack_ipv6=True
            )
    return socket.create_server(("", 0), backlog=_STRANGERS)


class _Arrivals:
    """Connections that threads have made, handed to the thread of `selector`."""

    def __init__(
        self, selector: selectors.BaseSelector, receive: Callable[[HostLink], None]
    ) -> None:
        woken, self._wake = os.pipe()
        self._links: deque[HostLink] = deque()

        def hand_over() -> None:
            os.read(woken, 1)
            receive(self._links.popleft())

        selector.register(woken, selectors.EVENT_READ, hand_over)

    def add(self, link: HostLink) -> None:
        self._links.append(link)
        os.write(self._wake, b"+")


class Exchange:
    """In the watch of rank 0: passes the first failure of a hub to all the others."""

    def __init__(self, selector: selectors.BaseSelector, door: Door, rank: Rank) -> None:
        self._selector = selector
        self._rank = rank
        self._ranks_met = 0
        self._links: list[HostLink] = []
        self._done: list[HostLink] = []
        self._failure: tuple[float, str] | None = None
        self._token = door.invitation.token
        self._arrivals = _Arrivals(selector, self._add)
        self._free = threading.Semaphore(_STRANGERS)
        _in_thread(lambda: self._listen(door.listener))
        if rank.store:
            _in_thread(lambda: _publish(door.invitation, rank))

    @property
    def is_over(self) -> bool:
        """Whether all hubs have left, or need not be waited for; those on their way hear an end."""
        if self._failure is None:
            return not self._links
        is_late = time.monotonic() - self._failure[0] > _GOODBYE
        return is_late or (not self._links and self._ranks_met >= self._rank.size)

    def leave(self) -> None:
        """Tell hubs that have come late that there is nobody to wait for."""
        for link in self._links:
            link.tell(OVER)

    def fail(self, text: str) -> None:
        """End all hosts, unless they end already."""
        self._fail(text, None)

    def _listen(self, listener: socket.socket) -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            self._free.acquire()
            _in_thread(partial(self._introduce, link))

    def _introduce(self, link: socket.socket) -> None:
        try:
            if admitted := admit(link, self._token):
                self._arrivals.add(admitted)
        finally:
            self._free.release()

    def _add(self, link: HostLink) -> None:
        self._links.append(link)
        self._ranks_met += int(link.name.partition(" ")[2])
        self._selector.register(link.socket, selectors.EVENT_READ, lambda: self._hear(link))
        if self._failure:
            link.tell(END, self._failure[1])

    def _hear(self, link: HostLink) -> None:
        try:
            lines = link.hear()
        except OSError:
            lines = None
            self._fail(f"error: the host of rank {link.name.split()[0]} does not answer", link)
        for kind, text in lines or ():
            if kind == FAILED:
                self._fail(text, link)
            elif kind == DONE:
                self._done.append(link)
        if lines is None:
            self._links.remove(link)
            self._selector.unregister(link.socket)
            link.close()
            if link not in self._done:
                self._fail(f"error: rank {link.name.split()[0]} was killed", link)

    def _fail(self, text: str, reporter: HostLink | None) -> None:
        if self._failure is None:
            self._failure = (time.monotonic(), text)
            for link in self._links:
                link.tell(SAY if link is reporter else END, text)


def seek(
    selector: selectors.BaseSelector, rank: Rank, found: Callable[[HostLink], None]
) -> Callable[[str], None]:
    """Let a hub look for the exchange; `found` gets the connection, in the selector's thread.

    Returns a function that takes the text of an invitation, for ranks whose launcher has no store.
    """
    arrivals = _Arrivals(selector, found)

    def accept(text: str) -> None:
        with suppress(ValueError):
            invitation = Invitation.read(text)
            master = rank.store.rpartition(":")[0]
            for address in dict.fromkeys([*invitation.addresses, *filter(None, [master])]):
                if link := _call(address, invitation, f"{rank.number} {rank.here}"):
                    arrivals.add(link)
                    return

    def accept_from_store() -> None:
        if text := _published(rank):
            accept(text)

    if rank.store:
        _in_thread(accept_from_store)
    return lambda text: _in_thread(lambda: accept(text))


def _call(address: str, invitation: Invitation, name: str) -> HostLink | None:
    with suppress(OSError):
        link = socket.create_connection((address, invitation.port), timeout=TALK / 2)
        return enter(link, invitation.token, name)
    return None


def _key(rank: Rank) -> str:
    return f"shard_dialect/hosts/{rank.job}"


def _publish(invitation: Invitation, rank: Rank) -> None:
    def put(store: TorchStore) -> str:
        own = store.own_address
        addresses = dict.fromkeys([own, *invitation.addresses])
        store.set(_key(rank), str(Invitation(invitation.token, invitation.port, tuple(addresses))))
        return own

    _until(put, rank.store)


def _published(rank: Rank) -> str | None:
    return _until(lambda store: store.get(_key(rank)), rank.store)


def _until(ask: Callable[[TorchStore], str | None], address: str) -> str | None:
    """Ask the store until it answers; it may not be there yet."""
    deadline = time.monotonic() + _FIND
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError):
            store = TorchStore(address)
            try:
                while time.monotonic() < deadline:
                    if answer := ask(store):
                        return answer
                    time.sleep(0.1)
            finally:
                store.close()
        time.sleep(0.3)
    return None


def _own_addresses() -> list[str]:
    """The addresses of this machine's interfaces, those that only itself can use last."""
    found = []
    with suppress(OSError, ImportError):
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            for _, name in socket.if_nameindex():
                with suppress(OSError):  # it has no address
                    request = struct.pack("256s", name.encode()[:15])
                    answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, request)
                    found.append(socket.inet_ntoa(answer[20:24]))
    return sorted(found, key=lambda address: address.startswith("127."))


def _in_thread(work: Callable[[], object]) -> None:
    threading.Thread(target=work, daemon=True).start()
