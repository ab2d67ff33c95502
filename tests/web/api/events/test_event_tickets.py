"""Tickets: browsers open event streams with them, and nothing else."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from storage.ids import new_id
from tests.event_streams import event_stream
from tests.web.conftest import SETTINGS, Api, Service
from tests.web.people import as_user, founder, new_user
from web.credentials.formats import RunTokens, StreamTickets, TicketHolder

EVENTS = "/api/events/"
TICKETS = f"{EVENTS}tickets/"
KEYS = "/api/organizations/api-keys/"


async def ticket_of(api: Api) -> str:
    ticket: str = (await api.create(TICKETS))["ticket"]
    return ticket


async def status_with(service: Service, ticket: str, path: str = EVENTS) -> int:
    return (await service.nobody.get(path, params={"ticket": ticket})).status


async def test_ticket_of_key_or_user_opens_streams(service: Service, api: Api) -> None:
    user, _ = await founder(service)
    for client in (api, user):
        agent = await client.create_agent()
        ticket = await ticket_of(client)
        for path in (EVENTS, f"/api/cloud/agents/{agent['id']}/events/"):
            async with event_stream(service.nobody, f"{path}?ticket={ticket}") as stream:
                assert (await stream.next()).retry == 1000


async def test_ticket_reaches_what_its_owner_reaches(service: Service, api: Api, other: Api) -> None:
    agent = await api.create_agent()
    path = f"/api/cloud/agents/{agent['id']}/events/"
    assert await status_with(service, await ticket_of(api), path) == 200
    assert await status_with(service, await ticket_of(other), path) == 403


async def test_ticket_opens_nothing_but_event_streams(service: Service, api: Api) -> None:
    ticket = await ticket_of(api)
    for path in ("/api/cloud/agents/", TICKETS, "/status/events/", "/api/organizations/api-keys/"):
        assert await status_with(service, ticket, path) in {401, 405}, path
    assert (await service.nobody.post(f"{TICKETS}?ticket={ticket}", {})).status == 401
    for scheme in ("Bearer", "Token"):
        assert (await service.nobody.with_authorization(f"{scheme} {ticket}").get(EVENTS)).status == 401


async def test_tokens_of_other_kinds_are_no_tickets(service: Service) -> None:
    user, _ = await new_user(service)
    token = str(as_user(service, user).authorization).partition(" ")[2]
    answer = await service.nobody.get(EVENTS, params={"ticket": token})
    assert (answer.status, answer.body) == (
        401,
        {"detail": "The ticket is invalid or has expired: get a new one."},
    )


def test_ticket_expires_after_a_minute() -> None:
    tickets, now = StreamTickets(SETTINGS.token_secret), datetime.now(UTC)
    holder = TicketHolder(new_id(), 3)
    text, expires_at = tickets.issue(holder, now)
    assert tickets.read(text, expires_at - timedelta(seconds=1)) == holder
    assert tickets.read(text, expires_at) is None
    assert expires_at <= now + timedelta(minutes=1)
    assert StreamTickets("t" * 48).read(text, now) is None


async def test_ticket_ends_with_its_credential(service: Service, api: Api) -> None:
    key = await api.create(KEYS, name="short")
    client = service.nobody.with_authorization(f"Bearer {key['key']}")
    ticket = await ticket_of(client)
    await api.delete(f"{KEYS}{key['id']}/")
    assert await status_with(service, ticket) == 401

    user, _ = await founder(service)
    ticket = await ticket_of(user)
    assert await status_with(service, ticket) == 200
    assert (await user.post("/api/organizations/auth/logout/")).status < 300
    assert await status_with(service, ticket) == 401


async def test_user_without_organizations_gets_no_ticket(service: Service) -> None:
    user, organization = await new_user(service)
    await service.storage.pool.execute("DELETE FROM membership WHERE organization_id = $1", organization.id)
    answer = await as_user(service, user).post(TICKETS, {})
    assert answer.status == 403


async def test_run_follows_its_own_agent_without_tickets(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    run = (await api.post(f"/api/cloud/agents/{agent['id']}/run/")).body["run"]
    token = RunTokens(SETTINGS.token_secret).issue(UUID(run), datetime.now(UTC), timedelta(hours=1))
    client = service.nobody.with_authorization(f"Bearer {token}")
    assert (await client.post(TICKETS, {})).status == 403
    assert (await client.get(EVENTS)).status == 403
    path = f"/api/cloud/agents/{agent['id']}"
    for own in (f"{path}/events/", f"{path}/runs/{run}/events/"):
        assert (await client.get(own)).status == 200
    foreign = await api.create_agent()
    assert (await client.get(f"/api/cloud/agents/{foreign['id']}/events/")).status == 403
