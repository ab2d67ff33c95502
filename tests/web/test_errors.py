"""Errors as responses: redirects and refusals."""

import asyncio
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from storage.errors import AnsweredBefore, NotUnique, ReferenceMissing
from storage.ids import new_id
from tests.web.conftest import Api, Service
from web.errors import Invalid, refusing_constraint_errors

STRANGE_LINES = (
    b"GET /api/cloud/agents/?search=\xff HTTP/1.1",
    b"GET /api/cloud/agents/?purpose=\xff HTTP/1.1",
    b"GET /api/cloud/agents/?search=%ff%00 HTTP/1.1",
    b"GET /api/cloud/agents/?purpose=%00 HTTP/1.1",
    b"GET /api/cloud/agents/\xff/ HTTP/1.1",
    b"GET /api/cloud/agents/%00/ HTTP/1.1",
    b"GET /\xff HTTP/1.1",
)


async def test_unknown_path_is_not_found(api: Api) -> None:
    answer = await api.get("/api/cloud/robots/")
    assert (answer.status, answer.body) == (404, {"detail": "Not found."})


async def test_unavailable_database_asks_for_retry(service: Service, api: Api) -> None:
    for node in service.nodes:
        await node.storage.pool.finish_writes()
    answer = await api.post("/api/defaults/notifications/", {"agent": str(new_id()), "title": "x"})
    assert (answer.status, answer.body) == (503, {"detail": "The database is not available."})
    assert int(answer.headers["Retry-After"]) > 0


async def test_refusals_of_the_database_are_reported_instead_of_logged(service: Service, api: Api) -> None:
    for node in service.nodes:
        await node.storage.pool.finish_writes()
    with capture_logs() as logged:
        for _ in range(3):
            await api.post("/api/defaults/notifications/", {"agent": str(new_id()), "title": "x"})
    assert sum(len(node.health.refusals) for node in service.nodes) == 3
    assert [line for line in logged if line["log_level"] != "debug"] == []


async def test_strange_bytes_in_path_never_crash(service: Service, api: Api) -> None:
    head = f"\r\nHost: x\r\nConnection: close\r\nAuthorization: {api.authorization}\r\n\r\n"
    for line in STRANGE_LINES:
        reader, writer = await asyncio.open_connection(*service.address)
        writer.write(line + head.encode())
        status_line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        assert int(status_line.split()[1]) in {200, 400, 404}, line


async def test_missing_slash_never_redirects_to_another_host(service: Service) -> None:
    for line in (b"GET //evil.example/api/cloud/agents", b"GET //evil.example/api/cloud/agents?x=1"):
        reader, writer = await asyncio.open_connection(*service.address)
        writer.write(line + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        head = (await reader.read()).partition(b"\r\n\r\n")[0].lower()
        writer.close()
        await writer.wait_closed()
        assert head.startswith(b"http/1.1 404 ")
        assert b"\r\nlocation:" not in head


AGENT = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def test_failed_constraint_becomes_message_about_its_fields() -> None:
    for error, messages in (
        (
            NotUnique("adapter", "name"),
            {"non_field_errors": ["The fields adapter, name must make a unique set."]},
        ),
        (ReferenceMissing("agent"), {"agent": [f'Invalid pk "{AGENT}" - object does not exist.']}),
    ):
        with pytest.raises(Invalid) as refused, refusing_constraint_errors({"agent_id": AGENT}):
            raise error
        assert refused.value.body == messages
    with pytest.raises(AnsweredBefore), refusing_constraint_errors({}):
        raise AnsweredBefore
