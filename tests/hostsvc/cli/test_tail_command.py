"""`hostsvc tail`: what it prints, where it begins, and how it goes on after a break."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from hostsvc.cli import status_client as status_client_module
from hostsvc.cli import tail_command
from hostsvc.cli.status_client import StatusUnavailable, status_client
from hostsvc.cli.tail_command import (
    EventFollower,
    EventPrinter,
    Frame,
    TailOptions,
    escaped_json,
    position_at,
    read_frames,
)
from tests.hostsvc.cli.answers import serving_json
from tests.hostsvc.cli.test_status_screen import snapshot
from tests.hostsvc.cli.test_tail_lines import event
from tests.patience import PATIENCE_SECONDS

AGENT, GONE = str(UUID(int=7)), str(UUID(int=8))

BEGAN = datetime(2026, 11, 22, 9, tzinfo=UTC)
TOKEN = "operators-only"


@asynccontextmanager
async def printer(**options: Any) -> AsyncIterator[EventPrinter]:
    """Open a printer whose service knows one agent, Grace."""
    answers = {f"/status/supervisors/{AGENT}/": snapshot(agent=AGENT, name="Grace")}
    async with serving_json(answers) as url, status_client(url) as client:
        yield EventPrinter(client, TailOptions(**options))


def of(agent: str | None, **fields: Any) -> dict[str, Any]:
    return {**event("notification.cleared", **fields), "agent": agent}


async def test_line_names_the_agent_or_its_id(capsys: pytest.CaptureFixture[str]) -> None:
    async with printer() as lines:
        await lines.print_event("notification.cleared", of(AGENT))
        await lines.print_event("notification.cleared", of(GONE))
        await lines.print_event("agent.changed", of(AGENT, resource={"id": AGENT, "name": "Ada"}))
        await lines.print_event("notification.cleared", of(AGENT))
        await lines.print_event("organization.paused", of(None))
    named = [line.split("  ", 3)[2].strip() for line in capsys.readouterr().out.splitlines()]
    assert named[:4] == ["Grace", GONE, "Ada", "Ada"]
    assert "Grace" not in named[4]


async def test_reset_is_told_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    async with printer() as lines:
        await lines.print_event("reset", {"type": "reset", "oldest": 7})
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("hostsvc: older events have been deleted")


async def test_json_is_printed_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async with printer(as_json=True) as lines:
        await lines.print_event("reset", {"type": "reset", "oldest": 7})
        await lines.print_event("notification.cleared", of(AGENT, resource={"title": "Grüße\n"}))
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"type": "reset", "oldest": 7}
    assert second["resource"] == {"title": "Grüße\n"}


@pytest.mark.parametrize("text", ["\x1b[2J", "\x07", "\n", "\x9b31m", "\u202e", "\x7f"])
def test_json_line_holds_no_control_characters(text: str) -> None:
    line = escaped_json({"title": text})
    assert line.isprintable()
    assert json.loads(line) == {"title": text}


def event_of_minute(id_: int) -> dict[str, Any]:
    """Return an event that happened as many minutes after the beginning as its id says."""
    return {"id": id_, "type": "run.ended", "at": (BEGAN + timedelta(minutes=id_)).isoformat()}


@dataclass
class Log:
    """A log of events behind `/status/events/`, whose streams break off as `breaks` says."""

    ids: list[int]
    breaks: list[str] = field(default_factory=list)
    requests: list[web.Request] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if "limit" in request.query:
            after = int(request.query.get("after", max(self.ids, default=0)))
            found = [event_of_minute(id_) for id_ in self.ids if id_ > after][:1]
            last = found[-1]["id"] if found else max(self.ids, default=0)
            return web.json_response({"events": found, "after": last, "reset": False})
        how = self.breaks.pop(0) if self.breaks else ""
        if how.isdecimal():
            return web.json_response({"type": ["Unknown."]}, status=int(how))
        return await self._stream(request, how)

    async def _stream(self, request: web.Request, how: str) -> web.StreamResponse:
        """Send all events; with a break, only the first one that is missing."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        after = int(request.headers["Last-Event-ID"])
        await response.write(b"retry: 1000\n\n: comment\n\n")
        for id_ in [id_ for id_ in self.ids if id_ > after][: 1 if how else None]:
            data = orjson.dumps(event_of_minute(id_)).decode()
            await response.write(f"id: {id_}\nevent: run.ended\ndata: {data}\n\n".encode())
        if how == "abort":
            assert request.transport is not None
            request.transport.abort()
        elif not how:
            await asyncio.Event().wait()
        return response


@asynccontextmanager
async def serving(log: Log) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/status/events/", log.answer)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


async def follow(log: Log, position: str, until: int) -> tuple[list[int], list[str]]:
    """Follow the log up to an id; return the ids seen, and what was said of breaks."""
    seen: list[int] = []
    breaks: list[str] = []
    arrived = asyncio.Event()

    async def on_event(type_: str, data: dict[str, Any]) -> None:
        assert type_ == "run.ended"
        seen.append(data["id"])
        if data["id"] == until:
            arrived.set()

    async with serving(log) as url, status_client(url) as client:
        client.token = TOKEN
        query = [("type", "run.*")]
        following = asyncio.create_task(EventFollower(client, query, position, on_event, breaks.append).run())
        waiting = asyncio.create_task(arrived.wait())
        await asyncio.wait({following, waiting}, timeout=PATIENCE_SECONDS, return_when="FIRST_COMPLETED")
        waiting.cancel()
        if following.done():
            await following
        following.cancel()
        await asyncio.wait({following})
    return seen, breaks


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_command, "RETRY_SECONDS", 0.01)


@pytest.mark.parametrize(
    ("ids", "minute", "position"),
    [
        ([], 0, 0),
        (range(1, 100), None, 99),
        (range(1, 100), 0, 0),
        (range(1, 100), 50, 49),
        (range(1, 100), 50.5, 50),
        (range(1, 100), 1000, 99),
        ([10, 20, 90, 91], 20, 10),
        ([10, 20, 90, 91], 21, 20),
    ],
)
async def test_position_precedes_events_since_moment(
    ids: list[int], minute: float | None, position: int
) -> None:
    log = Log(list(ids))
    since = None if minute is None else BEGAN + timedelta(minutes=minute)
    async with serving(log) as url, status_client(url) as client:
        found = int(await position_at(client, since))
    assert [id_ for id_ in ids if id_ > found] == [id_ for id_ in ids if id_ > position]
    assert len(log.requests) < 12


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("how", ["abort", "end", "503"])
async def test_broken_stream_goes_on_after_the_last_event(how: str) -> None:
    log = Log([1, 2, 3, 4], [how, how])
    seen, breaks = await follow(log, "1", until=4)
    assert seen == [2, 3, 4]
    assert len(breaks) in {2, 4}
    assert breaks[1] == ""
    assert log.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"
    assert log.requests[0].query["type"] == "run.*"


async def test_frames_are_read_with_position_type_and_data() -> None:
    async def stream() -> AsyncIterator[bytes]:
        for line in (b"retry: 1000", b"", b": still here", b"", b"id: 7", b"event: run.ended", b"data: {"):
            yield line + b"\n"
        for line in (b'data: "a": "\xc3\xa9"}\r', b"\r", b"id:9", b""):
            yield line + b"\n"
        yield b"id: 1"  # of 10: the stream has broken off

    assert [frame async for frame in read_frames(stream(), "3")] == [
        *[Frame("3", "", "")] * 2,
        Frame("7", "run.ended", '{\n"a": "é"}'),
        Frame("9", "", ""),
    ]


async def test_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_client_module, "MAX_LINE_BYTES", 10)
    with pytest.raises(
        StatusUnavailable, match=r"^the stream is none of hostsvc: a line is too long; correct --url$"
    ):
        await follow(Log([1]), "0", until=1)


async def test_refused_stream_is_explained() -> None:
    with pytest.raises(StatusUnavailable, match=r"^type: Unknown\.$"):
        await follow(Log([1], ["400"]), "0", until=1)
