"""The addresses at `/` and `/api/`."""

from tests.web.conftest import Service

OPERATOR_ONLY = {"/status/", "/metrics"}


async def test_root_names_only_addresses_that_answer(service: Service) -> None:
    answer = await service.nobody.get("/")
    assert answer.status == 200
    assert answer.body["service"] == "hostsvc"
    paths = {value for name, value in answer.body.items() if name != "service"}
    for path in paths:
        expected = 401 if path in OPERATOR_ONLY else 200
        assert (await service.nobody.get(path)).status == expected, path
    assert paths >= OPERATOR_ONLY


async def test_root_sends_browsers_to_the_console(service: Service) -> None:
    answer = await service.nobody.get("/", headers={"Accept": "text/html,application/xml;q=0.9,*/*;q=0.8"})
    assert (answer.status, answer.headers["Location"]) == (302, "/console/")
    assert answer.headers["Vary"] == "Accept"
    assert (await service.nobody.get("/", headers={"Accept": "*/*"})).status == 200


async def test_api_root_names_every_list(service: Service) -> None:
    answer = await service.nobody.get("/api/")
    assert answer.status == 200
    assert {answer.body["documentation"], answer.body["schema"]} == {"/api/docs/", "/api/schema/"}
    lists = answer.body["lists"]
    for path in lists:
        assert (await service.nobody.get(path)).status == 401, path
    assert {"/api/cloud/agents/", "/api/tracing/traces/list/"} <= set(lists)
    assert not any("{" in path for path in lists)
