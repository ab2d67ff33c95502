"""Several workers on one machine, each a node, and the parent that starts them.

The parent has no event loop and no threads, so that it can fork. A worker has the memory of the imported code
in common with the others, and goes on as the only process would. The parent

- binds the public socket that all workers inherit, and keeps it, so a worker that is killed takes no
  connection with it but those that it had accepted,
- starts the first worker, the others once that one serves, and each again that has ended,
- passes on signals, also SIGHUP (`hostsvc.reload`), and ends with the last worker.

It has a pair of sockets with each worker. The worker reports its address there once it serves; the parent
passes on the signals that request the end. If the parent is killed, the workers see the pair close, and end.
"""

import gc
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NoReturn

import structlog

from hostsvc.config import HTTP, MIN_CONNECTIONS, Config
from hostsvc.listeners import bind_public
from hostsvc.process_end import END_SIGNALS, RELOAD_SIGNALS
from hostsvc.process_harness.machine import delegated_group, prepare_group

FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 0.1, 5.0  # before a worker is started again; each time it doubles
STEADY_SECONDS = 60.0  # a worker that has lived so long is started again as if for the first time
ADDRESS_BYTES = 4096
SIGNALS = (signal.SIGCHLD, *END_SIGNALS, *RELOAD_SIGNALS)
KILLED = 128  # plus the number of the signal: the exit code of a shell for a killed process

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker gets from its parent; `listener` is None without the role http."""

    config: Config
    listener: socket.socket | None
    parent: socket.socket

    def report_ready(self, url: str) -> None:
        """Tell the parent that this worker serves."""
        with suppress(OSError):  # the parent has just been killed
            self.parent.send(url.encode())

    def close(self) -> None:
        """Close the sockets, which the parent and the other workers keep."""
        self.parent.close()
        if self.listener is not None:
            self.listener.close()


@dataclass(slots=True)
class _Child:
    """A worker as its parent sees it."""

    number: int
    pid: int = 0  # 0: it does not run
    channel: socket.socket | None = None  # None: it is closed
    url: str = ""  # blank: it has never been ready
    started_at: float = 0.0
    start_at: float = 0.0
    delay_seconds: float = FIRST_DELAY_SECONDS


def worker_config(config: Config, number: int) -> Config:
    """Return the configuration of one worker: its name, its shares, its cache of the harness."""
    workers, database, runs, server = config.node.workers, config.database, config.runs, config.server

    def share(total: int, minimum: int = 1) -> int:
        return max(minimum, total // workers + (number <= total % workers))

    return replace(
        config,
        node=replace(config.node, name=f"{config.node.name_or_host}/{number}"),
        database=replace(database, pool_size=share(database.pool_size)),
        runs=replace(runs, max_concurrent=share(runs.max_concurrent)),
        server=replace(server, max_connections=share(server.max_connections, MIN_CONNECTIONS)),
        harness=replace(config.harness, cache_dir=config.harness.cache_dir / f"worker-{number}"),
    )


def describe_shares(config: Config) -> Iterator[str]:
    """Yield a line for each worker: its name and its shares."""
    for number in range(1, config.node.workers + 1):
        worker = worker_config(config, number)
        yield (
            f"worker {worker.node.name}: database.pool_size {worker.database.pool_size}, "
            f"runs.max_concurrent {worker.runs.max_concurrent}, "
            f"server.max_connections {worker.server.max_connections}"
        )


def fork_workers(config: Config, on_ready: Callable[[str], None]) -> Worker:
    """Return in each worker. The parent stays in here, and ends with the highest exit code of its workers.

    Raise OSError or ConfigError if the public address cannot be used.
    """
    listener = bind_public(config.server) if HTTP in config.node.roles else None
    if config.harness.kind == "process" and (group := delegated_group()):
        with suppress(OSError):  # the workers try again, and say why it fails
            prepare_group(group)  # while no worker is in it
    gc.freeze()  # collections in the workers copy no memory that they have in common
    return _Parent(config, listener, on_ready).run()


class _Parent:
    def __init__(
        self, config: Config, listener: socket.socket | None, on_ready: Callable[[str], None]
    ) -> None:
        self._config = config
        self._listener = listener
        self._on_ready: Callable[[str], None] | None = on_ready  # None: it has been called
        self._children = [_Child(number) for number in range(1, config.node.workers + 1)]
        self._is_ending = False
        self._exit_code = 0
        self._signals, self._wakeup = socket.socketpair()  # the interpreter writes the number of each signal

    def run(self) -> Worker:
        self._catch_signals()
        while True:
            for child in self._stopped():
                if time.monotonic() >= child.start_at and (worker := self._start(child)):
                    return worker
            if self._is_ending and not any(child.pid for child in self._children):
                self._end()
            self._wait()

    def _end(self) -> NoReturn:
        signal.set_wakeup_fd(-1)
        for each in (self._signals, self._wakeup, self._listener):
            if each is not None:
                each.close()
        sys.exit(self._exit_code)

    def _catch_signals(self) -> None:
        self._signals.setblocking(False)
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno())
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)

    def _stopped(self) -> Iterator[_Child]:
        """Yield the workers that must be started. The others wait for the first one.

        It starts the embedded PostgreSQL, migrates the database, and says why if it cannot serve.
        """
        first = self._children[0]
        for child in [] if self._is_ending else self._children:
            if not child.pid and (first.url or child is first):
                yield child

    def _start(self, child: _Child) -> Worker | None:
        """Fork a worker. Return what it gets in the worker itself, and None in the parent."""
        channel, other_end = socket.socketpair()
        child.started_at = time.monotonic()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # the worker must not take one for the parent
        try:
            pid = os.fork()
            if not pid:
                channel.close()
                self._leave_to_parent()
                return Worker(worker_config(self._config, child.number), self._listener, other_end)
        except OSError as error:
            channel.close()
            log.error("worker not started", worker=child.number, reason=error.strerror)
            self._start_later(child)
        else:
            child.pid, child.channel = pid, channel
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        other_end.close()
        return None

    def _leave_to_parent(self) -> None:
        """Close in a worker what is the parent's, and react to signals as any process does.

        It reads the configuration again anyway once it is ready, so until then SIGHUP is ignored.
        """
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN if number in RELOAD_SIGNALS else signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in (self._signals, self._wakeup, *(child.channel for child in self._children)):
            if each is not None:
                each.close()

    def _start_later(self, child: _Child) -> None:
        now = time.monotonic()
        if now >= child.started_at + STEADY_SECONDS:
            child.delay_seconds = FIRST_DELAY_SECONDS
        child.start_at = now + child.delay_seconds
        child.delay_seconds = min(2 * child.delay_seconds, MAX_DELAY_SECONDS)

    def _wait(self) -> None:
        """Wait for signals, for an address of a worker, or until one is to be started, and handle it."""
        channels = {child.channel: child for child in self._children if child.channel and not child.url}
        due = [child.start_at for child in self._stopped()]
        timeout = max(0.0, min(due) - time.monotonic()) if due else None
        readable, _, _ = select.select([self._signals, *channels], [], [], timeout)
        for channel in readable:
            if channel is not self._signals:
                self._receive_address(channels[channel], channel)
        if self._signals in readable:  # last: the end of a worker closes its channel
            self._receive_signals()

    def _receive_signals(self) -> None:
        for number in self._signals.recv(ADDRESS_BYTES):
            if number in END_SIGNALS:
                self._request_end(number)
            for child in self._children if number in RELOAD_SIGNALS else ():
                if child.pid:
                    os.kill(child.pid, number)
        while any(child.pid for child in self._children):
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            self._note_end(pid, status)

    def _request_end(self, number: int) -> None:
        message = bytes((number, self._is_ending))  # read by EndRequest.follow
        self._is_ending = True
        for child in self._children:
            if child.channel:
                with suppress(OSError):  # it has just ended
                    child.channel.send(message, socket.MSG_DONTWAIT)

    def _note_end(self, pid: int, status: int) -> None:
        """Note the end of a worker, which is that of the service if it cannot start."""
        child = next((child for child in self._children if child.pid == pid), None)
        if child is None:  # an orphan that the first process of a container inherits
            return
        child.pid = 0
        self._close_channel(child)
        code = os.waitstatus_to_exitcode(status)
        if code > 0 and self._on_ready is not None and not self._is_ending:
            self._request_end(signal.SIGTERM)
        if self._is_ending:
            self._exit_code = max(self._exit_code, code if code >= 0 else KILLED - code)
            return
        self._start_later(child)
        seconds = round(child.start_at - time.monotonic(), 1)
        log.warning("worker ended", worker=child.number, exit_code=code, restart_seconds=seconds)

    def _receive_address(self, child: _Child, channel: socket.socket) -> None:
        """Note that a worker serves, and say so once all do."""
        with suppress(ConnectionError):  # it has ended without reading what it was sent
            child.url = channel.recv(ADDRESS_BYTES).decode()
        if not child.url:  # it is ending
            self._close_channel(child)
        elif self._on_ready is not None and all(each.url for each in self._children):
            self._on_ready(self._children[0].url)
            self._on_ready = None

    def _close_channel(self, child: _Child) -> None:
        if child.channel is not None:
            child.channel.close()
            child.channel = None
