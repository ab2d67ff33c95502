"""Results that asynchronous tools send: each with the token of its call, and each call takes one."""

from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import pytest

from storage.ids import new_id
from supervisors.tools.parking import ResultAddresses
from tests.receiver import Receiver, answering_json, receiving
from tests.web.api.toolbox.test_adapter_tool_calls import agent_with, call
from tests.web.conftest import SETTINGS, Answer, Api
from web.api.toolbox.call_results import EXACTLY_ONE, UNKNOWN

ADDRESSES = ResultAddresses("", SETTINGS.token_secret)


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiving() as server:
        server.answer = answering_json('{"expires_in": 3600}', 202)
        yield server


@pytest.fixture
async def waiting(api: Api, server: Receiver) -> dict[str, str]:
    """Call an asynchronous tool, and return where it sends its result."""
    agent = await agent_with(api, {"name": "transfer", "url": server.url})
    answer = await call(api, agent, "transfer")
    assert answer.status == 200
    result = answer.body["result"]
    assert result["waiting_for"] == "result"
    address: dict[str, str] = server.requests[0].data["result"]
    assert address == {"url": f"/api/toolbox/calls/{result['call']}/result/", "token": address["token"]}
    return address


async def send(api: Api, address: dict[str, str], body: Any) -> Answer:
    tool = api.with_authorization(f"Bearer {address['token']}")
    return await tool.post(address["url"], body)


async def told(api: Api) -> list[Any]:
    notifications: list[Any] = (await api.get("/api/defaults/notifications/")).body
    return [each for each in notifications if each["source"] == "system"]


async def test_result_is_taken_once_and_told_once(api: Api, waiting: dict[str, str]) -> None:
    first = await send(api, waiting, {"result": {"paid": 10}})
    again = await send(api, waiting, {"result": {"paid": 10}})
    other = await send(api, waiting, {"result": {"paid": 11}})

    assert (first.status, first.body["state"]) == (200, "done")
    assert (again.status, again.body) == (200, first.body)
    assert (other.status, other.body) == (409, {"detail": "The call takes no result: The tool has answered."})
    [notification] = await told(api)
    assert notification["source_id"] == first.body["id"]
    assert 'Result: {"paid":10}' in notification["body"]


async def test_error_is_taken_in_place_of_a_result(api: Api, waiting: dict[str, str]) -> None:
    answer = await send(api, waiting, {"error": "The bank is closed."})

    assert (answer.status, answer.body["state"]) == (200, "failed")
    [notification] = await told(api)
    assert "The bank is closed." in notification["body"]


async def test_token_is_good_for_its_call_alone(api: Api, waiting: dict[str, str]) -> None:
    other = ADDRESSES.of(new_id())
    for address in (
        {**waiting, "token": other["token"]},
        {**waiting, "token": ""},
        {**waiting, "token": "\u00e4"},
        {**other, "token": waiting["token"]},
        {**waiting, "url": "/api/toolbox/calls/none/result/"},
    ):
        answer = await send(api, address, {"result": 1})
        assert (answer.status, answer.body) == (401, {"detail": UNKNOWN})
    assert (await api.post(waiting["url"], {"result": 1})).status == 401, "a key is no token of a call"
    assert await told(api) == []


async def test_result_before_the_call_is_stored_comes_again(api: Api) -> None:
    answer = await send(api, ADDRESSES.of(new_id()), {"result": 1})

    assert answer.status == 404
    assert answer.headers["Retry-After"] == "1"


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        1,
        {"result": 1, "error": "x"},
        {"error": ""},
        {"error": " "},
        {"error": "\0"},
        {"error": None},
        {"error": "x" * 2001},
        {"results": 1},
    ],
)
async def test_body_without_one_outcome_is_refused(api: Api, waiting: dict[str, str], body: Any) -> None:
    answer = await send(api, waiting, body)
    assert (answer.status, answer.body) == (400, {"detail": EXACTLY_ONE})
    assert (await send(api, waiting, {"result": None})).status == 200


@pytest.mark.parametrize("raw", ["", "{", '{"result": NaN}', '{"result": 123456789012345678901234567890}'])
async def test_broken_result_is_refused(api: Api, waiting: dict[str, str], raw: str) -> None:
    headers = {"Authorization": f"Bearer {waiting['token']}", "Content-Type": "application/json"}
    answer = await api.request("POST", waiting["url"], data=raw, headers=headers)
    assert answer.status == 400


async def test_result_may_be_long_but_not_endless(api: Api, waiting: dict[str, str]) -> None:
    headers = {"Authorization": f"Bearer {waiting['token']}", "Content-Type": "application/json"}
    endless = BytesIO(b'"' * 1_048_577)
    assert (await api.request("POST", waiting["url"], data=endless, headers=headers)).status == 413
    assert (await send(api, waiting, {"result": "x" * 1_000_000})).status == 200
    [notification] = await told(api)
    assert "Open it with the tool open_sms_attachment" in notification["body"]
