"""The limits of request heads: their time and their length.

aiohttp limits only the time between two requests, and the length of each line. It keeps a head until the next
request of the connection.
"""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage

from web.server.framework import Connection
from web.server.raw_answers import raw_answer
from web.server.settings import ConnectionSettings

MAX_HEAD_BYTES = 16_384
HEAD_TOO_LONG = f"The request head is longer than {MAX_HEAD_BYTES} bytes."


class HeadLimit(Connection):
    """A connection whose request heads must each arrive within `head_seconds`, and have a maximum length.

    The time of the first head begins with the connection, that of each further one with its first byte.
    """

    __slots__ = (
        "_answer_headers",
        "_head_bytes",
        "_head_deadline",
        "_head_seconds",
        "_heads_before",
        "_is_silent",
    )

    def __init__(
        self,
        manager: web.Server,
        *,
        settings: ConnectionSettings,
        answer_headers: Mapping[str, str],
        **options: Any,
    ) -> None:
        super().__init__(manager, keepalive_timeout=settings.keepalive_seconds, **options)
        self._head_seconds = settings.head_seconds
        self._answer_headers = answer_headers
        self._head_deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0  # that have arrived since the last complete head
        self._heads_before = 0  # the deadline
        self._is_silent = True  # nothing of the head has arrived that the deadline is for

    def is_waiting(self) -> bool:
        """Return whether nothing is in progress: neither a request nor the sending of an answer."""
        if self.transport is None or not self.awaits_request():
            return False
        return cast(asyncio.WriteTransport, self.transport).get_write_buffer_size() == 0

    def order_of_ending(self) -> tuple[int, float] | None:
        """Return a key by which connections are ordered that may end to make room; None if this one may not.

        First come those that have never sent a request, then idle ones, then those whose request is not
        complete because its body is still arriving. Within each of these, the oldest come first.
        """
        if self.is_waiting():
            return (1 if self.heads else 0, self.idle_until)
        if self.request is not None and not self.request.content.is_eof():
            return (2, self.idle_until)
        return None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._limit_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_limit()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        heads, may_begin_head = self.heads, self.may_begin_head()
        super().data_received(data)
        if may_begin_head:
            self._head_bytes += len(data)
        if self.heads != heads:
            if (
                self._head_bytes > MAX_HEAD_BYTES or not data
            ):  # without data, the framework parses what waited
                self.refuse_waiting(_is_too_long, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, HEAD_TOO_LONG)
            self._head_bytes = 0
            if self._head_deadline is not None:
                self._stop_limit()
        elif data and may_begin_head:
            self._is_silent = False
            if self._head_bytes > MAX_HEAD_BYTES:
                self._end_head(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, HEAD_TOO_LONG)
            elif self._head_deadline is None:
                self._limit_head()

    def _limit_head(self) -> None:
        self._heads_before = self.heads
        self._head_deadline = self.loop.call_later(self._head_seconds, self._end_late_head)

    def _stop_limit(self) -> None:
        self._is_silent = True
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _end_late_head(self) -> None:
        self._head_deadline = None
        if self.heads == self._heads_before:
            detail = f"The request head did not arrive within {self._head_seconds:g} seconds."
            self._end_head(HTTPStatus.REQUEST_TIMEOUT, detail)

    def _end_head(self, status: HTTPStatus, detail: str) -> None:
        """Close the connection, after the request in progress if there is one."""
        if self.transport is None:
            return
        if not self.is_waiting():
            self.close()
            return
        if not self._is_silent:
            self.transport.write(raw_answer(status, detail, self._answer_headers))
        self.force_close()


def _is_too_long(message: RawRequestMessage) -> bool:
    length = len(message.path) + sum(len(name) + len(value) for name, value in message.raw_headers)
    return length > MAX_HEAD_BYTES
