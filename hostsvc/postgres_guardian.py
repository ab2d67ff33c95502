"""The guardian of the embedded PostgreSQL, which stops the server when its last user was killed.

It is a process of its own. `hostsvc.embedded_postgres` starts it with each server, and it ends with that
server. To need little memory (4 MB) it runs without site-packages, so it can import nothing of hostsvc.

    python -I -S postgres_guardian.py ALIVE USERS GATE SERVER SOCKETS GRACE

ALIVE, USERS and GATE are inherited descriptors of the lock files, and SERVER of the server's process. SOCKETS
is the directory of its socket. GRACE is for how many seconds a server without users stays.
"""

import _thread
import fcntl
import os
import select
import signal
import sys
from contextlib import suppress

STOP_SECONDS = 60.0  # for the checkpoint


def guard(alive: int, users: int, gate: int, server: int, *, sockets: str, grace_seconds: float) -> None:
    """Return when the server has ended, or has been stopped because nobody used it for `grace_seconds`."""
    is_unused, tell_unused = os.pipe()
    while True:
        _thread.start_new_thread(_wait_until_unused, (alive, tell_unused))
        if server in _ready(None, server, is_unused):
            return
        os.read(is_unused, 1)
        if _ready(grace_seconds, server):
            return
        fcntl.flock(gate, fcntl.LOCK_EX)
        with suppress(BlockingIOError):  # there is a user again
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _stop(server, sockets)
            return
        fcntl.flock(gate, fcntl.LOCK_UN)


def _wait_until_unused(alive: int, tell_unused: int) -> None:
    """Wait in a thread, because a wait for a lock and one for the end of a process cannot be combined."""
    fcntl.flock(alive, fcntl.LOCK_EX)
    fcntl.flock(alive, fcntl.LOCK_UN)  # a new user must not have to wait
    os.write(tell_unused, b"\0")


def _ready(seconds: float | None, *descriptors: int) -> list[int]:
    """Return the descriptors that can be read: a pipe with data, or a process that has ended."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)]


def _stop(server: int, sockets: str) -> None:
    """Stop the server as `pg_ctl stop -m fast` does, or else `immediate`. Neither loses a commit."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(server, number)
        if _ready(STOP_SECONDS, server):
            break
    with suppress(OSError):
        os.rmdir(sockets)  # fails if it is the data directory, which is not empty


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # so that the guardian is not a child of the service, which would have to reap it
    *locks_and_server, directory, grace = sys.argv[1:]
    guard(*map(int, locks_and_server), sockets=directory, grace_seconds=float(grace))
