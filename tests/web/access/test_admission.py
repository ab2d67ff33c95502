"""Admission: the rate limits of credentials and addresses, over HTTP."""

from ipaddress import ip_network

import pytest

from storage.postgres.paging import CHUNK_BYTES
from tests.web.conftest import Api, StartService

pytestmark = pytest.mark.one_node  # each node grants its share of a quota

AGENTS = "/api/cloud/agents/"
DOCUMENTS = "/api/defaults/documents/"
LOGIN = "/api/organizations/auth/login/"
NOBODY = {"email": "nobody@example.org", "password": "not the password"}
PROXIES = (ip_network("127.0.0.1/32"),)


async def test_key_over_its_limit_is_refused_before_any_effect(start_service: StartService) -> None:
    service = await start_service(requests_per_minute=3)
    api, other = await service.new_organization(), await service.new_organization()
    answers = [await api.post(AGENTS, {"name": "Ann", "model": "builtin/inbox"}) for _ in range(4)]
    assert [answer.status for answer in answers] == [201, 201, 201, 429]
    assert [answer.headers["RateLimit"] for answer in answers] == [
        '"default";r=2;t=20',
        '"default";r=1;t=20',
        '"default";r=0;t=20',
        '"default";r=0;t=20',
    ]
    assert {answer.headers["RateLimit-Policy"] for answer in answers} == {'"default";q=3;w=60'}
    refused = answers[-1]
    assert refused.headers["Retry-After"] == "20"
    assert refused.body == {
        "detail": "Request was throttled. Expected available in 20 seconds. "
        "limits.requests_per_minute is 3 for each API key, user or run."
    }
    assert await service.storage.pool.fetchval("SELECT count(*) FROM agent") == 3
    assert (await other.get(AGENTS)).status == 200


async def test_refusal_does_not_wait_for_the_body(start_service: StartService) -> None:
    service = await start_service(requests_per_minute=1)
    api = await service.new_organization()
    assert (await api.get(AGENTS)).status == 200
    refused = await api.request("POST", AGENTS, data=b"{", headers={"Content-Type": "text/nonsense"})
    assert refused.status == 429  # not 415


async def test_streamed_list_carries_the_quota(start_service: StartService) -> None:
    service = await start_service(requests_per_minute=10)
    api = await service.new_organization()
    for _ in range(2):
        await api.create(DOCUMENTS, title="A", content="x" * CHUNK_BYTES)
    answer = await api.get(DOCUMENTS)
    assert (answer.status, len(answer.body)) == (200, 2)
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert answer.headers["RateLimit"] == '"default";r=7;t=6'


async def test_callers_have_no_limit_by_default(api: Api) -> None:
    answer = await api.get(AGENTS)
    assert answer.status == 200
    assert not [name for name in answer.headers if name.lower().startswith("ratelimit")]


async def test_address_over_its_limit_cannot_log_in(start_service: StartService) -> None:
    service = await start_service(anonymous_requests_per_minute=2)
    answers = [await service.nobody.post(LOGIN, NOBODY) for _ in range(3)]
    assert [answer.status for answer in answers] == [401, 401, 429]
    assert answers[-1].headers["RateLimit"] == '"anonymous";r=0;t=30'
    assert "anonymous_requests_per_minute" in answers[-1].body["detail"]


async def test_only_bad_keys_count_for_their_address(start_service: StartService) -> None:
    service = await start_service(anonymous_requests_per_minute=2)
    api = await service.new_organization()
    bad = api.with_authorization("Bearer not-a-key")
    wrong_operator = service.operator.with_authorization("Bearer wrong")
    answers = [
        await bad.get(AGENTS),
        await wrong_operator.get("/status/"),
        await bad.delete("/api/templates/"),
    ]
    assert [answer.status for answer in answers] == [401, 401, 429]
    assert (await api.get(AGENTS)).status == 200
    assert (await service.operator.get("/status/")).status == 200


async def test_health_and_metrics_are_never_limited(start_service: StartService) -> None:
    service = await start_service(anonymous_requests_per_minute=1, open_metrics=True)
    assert (await service.nobody.get("/api/schema/")).status == 200
    assert (await service.nobody.get("/api/schema/")).status == 429
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await service.nobody.get(path)).status == 200


async def test_clients_behind_a_proxy_are_counted_apart(start_service: StartService) -> None:
    service = await start_service(anonymous_requests_per_minute=1, trusted_proxies=PROXIES)

    async def status_for(address: str) -> int:
        answer = await service.nobody.get("/api/schema/", headers={"X-Forwarded-For": address})
        return answer.status

    assert [await status_for(address) for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1")] == [
        200,
        200,
        429,
    ]
