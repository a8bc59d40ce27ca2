"""Report a failure when it happens: compiled code runs on to its end, while other ranks wait."""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.abi.lowered_program import Site
from shard_dialect.abi.tensor_types import Array
from shard_dialect.runtime.executable import Communicator


class AnnouncingCommunicator:
    """A communicator that passes its exceptions to `tell` before it raises them."""

    def __init__(self, inner: Communicator, tell: Callable[[BaseException], None]) -> None:
        self.rank = inner.rank
        self._inner = inner
        self._tell = tell

    def perform(self, site: Site, source: Array, target: Array) -> None:
        """As `Communicator.perform`."""
        self.call(self._inner.perform, site, source, target)

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """As `CallingCommunicator.call`."""
        try:
            function(*arguments)
        except BaseException as error:
            self._tell(error)
            raise
