"""Frames: each event is written once for all streams, together with what it is about."""

import asyncio
from typing import Any

import pytest

from storage.events.model import Event, Interest
from tests.web.conftest import Api, Service
from web.api.events import frames
from web.api.events.frames import FRAMES


async def events_of(service: Service, api: Api, count: int) -> tuple[list[Event], Any]:
    """Create an agent with this number of notifications; return its last events, and the agent."""
    agent = await api.create_agent()
    for _ in range(count):
        await api.create_notification(agent)
    events = await service.storage.events.list_after(Interest(), 0)
    return list(events)[-count:], agent


async def test_concurrent_readers_share_one_frame(service: Service, api: Api) -> None:
    events, _ = await events_of(service, api, 20)
    reads = [service.app[FRAMES].get(events) for _ in range(3)]
    first, *others = await asyncio.gather(*reads)
    assert [frame.id for frame in first] == [event.id for event in events]
    for other in others:
        assert all(mine is theirs for mine, theirs in zip(first, other, strict=True))


async def test_old_frames_are_written_again(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, agent = await events_of(service, api, 2)
    monkeypatch.setattr(frames, "LIFETIME_SECONDS", 0.0)
    [first] = await service.app[FRAMES].get(events[:1])
    assert b'"resource":{"id":' in first.json
    await api.delete(f"/api/cloud/agents/{agent['id']}/")
    again, _ = await service.app[FRAMES].get(events)
    assert again.json.endswith(b'"resource":null}')


async def test_frames_beyond_the_bytes_are_forgotten(
    service: Service, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, _ = await events_of(service, api, 2)
    monkeypatch.setattr(frames, "MAX_BYTES", 100)
    first = await service.app[FRAMES].get(events)
    again = await service.app[FRAMES].get(events)
    assert again == first
    assert again[0] is not first[0]
