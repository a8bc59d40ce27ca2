"""TCP connections between the hosts of a job. Both ends prove that they belong to it.

    exchange                                   hub
    a random number  ------------------------->
                     <-------------------------  another, a proof that it knows the token, its name
    a proof that it knows the token  --------->

The token is a secret of the job that never goes over this connection, and is another for each run.
What follows are lines of two fields.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import time
from contextlib import suppress

from shard_dialect.processes.supervise import heard

TALK = 5.0
"""The seconds that each step of an introduction, and sending a message, may take."""
_MOST, _LONGEST = 5_000, 60_000
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
        if not data or len(self._rest) > _LONGEST:
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
