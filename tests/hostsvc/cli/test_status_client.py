"""The client of the status endpoints: what it asks for, and what it says if it gets no answer."""

from uuid import UUID

import pytest

from hostsvc.cli.status_client import StatusUnavailable, status_client
from tests.hostsvc.cli.answers import serving_json

AGENT = UUID(int=7)
TOKEN = "operators-only"


async def test_client_reads_status_and_snapshots_with_its_token() -> None:
    answers = {
        "/healthz": {"status": "ok"},
        "/status/": {"agents": {}},
        "/status/supervisors/?limit=20": [{"agent": "a"}, {"agent": "b"}],
        "/status/supervisors/?limit=20&phase=holding": [{"agent": "b"}],
        f"/status/supervisors/{AGENT}/": {"agent": str(AGENT)},
    }
    async with serving_json(answers, TOKEN) as url, status_client(url) as client:
        await client.require_service()
        client.token = TOKEN
        assert await client.overview() == {"agents": {}}
        assert [each["agent"] for each in await client.supervisors(None, 20)] == ["a", "b"]
        assert [each["agent"] for each in await client.supervisors("holding", 20)] == ["b"]
        assert await client.supervisor(AGENT) == {"agent": str(AGENT)}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "has another operator token: set operator.token to it"),
        (404, "returned 404, so it is probably not hostsvc: correct --url"),
        (503, "is standing by, or its database is unavailable"),
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


async def test_missing_service_is_reported_with_its_url() -> None:
    async with serving_json({}) as url:
        pass
    async with status_client(url) as client:
        with pytest.raises(StatusUnavailable, match=f"^no service answers at {url}: start it, or set --url$"):
            await client.require_service()
