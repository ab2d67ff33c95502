"""The status endpoints, which only operators may see."""

import aiohttp
import pytest

from tests.acceptance.client import Client, Json, eventually, sign_up
from tests.acceptance.services import OPERATOR_TOKEN, Services


async def test_operator_sees_state_of_service_and_of_each_agent(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await services.start(supervisors={"scan_interval_seconds": 0.2})
    client = await sign_up(session, service.url)
    operator = Client(session, service.url, f"Bearer {OPERATOR_TOKEN}")
    asleep = await client.create_agent(name="Sleeper")
    holding = await client.create_agent(name="Holder", debounce_window_seconds=3600)
    blocker = await client.notify(holding, source="sms")
    await client.supervisor_in("holding", holding)

    async def poll() -> Json | None:
        """Return the status once the agent counter has run and the hold is stored."""
        status: Json = await operator.get("/status/")
        is_held = status["supervisors"]["by_phase"].get("holding") == 1
        return status if is_held and status["oldest_uncleared_high_seconds"] is not None else None

    status = await eventually(poll, "the agents to be counted")
    assert (status["service"]["state"], status["service"]["reasons"]) == ("ready", [])
    assert status["agents"] == {"running": 0, "sleeping": 2, "archived": 0}
    assert (status["runs"]["running"], status["runs"]["queued"]) == (0, 0)
    assert status["oldest_uncleared_high_seconds"] > 0
    assert 0 <= status["loop_lag_ms"]["p50"] <= status["loop_lag_ms"]["p99"] <= status["loop_lag_ms"]["max"]

    snapshots = {each["agent"]: each for each in await operator.get("/status/supervisors/")}
    assert {agent: each["phase"] for agent, each in snapshots.items()} == {
        asleep: "asleep",
        holding: "holding",
    }
    one = await operator.get(f"/status/supervisors/{holding}/")
    assert one["name"] == "Holder"
    assert one["why"].startswith("Holding since ")
    assert one["next_wake"]["because"] == "The debounce window over its messages ends."
    assert one["blockers"] == [blocker["id"]]
    [only] = await operator.get("/status/supervisors/", phase="holding")
    assert only["agent"] == holding


@pytest.mark.parametrize("path", ["/status/", "/status/supervisors/", "/status/supervisors/{agent}/"])
async def test_status_needs_the_operator_token(
    services: Services, session: aiohttp.ClientSession, path: str
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    path = path.format(agent=await client.create_agent())
    wrong = ("", client.authorization, "Bearer nonsense", f"Token {OPERATOR_TOKEN}")
    for authorization in wrong:
        assert await Client(session, service.url, authorization).status_of(path) == 401, authorization
    operator = Client(session, service.url, f"Bearer {OPERATOR_TOKEN}")
    assert await operator.status_of(path) == 200
    assert await operator.status_of("/api/cloud/agents/") == 401
