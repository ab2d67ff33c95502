"""The Expect header."""

from tests.web.conftest import Service

AGENTS = "/api/cloud/agents/"


async def test_unknown_expectation_is_refused_in_json(service: Service) -> None:
    headers = {"Expect": "wizardry", "X-Request-ID": "mine"}
    for method, path in (("GET", "/healthz"), ("PUT", "/healthz"), ("GET", "/nowhere/"), ("GET", AGENTS)):
        answer = await service.nobody.request(method, path, headers=headers)
        assert (answer.status, answer.body) == (417, {"detail": "Expectation Failed."})
        assert answer.headers["X-Request-ID"] == "mine"
