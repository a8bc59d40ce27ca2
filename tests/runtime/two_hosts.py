"""Two hosts on one machine: network namespaces, which see each other by a pair of interfaces.

    host 0: 10.213.77.1 -- 10.213.77.2 :host 1

Both have this machine's files and users, and neither its network: nor its abstract sockets.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ADDRESSES = ("10.213.77.1", "10.213.77.2")
PORT = 29517
RANKS_EACH = 2

REACH = """#!/bin/sh
# Called as ssh is: options, an address, a command.
while [ "${{1#-}}" != "$1" ]; do shift; done
case $1 in
  {first}) host={names[0]} ;;
  *) host={names[1]} ;;
esac
shift
exec ip netns exec $host sh -c "$*"
"""


@cache
def can_have_hosts() -> bool:
    """Whether this user may make network namespaces."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"shard-try-{os.getpid()}"
    added = subprocess.run(["ip", "netns", "add", name], capture_output=True, timeout=30)
    if added.returncode:
        return False
    works = subprocess.run(
        ["ip", "-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1"],
        capture_output=True,
        timeout=30,
    )
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=30)
    return works.returncode == 0


needs_hosts = pytest.mark.skipif(
    not can_have_hosts(), reason="only root, with `ip`, has network namespaces"
)


@dataclass(frozen=True)
class TwoHosts:
    """The names of the namespaces, and a script that is to them what ssh is to hosts."""

    names: tuple[str, str]
    reach: Path

    def at(self, host: int, *command: str) -> list[str]:
        return ["ip", "netns", "exec", self.names[host], *command]

    def cut(self) -> None:
        """Disconnect the hosts."""
        _ip("-n", self.names[1], "link", "set", "veth0", "down")

    def mpiexec(self, *program: str) -> list[list[str]]:
        """The command, on host 0, which starts the ranks on both."""
        mpiexec = str(Path(sys.executable).parent / "mpiexec")
        hosts = ",".join(f"{address}:{RANKS_EACH}" for address in ADDRESSES)
        reached = ("-launcher", "ssh", "-launcher-exec", str(self.reach), "-iface", "veth0")
        ranks = ("-hosts", hosts, "-n", str(2 * RANKS_EACH))
        python = (sys.executable, *program, "--backend=mpi")
        return [self.at(0, mpiexec, *reached, *ranks, *python)]

    def torchrun(self, *program: str) -> list[list[str]]:
        """The command of each host."""
        torchrun = str(Path(sys.executable).parent / "torchrun")
        meeting = (f"--master-addr={ADDRESSES[0]}", f"--master-port={PORT}")
        ranks = ("--nnodes=2", f"--nproc-per-node={RANKS_EACH}")
        python = (*program, "--backend=torch")
        return [
            self.at(host, torchrun, *ranks, f"--node-rank={host}", *meeting, *python)
            for host in range(2)
        ]


@contextmanager
def two_hosts(folder: Path) -> Iterator[TwoHosts]:
    """Make the namespaces, and remove them at the end."""
    names = (f"shard-{os.getpid()}-0", f"shard-{os.getpid()}-1")
    reach = folder / "reach"
    reach.write_text(REACH.format(first=ADDRESSES[0], names=names))
    reach.chmod(0o755)
    try:
        for name in names:
            _ip("netns", "add", name)
        link = ("link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns")
        _ip("-n", names[0], *link, names[1])
        for name, address in zip(names, ADDRESSES, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "veth0")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", "veth0", "up")
        yield TwoHosts(names, reach)
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=30)


def _ip(*command: str) -> None:
    arguments: Sequence[str] = ("ip", *command)
    subprocess.run(arguments, check=True, capture_output=True, timeout=30)
