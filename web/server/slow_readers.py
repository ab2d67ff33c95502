"""Slow readers: a client that takes nothing of an answer for some time is cut off."""

import asyncio
import fcntl
import sys
import termios
from typing import Any, cast

import structlog
from aiohttp import web

from web.server.head_limit import HeadLimit
from web.server.line_limit import LineLimit
from web.server.settings import ConnectionSettings
from web.server.unsent_bytes import UnsentBytes

log = structlog.get_logger(__name__)


class ReaderWatch(HeadLimit):
    """A connection that is aborted when its client has taken nothing of an answer for `reader_seconds`.

    It holds at most one answer, or one piece of a streamed answer: the next one waits until the client has
    taken all of it. All connections together hold a limited number of bytes (`unsent`).
    """

    __slots__ = (
        "_deadline",
        "_lines",
        "_peer",
        "_reader_seconds",
        "_unsent",
        "_untaken_bytes",
    )

    def __init__(
        self,
        manager: web.Server,
        *,
        settings: ConnectionSettings,
        peer: str,
        unsent: UnsentBytes,
        lines: LineLimit,
        **options: Any,
    ) -> None:
        super().__init__(manager, settings=settings, **options)
        self._peer = peer
        self._unsent = unsent
        self._lines = lines
        self._reader_seconds = settings.reader_seconds
        self._deadline: asyncio.TimerHandle | None = None
        self._untaken_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Without a limit of 0, up to 64 KiB would wait in the transport for as long as the client likes.
        cast(asyncio.WriteTransport, transport).set_write_buffer_limits(high=0)
        super().connection_made(transport)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()
        waiting = cast(asyncio.WriteTransport, self.transport).get_write_buffer_size()
        self._unsent.add(self, self._peer, max(waiting, self.held_bytes))

    def resume_writing(self) -> None:
        self._stop_watching()
        super().resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_watching()
        # Leave out the error: the writer that waits for the client would raise it from a future in its own
        # frame. That is a reference cycle, which would hold the answer until the next garbage collection.
        super().connection_lost(None)

    def _watch(self) -> None:
        self._untaken_bytes = self._count_untaken()
        self._deadline = self.loop.call_later(self._reader_seconds, self._judge)

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._unsent.remove(self, self._peer)

    def _judge(self) -> None:
        """Abort the connection unless the client has taken something since `_watch`."""
        if self._count_untaken() < self._untaken_bytes:
            self._watch()
        else:
            self._stop_watching()
            self._abort("nothing taken in time")

    def cut_off(self) -> None:
        """Abort the connection, because the answers that wait for slow readers take too much memory."""
        self._abort("too many bytes wait for slow readers")

    def _abort(self, reason: str) -> None:
        if self.transport is None:
            return
        self._lines.write(
            log.warning,
            "slow reader cut off",
            client=self.peername,
            reason=reason,
            unsent_bytes=self.transport.get_write_buffer_size(),
            seconds=self._reader_seconds,
        )
        self.transport.abort()

    def _count_untaken(self) -> int:
        if self.transport is None:
            return 0
        return self.transport.get_write_buffer_size() + _count_in_kernel(self.transport)


def _count_in_kernel(transport: asyncio.Transport) -> int:
    """Return the number of bytes that the client has not acknowledged yet; 0 if the system cannot tell.

    The kernel asks for more bytes only after a client has taken a third of its buffer, up to a megabyte. That
    takes a slow client longer than it may be silent.
    """
    try:
        answer = fcntl.ioctl(transport.get_extra_info("socket"), termios.TIOCOUTQ, bytes(4))
    except OSError:
        return 0
    return int.from_bytes(answer, sys.byteorder)
