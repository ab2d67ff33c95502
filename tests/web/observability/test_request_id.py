"""Request ids: echoed, replaced, unique."""

from tests.web.conftest import Api

AGENTS = "/api/cloud/agents/"


async def test_usable_request_id_is_echoed_and_others_replaced(api: Api) -> None:
    for given in ("abc", "x" * 128, "a b~"):
        assert (await api.get(AGENTS, headers={"X-Request-ID": given})).headers["X-Request-ID"] == given
    for given in ("", "x" * 129, "\u00fc"):
        answer = await api.get(AGENTS, headers={"X-Request-ID": given})
        assert answer.headers["X-Request-ID"] not in {"", given}


async def test_every_response_has_unique_id(api: Api) -> None:
    answers = [await api.get(path) for path in (AGENTS, "/nowhere/", "/healthz", AGENTS)]
    assert len({answer.headers["X-Request-ID"] for answer in answers}) == 4
