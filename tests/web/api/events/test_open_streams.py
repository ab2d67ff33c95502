"""Open streams: how many there may be, what keeps them alive, and what ends them."""

import asyncio
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from hostsvc.config import POOL_DEFAULTS
from storage.model import Role
from supervisors.engine.messages import StopRequest
from tests.acceptance.client import eventually
from tests.event_streams import EventStreamReader, event_stream
from tests.patience import PATIENCE_SECONDS
from tests.storage.events.log import connected
from tests.web.conftest import SETTINGS, Api, Service, StartService
from tests.web.people import as_user, founder, join, new_user
from web.api.events import open_streams
from web.api.events.open_streams import OPEN_STREAMS
from web.app_keys import EVENT_FEED
from web.credentials.formats import RunTokens

EVENTS = "/api/events/"
KEYS = "/api/organizations/api-keys/"
MEMBERSHIPS = "/api/organizations/memberships/"


async def end_of(stream: EventStreamReader) -> None:
    """Read the stream to its end, which must be a clean one."""
    with suppress(EOFError):
        while True:
            await stream.next()


def count_open(service: Service) -> int:
    """Return how many streams are open at all nodes."""
    return sum(len(node.app[OPEN_STREAMS]) for node in service.nodes)


async def opened(service: Service, count: int) -> None:
    """Wait until this number of streams is open."""

    async def look() -> bool | None:
        return count_open(service) == count or None

    await eventually(look, f"{count} open streams")


@pytest.mark.one_node
async def test_credential_has_limited_streams(start_service: StartService) -> None:
    service = await start_service(event_streams_per_caller=2)
    api, other = await service.new_organization(), await service.new_organization()
    ticket = (await api.create(f"{EVENTS}tickets/"))["ticket"]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(event_stream(api, EVENTS))
        await stack.enter_async_context(event_stream(service.nobody, f"{EVENTS}?ticket={ticket}"))
        answer = await api.get(EVENTS)
        assert (answer.status, answer.headers["Retry-After"]) == (429, "5")
        assert answer.body["detail"].startswith("limits.event_streams_per_caller: at most 2 event streams")
        assert (await other.get(EVENTS)).status == 200
    await opened(service, 0)
    assert (await api.get(EVENTS)).status == 200


async def test_heartbeat_is_a_comment(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_streams, "HEARTBEAT_SECONDS", 0.1)
    async with event_stream(api, EVENTS) as stream:
        await stream.next()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await stream.response.content.readline() == b":\n"
            assert await stream.response.content.readline() == b":\n"


async def test_heartbeat_brings_idle_streams_forward(
    service: Service, api: Api, other: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_streams, "HEARTBEAT_SECONDS", 0.1)
    foreign = await other.create_agent()
    async with event_stream(api, EVENTS) as stream, event_stream(other, EVENTS) as other_stream:
        await stream.next()
        await other.create_notification(foreign)
        event = await other_stream.next_event()
        block = await stream.next()
        while block.id is None or event.id is None or block.id < event.id:
            block = await stream.next()
        assert block.comments
        assert block.data is None


async def test_heartbeats_go_on_while_the_database_stands_still(
    api: Api, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_streams, "HEARTBEAT_SECONDS", 0.1)
    async with (
        event_stream(api, EVENTS) as stream,
        connected(database_url) as other_program,
        other_program.transaction(),
    ):
        await other_program.execute("LOCK TABLE api_key IN ACCESS EXCLUSIVE MODE")
        async with asyncio.timeout(POOL_DEFAULTS.command_timeout_seconds):  # none waits for the database
            for _ in range(6):  # one each second; the callers are checked within the first three
                while await stream.response.content.readline() != b":\n":
                    pass


async def test_deleted_key_ends_its_streams(service: Service, api: Api) -> None:
    key = await api.create(KEYS, name="short")
    client = service.nobody.with_authorization(f"Bearer {key['key']}")
    async with event_stream(client, EVENTS) as stream, event_stream(api, EVENTS):
        await api.delete(f"{KEYS}{key['id']}/")
        await end_of(stream)
        assert count_open(service) == 1


async def test_logout_ends_streams(service: Service) -> None:
    user, _ = await founder(service)
    async with event_stream(user, EVENTS) as stream:
        await user.post("/api/organizations/auth/logout/")
        await end_of(stream)


async def test_lost_membership_ends_streams(service: Service) -> None:
    owner, organization = await founder(service)
    user, _ = await new_user(service)
    membership = await join(service, user, organization.id, Role.MEMBER)
    async with event_stream(as_user(service, user), EVENTS) as stream:
        assert (await owner.delete(f"{MEMBERSHIPS}{membership}/")).status == 204
        await end_of(stream)


async def test_end_of_a_run_ends_its_streams(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    run = UUID((await api.post(f"/api/cloud/agents/{agent['id']}/run/")).body["run"])
    token = RunTokens(SETTINGS.token_secret).issue(run, datetime.now(UTC), timedelta(hours=1))
    client = service.nobody.with_authorization(f"Bearer {token}")
    async with event_stream(client, f"/api/cloud/agents/{agent['id']}/events/") as stream:
        await service.registry.ask(UUID(agent["id"]), StopRequest(force=True, caller="operator"))
        await end_of(stream)


async def test_closed_feed_ends_streams_and_waits(service: Service, api: Api) -> None:
    async with event_stream(api, EVENTS) as stream:
        waiting = asyncio.create_task(api.get(f"{EVENTS}?wait=60"))
        await opened(service, 2)
        for node in service.nodes:
            await node.app[EVENT_FEED].close()
        await end_of(stream)
        assert (await waiting).status == 503
    assert (await api.get(EVENTS)).status == 503


async def test_disconnected_client_frees_its_stream(service: Service, api: Api) -> None:
    async with event_stream(api, EVENTS) as stream:
        assert count_open(service) == 1
        stream.response.close()
    await opened(service, 0)


async def test_client_gone_before_stream_begins_is_no_error(service: Service, api: Api) -> None:
    request = f"GET {EVENTS} HTTP/1.1\r\nHost: test\r\nAuthorization: {api.authorization}\r\n\r\n".encode()
    with capture_logs() as logged:
        for _ in range(20):
            _, writer = await asyncio.open_connection(*service.address)
            writer.write(request)
            writer.transport.abort()
        async with event_stream(api, EVENTS):
            await opened(service, 1)
    assert [line for line in logged if line["log_level"] == "error"] == []
