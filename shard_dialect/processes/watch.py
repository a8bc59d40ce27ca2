"""Run a rank's program in a watched child process, and end all ranks of its job when one ends.

The parent only watches, so that it can report a crash of the child, and end a child that hangs in
compiled code. The launcher started the parent, so if a child is killed, the launcher sees a process
that ends with status 1.
"""

from __future__ import annotations

import math
import os
import select
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from shard_dialect.errors import flush, note, say, shown
from shard_dialect.processes import hosts, jobs
from shard_dialect.processes.launchers import Rank, end_job, ends_by_itself
from shard_dialect.processes.progress import Progress, is_child_of, where_shown
from shard_dialect.processes.report_killed_watch import Guard
from shard_dialect.processes.startup import message_of
from shard_dialect.processes.supervise import compiler_in, crash_of, end_with, remove, signalled
from shard_dialect.processes.to_parent import USER, WRITES, heard, is_watched, tell

_ALONE = Rank(0, 1)
_STATE, _FAILED, _LOST, _INVITED = "!state", "!failed", "!lost", "!invited"
"""The kinds of messages that the child sends, besides its present step."""
_TICK = 0.1
_START = "its start"
"""The step before the child tells any: plugins may be loaded in it."""
COMPILED = "the compiled program"
REFERENCE = "the unsharded program"
"""The step of a child while it runs a program that it was given, as a crash is reported in it."""
_LINGER = 5.0
_UNANSWERED = "nobody answers for {:.0f} s where the ranks of this job meet"
_invitation = ""
"""In the child of rank 0: the invitation to the door where the watches of several hosts meet."""


def state(name: str) -> None:
    """In the child: report how far it is, by a name of `jobs.STATES`."""
    tell(_STATE, name)


def fail(text: str, *, is_lost: bool = False) -> None:
    """In the child: report that it has failed, or that it has lost another rank, which failed."""
    tell(_LOST if is_lost else _FAILED, text)


def meet_hosts(share: Callable[[Sequence[str]], list[str]]) -> None:
    """In each child of a job on several hosts, once they have joined: let its watch meet theirs.

    `share` gives every rank the messages of all.
    """
    for invitation in filter(None, share([_invitation])):
        tell(_INVITED, invitation)


def end(text: str) -> NoReturn:
    """In the child: report a failure, and exit."""
    fail(text)
    leave()


def leave() -> NoReturn:
    """In the child, once it has failed: exit at once, since a usual exit would wait for others."""
    flush()
    os._exit(1)


def can_watch() -> bool:
    """Whether this process may go on in a child: it has no threads, and no MPI yet."""
    if not hasattr(os, "fork") or not hasattr(socket, "SO_PEERCRED") or is_watched():
        return False
    mpi = sys.modules.get("mpi4py.MPI")
    torch = sys.modules.get("torch")
    return (
        threading.active_count() == 1
        and not (mpi and mpi.Is_initialized())
        and not (torch and (torch.cuda.is_initialized() or torch.distributed.is_initialized()))
    )


def watched(rank: Rank | None, timeout: float = math.inf) -> None:
    """Go on in a child process; the parent ends with it, with status 0 or 1.

    `rank` is `None` for a program that has no others. A program that takes longer than `timeout`
    seconds fails. A file that the child was writing is removed (`processes/atomic_files.py`).
    """
    flush()
    job = rank.job if rank else ""
    guard = Guard(job, jobs.killed(rank.number) if rank else "error: the program was killed")
    door = _door(rank)
    read, write = os.pipe()
    answers, answer = os.pipe()
    where = where_shown() if rank is None or rank.number == 0 else None
    parent = os.getpid()
    interrupts = {signal.SIGINT}  # the parent tells of them; the child ends without a traceback
    signal.pthread_sigmask(signal.SIG_BLOCK, interrupts)
    # Before the program has threads: a fork copies only the thread that calls it.
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts)
    if child == 0:
        os.close(read)
        os.close(answer)
        guard.close()
        if door is not None:
            door.close()
        end_with(parent)
        is_child_of(write, answers, where)
        return
    os.close(write)
    os.close(answers)
    status = 1
    try:
        status = _Watch(child, read, rank, guard, timeout, door, Progress(answer, where)).run()
    except Exception as error:
        say(message_of(error))
    finally:
        guard.left()
        flush()
        os._exit(status)


def _door(rank: Rank | None) -> hosts.Door | None:
    """The door of a job on several hosts, on that of rank 0; `None` if it cannot be opened."""
    global _invitation
    if rank is None or rank.number or rank.is_all_here:
        return None
    with suppress(OSError):
        door = hosts.Door()
        _invitation = str(door.invitation)
        return door
    return None


class _Watch:
    def __init__(
        self,
        child: int,
        pipe: int,
        rank: Rank | None,
        guard: Guard,
        timeout: float,
        door: hosts.Door | None,
        progress: Progress,
    ) -> None:
        self._child = child
        self._pipe = pipe
        self._rank = rank or _ALONE
        self._is_launched = rank is not None
        self._guard = guard
        self._timeout = timeout
        self._begun = time.monotonic()
        self._is_greeted = False
        self._launcher = os.getppid()
        self._selector = selectors.DefaultSelector()
        self._door = door
        self._exchange: hosts.Exchange | None = None
        self._link: socket.socket | None = None
        """The link to the hub; `None` until they have met."""
        self._hub: jobs.Hub | None = None
        self._hub_rank = self._rank.number
        self._doing = ("", _START)
        self._progress = progress
        self._rest = b""
        self._partial = ""
        """The file that the child is writing."""
        self._user = ""
        """The user's function that the child runs."""
        self._signals: list[int] = []
        self._status: int | None = None
        """The child's status, as `os.waitpid` returns it, once it has ended."""
        self._has_reported = False
        self._is_done = False
        self._is_ended = False

    @property
    def _has_left(self) -> bool:
        """Whether there is nothing more to report to the hub."""
        return self._is_ended or (self._is_done and self._status == 0)

    def run(self) -> int:
        self._handle_signals()
        os.set_blocking(self._pipe, False)
        self._selector.register(self._pipe, selectors.EVENT_READ, self._listen)
        if self._door is not None:
            self._exchange = hosts.Exchange(self._selector, self._door, self._rank)
        try:
            link = self._link = self._meet()
        except jobs.NoMeetingError as error:
            self._end()
            if self._rank.number == 0 or not self._rank.is_all_here:  # else rank 0 reports it
                say(f"error: {error}")
            return 1
        self._selector.register(link, selectors.EVENT_READ, self._hear)
        self._say("started")
        while not self._has_left:
            self._wait()
            self._attend()
        self._selector.unregister(link)
        link.close()
        self._wait_for_others()
        if self._hub is not None and self._hub.has_failed:
            self._end()
            end_job()
        elif self._is_ended and not ends_by_itself():
            time.sleep(_LINGER)  # leaving before the hub asks would count as another failure
        return 1 if self._is_ended else 0

    def _wait_for_others(self) -> None:
        """Wait for the watches that this one connects."""
        while self._hub is not None and not self._hub.is_over:
            self._wait()
        if self._hub is not None:
            self._hub.leave()
        if self._exchange is None:
            return
        if self._is_ended:
            failure = self._hub.failure if self._hub is not None else ""
            self._exchange.fail(failure or "error: the host of rank 0 has failed")
        while not self._exchange.is_over:
            self._wait()
        self._exchange.leave()

    def _wait(self) -> None:
        for key, _ in self._selector.select(_TICK):
            if key.fd in self._selector.get_map():  # one of the others may have closed it
                key.data()
        if self._hub is not None:
            self._hub.look()
            self._progress.wait(self._hub.waits_for)
        self._progress.look()

    def _handle_signals(self) -> None:
        woken, wake = os.pipe()
        for end in (woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._selector.register(woken, selectors.EVENT_READ, lambda: os.read(woken, 4096))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: self._signals.append(number))
        # A handler that does nothing: without one, the signal would not wake `select`.
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _meet(self) -> socket.socket:
        """A link to the hub of the job, which is here if nobody else has it."""
        job = self._rank.job
        while job:
            listener = jobs.claim(job)
            if listener is not None:
                return self._have_hub(listener)
            link = jobs.connect(job)
            if link is not None:
                return link
            self._give_up_meeting()
            time.sleep(0.01)  # it is there, and does not listen yet; or it has just gone
        return self._have_hub(None)

    def _have_hub(self, listener: socket.socket | None) -> socket.socket:
        self._is_greeted = True
        self._guard.guarded()
        self._hub = jobs.Hub(
            self._selector,
            self._rank,
            self._timeout,
            listener,
            self._guard.left,
            self._guard.other,
        )
        own_end, hub_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._hub.add(hub_end)
        return own_end

    def _give_up_meeting(self) -> None:
        """Raise if nobody has answered for too long, or this process is asked to end."""
        seconds = time.monotonic() - self._begun
        if self._signals:
            raise jobs.NoMeetingError(signalled(self._signals[0]).removeprefix("error: "))
        if seconds > self._timeout:
            raise jobs.NoMeetingError(jobs.too_long(self._timeout).removeprefix("error: "))
        if seconds > self._patience:
            raise jobs.NoMeetingError(_UNANSWERED.format(self._patience))

    @property
    def _patience(self) -> float:
        return jobs.MEET * max(1.0, self._rank.here / (os.cpu_count() or 1))

    def _say(self, kind: str, text: str = "") -> None:
        if self._link is not None:  # before, nobody waits for this rank's messages
            jobs.send(self._link, f"{self._rank.number}\n{kind}\n{text}")

    def _listen(self) -> None:
        """Read the child's messages."""
        try:
            data = os.read(self._pipe, 65536)
        except BlockingIOError:
            return
        if not data:
            self._progress.end()
            self._selector.unregister(self._pipe)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            first, second = heard(line)
            if self._progress.hear(first, second):
                continue
            if first == WRITES:
                self._partial = second
            elif first == USER:
                self._user = second
            elif first == _INVITED:
                self._say(jobs.INVITED, second)
            elif first == _STATE:
                self._is_done = second == "done"
                self._say(second)
            elif first in (_FAILED, _LOST):
                self._has_reported = True
                self._say("failed" if first == _FAILED else "lost", second)
            else:
                self._doing = (first or self._doing[0], second)
                self._progress.begin(second)

    def _hear(self) -> None:
        """Read the hub's messages: its rank, and then the end."""
        message = None if self._link is None else jobs.receive(self._link)
        if message == jobs.END:
            self._end()
        elif message is not None:
            self._is_greeted = True
            self._hub_rank = int(message)
        elif self._link is not None and not self._has_left:
            jobs.wait_for_end(self._link)
            # The hub has gone, and its rank with it. The first that takes its place says so, be it
            # a watch or its guard.
            self._end()
            if jobs.claim(self._rank.job) is not None:
                say(jobs.killed(self._hub_rank))
            end_job()

    def _attend(self) -> None:
        """See to the child, to signals, and to the launcher."""
        if self._status is None:
            child, status = os.waitpid(self._child, os.WNOHANG)
            if child:
                self._status = status
                self._drain()
                if not self._is_ended and not self._has_reported:
                    self._say(*self._cause(status))
        while self._signals:
            number = self._signals.pop(0)
            self._say("failed", signalled(number))
        if self._is_launched and os.getppid() != self._launcher and not self._is_ended:
            self._launcher = os.getppid()
            self._say("failed", "error: the launcher has gone")
        self._attend_to_hub()

    def _attend_to_hub(self) -> None:
        """End, and say so, where one on this machine that should has not."""
        seconds = time.monotonic() - self._begun
        if self._hub is not None or self._is_ended:
            return
        if seconds > self._timeout + jobs.GOODBYE:
            say(jobs.too_long(self._timeout))
            self._end()
        elif not self._is_greeted and seconds > 2 * self._patience:
            say("error: " + _UNANSWERED.format(2 * self._patience))
            self._end()

    def _drain(self) -> None:
        """Read the child's last messages; its own children may keep the pipe open."""
        while self._pipe in self._selector.get_map() and select.select([self._pipe], [], [], 0)[0]:
            self._listen()

    def _cause(self, status: int) -> tuple[str, str]:
        """The message about a child that has ended with `status` by itself: kind and text."""
        who = f"rank {self._rank.number}" if self._is_launched else "the program"
        location, what = ("", self._user) if self._user else self._doing
        where, what = f"{shown(location)}: " if location else "", shown(what)
        crash = crash_of(status)
        if crash == signal.SIGABRT and what in (COMPILED, REFERENCE):
            text = f"ended itself (SIGABRT) in {what}: an assertion of it fails for these inputs"
            return "failed", f"{where}error: {who} {text}"
        if crash:
            is_other = self._is_launched or self._user or what in (_START, COMPILED, REFERENCE)
            who = who if is_other else compiler_in(what)
            return "failed", f"{where}error: {who} crashed ({crash.name}) in {what}"
        if not os.WIFSIGNALED(status):
            code = os.WEXITSTATUS(status)
            if self._is_done and code == 0:
                return "done", ""
            # A library that loses the others may end the process, but not as if all were well.
            kind = "lost" if code else "failed"
            return kind, f"error: {who} ended in {what}, with exit status {code}"
        if os.WTERMSIG(status) == signal.SIGINT:
            return "failed", signalled(signal.SIGINT)
        name = signal.Signals(os.WTERMSIG(status)).name
        advice = ": perhaps the memory ran out" if name == "SIGKILL" else ""
        return "failed", f"error: {who} was killed ({name}) in {what}{advice}"

    def _end(self) -> None:
        """End the child, and remember that it was."""
        if self._is_ended:
            return
        self._is_ended = True
        self._progress.end()
        if self._status is None:
            os.kill(self._child, signal.SIGKILL)
            _, self._status = os.waitpid(self._child, 0)
            self._drain()
            if self._user:
                who = f"rank {self._rank.number}" if self._is_launched else "it"
                say(note(f"{who} was in {self._user}"))
        remove(self._partial)
