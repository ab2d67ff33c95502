"""A service that is too busy refuses what arrives before it has any effect, and takes it later."""

import asyncio
from uuid import uuid4

from storage.postgres.pool import Pool
from tests.web.conftest import Api, Service

NOTIFICATIONS = "/api/defaults/notifications/"
BUSY = {"detail": "The service is busy; nothing of this request was done."}
SHARE = 4  # places that one organization can have


async def count(pool: Pool) -> int:
    stored: int = await pool.fetchval("SELECT count(*) FROM notification")
    return stored


async def wait_for_arrivals(service: Service, number: int) -> None:
    async with asyncio.timeout(20):
        while f"{number} of" not in repr(service.registry.arrivals):  # noqa: ASYNC110 -- nothing signals it
            await asyncio.sleep(0)


async def test_arrivals_beyond_the_bound_are_refused_without_effect(
    service: Service, api: Api, other: Api, pool: Pool
) -> None:
    """Lock the table, so that nothing can be committed. A flood leaves room for another organization."""
    agent, theirs = await api.create_agent(), await other.create_agent()
    service.registry.arrivals.limit = 2 * SHARE
    body = {"agent": agent["id"], "title": "Hello", "priority": "high"}
    key = {"Idempotency-Key": str(uuid4())}
    async with pool.transaction() as connection:
        await connection.execute("LOCK TABLE notification IN SHARE MODE")
        flood = [asyncio.create_task(api.post(NOTIFICATIONS, body)) for _ in range(SHARE)]
        await wait_for_arrivals(service, SHARE)

        refused = await api.post(NOTIFICATIONS, body, headers=key)
        unread = await api.request("POST", NOTIFICATIONS, data=b"{not even JSON")
        modest = asyncio.create_task(other.post(NOTIFICATIONS, {**body, "agent": theirs["id"]}))
        await wait_for_arrivals(service, SHARE + 1)
        health = await service.nobody.get("/healthz")

    assert (refused.status, refused.body, refused.headers["Retry-After"]) == (503, BUSY, "1")
    assert (unread.status, unread.body) == (503, BUSY), "the body was read before the refusal"
    assert health.status == 200
    assert [answer.status for answer in await asyncio.gather(*flood, modest)] == [201] * (SHARE + 1)
    assert await count(pool) == SHARE + 1

    later = await api.post(NOTIFICATIONS, body, headers=key)
    assert (later.status, later.headers.get("Idempotency-Replayed")) == (201, None)
    assert await count(pool) == SHARE + 2


async def test_status_and_metrics_tell_what_gives_way(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    service.registry.arrivals.limit = 0
    service.registry.slots.set_pace(7, 3.0)
    first = await api.post(NOTIFICATIONS, {"agent": agent["id"], "title": "Hello"})
    assert first.status == 201, "an organization without a place always gets one"

    told = (await service.operator.get("/status/")).body["admission"]
    metrics = (await service.operator.get("/metrics")).body

    assert told == {
        "starting": 0,
        "starting_limit": 7,
        "starts_per_second": 3.0,
        "arrivals_limit": 0,
        "arrivals_per_second": None,
        "refused": 0,
    }
    assert "hostsvc_runs_starting_limit 7.0" in metrics
    assert "hostsvc_arrivals_limit 0.0" in metrics
    assert "hostsvc_arrivals_refused_total 0.0" in metrics
