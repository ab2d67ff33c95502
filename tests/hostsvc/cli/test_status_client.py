"""The client of the status endpoints: what it asks for, and what it says if it gets no answer."""

from uuid import UUID

import pytest

from hostsvc.cli.status_client import (
    DatabaseLost,
    StatusUnavailable,
    status_client,
)
from tests.hostsvc.cli.answers import serving_json

AGENT = UUID(int=7)
TOKEN = "operators-only"


async def test_client_reads_status_and_snapshots_with_its_token() -> None:
    answers = {
        "/healthz": {"status": "ok"},
        "/status/": {"agents": {}},
        "/status/supervisors/?limit=20": [{"agent": "a"}, {"agent": "b"}],
        "/status/supervisors/?limit=20&phase=holding": [{"agent": "b"}],
        "/readyz": 503,
        f"/status/supervisors/{AGENT}/": {"agent": str(AGENT)},
    }
    async with serving_json(answers, TOKEN) as url, status_client(url) as client:
        await client.require_service()
        client.token = TOKEN
        assert await client.overview() == {"agents": {}}
        assert [each["agent"] for each in await client.supervisors(20)] == ["a", "b"]
        assert [each["agent"] for each in await client.supervisors(20, phase="holding")] == ["b"]
        assert await client.supervisor(AGENT) == {"agent": str(AGENT)}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "has another operator token: set operator.token or HOSTSVC__OPERATOR__TOKEN to it"),
        (404, "returned 404, so it is probably not hostsvc: correct --url"),
        (500, "returned 500, so it is probably not hostsvc"),
    ],
)
async def test_refusal_is_explained_by_its_status(status: int, message: str) -> None:
    async with serving_json({"/status/": status}) as url, status_client(url) as client:
        with pytest.raises(StatusUnavailable) as caught:
            await client.overview()
    assert message in str(caught.value)
    assert url in str(caught.value)


async def test_unknown_agent_is_named() -> None:
    async with serving_json({}) as url, status_client(url) as client:
        with pytest.raises(StatusUnavailable, match=f"^there is no agent {AGENT}$"):
            await client.supervisor(AGENT)


async def test_other_program_at_address_is_reported_as_such() -> None:
    for answers in ({}, {"/healthz": 503}):
        async with serving_json(answers) as url, status_client(url) as client:
            with pytest.raises(StatusUnavailable, match="probably not hostsvc") as caught:
                await client.require_service()
        assert caught.value.exit_code == 2


async def test_lost_database_is_told_from_a_service_that_does_not_answer() -> None:
    lost = {"/healthz": {"status": "ok"}, "/status/supervisors/?limit=20": 503, "/readyz": 503}
    async with serving_json(lost) as url, status_client(url) as client:
        await client.require_service()
        with pytest.raises(DatabaseLost, match=f"the service at {url} runs, but cannot read") as database:
            await client.supervisors(20)
    assert database.value.exit_code == 5
