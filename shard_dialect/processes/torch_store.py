"""The key-value store of a torchrun job, in which hosts leave word before anybody imports torch.

torchrun starts the store at `MASTER_ADDR:MASTER_PORT`, for its ranks to find each other. This is a
client for two of its requests, in the bytes of torch's `TCPStoreBackend.cpp`. The store's clients
and server are of one machine kind, and send numbers in its own order.

    SET    01 key value          nothing
    GET    03 key                value, after CHECK has said that it is there
    CHECK  05 1:u64 key          00 if it is there

Texts are their length as u64, and then their bytes.
"""

from __future__ import annotations

import socket
import struct

_VALIDATE, _SET, _GET, _CHECK = 0, 1, 3, 5
_MAGIC = 0x3C85F7CE
_TALK = 5.0
"""The seconds that a request may take."""
_LONGEST = 4096
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
        if length > _LONGEST:
            raise OSError(f"a value of {length} bytes, expected at most {_LONGEST}")
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
