"""Tools of adapters over HTTP: free parameters, limits, and unique names."""

from typing import Any

import pytest

from tests.web.api.toolbox.toolbox import OUTSIDE, PORT, TOOLS, create_adapter, create_tool
from tests.web.api.unknown import UNKNOWN_ID, UNKNOWN_ID_MESSAGES
from tests.web.conftest import Api

TOOL_LIMITS: list[tuple[dict[str, Any], list[str]]] = [
    ({"name": ""}, ["This field may not be blank."]),
    ({"name": "x" * 256}, ["Ensure this field has no more than 255 characters."]),
    ({"handler": "x" * 256}, ["Ensure this field has no more than 255 characters."]),
    ({"url": "nowhere"}, ["Enter a valid URL."]),
    ({"url": "http://x.io/" + "x" * 200}, ["Ensure this field has no more than 200 characters."]),
    ({"detail_url": "http://x.io/" + "x" * 200}, ["Ensure this field has no more than 200 characters."]),
    ({"parameters": {"properties": {"a": {"$ref": "other.json"}}}}, OUTSIDE),
    ({"parameters": ["\x00"]}, ["Null characters are not allowed."]),
]


@pytest.mark.parametrize("parameters", [None, PORT, {"type": "no type"}, ["anything"], "else", 7])
async def test_tool_parameters_may_be_any_json(api: Api, parameters: Any) -> None:
    adapter = await create_adapter(api)
    tool = await create_tool(api, adapter, parameters=parameters)
    assert tool == {
        "id": tool["id"],
        "adapter": adapter["id"],
        "name": "send",
        "description": "",
        "created_at": tool["created_at"],
        "parameters": parameters,
        "url": "",
        "handler": "",
        "detail_url": "",
    }
    path = f"{TOOLS}{tool['id']}/"
    assert (await api.get(path)).body == tool
    changes = {"url": "https://example.com/send", "handler": "channel:email"}
    assert (await api.patch(path, changes)).body == {**tool, **changes}
    assert (await api.patch(path, {"parameters": None})).body["parameters"] is None
    assert (await api.delete(path)).status == 204
    assert (await api.get(path)).status == 404


async def test_blank_parameters_in_a_form_are_null(api: Api) -> None:
    adapter = await create_adapter(api)
    form = {"adapter": adapter["id"], "name": "lookup", "parameters": ""}
    answer = await api.request("POST", TOOLS, data=form)
    assert (answer.status, answer.body["parameters"]) == (201, None)
    answer = await api.request("POST", TOOLS, data={**form, "parameters": "{"})
    assert (answer.status, list(answer.body)) == (400, ["parameters"])


async def test_tool_fields_have_limits(api: Api) -> None:
    adapter = await create_adapter(api)
    tool = await create_tool(api, adapter)
    for changes, messages in TOOL_LIMITS:
        expected = (400, dict.fromkeys(changes, messages))
        answer = await api.patch(f"{TOOLS}{tool['id']}/", changes)
        assert (answer.status, answer.body) == expected
        answer = await api.post(TOOLS, {"adapter": adapter["id"], "name": "other", **changes})
        assert (answer.status, answer.body) == expected
    assert (await api.post(TOOLS, {"adapter": UNKNOWN_ID, "name": "x"})).body == {
        "adapter": UNKNOWN_ID_MESSAGES
    }
    required = ["This field is required."]
    assert (await api.post(TOOLS, {})).body == {"adapter": required, "name": required}


async def test_tool_name_is_unique_within_its_adapter(api: Api) -> None:
    adapter, second = await create_adapter(api), await create_adapter(api)
    await create_tool(api, adapter, name="send")
    call = await create_tool(api, adapter, name="call")
    await create_tool(api, second, name="send")
    taken = (400, {"non_field_errors": ["The fields adapter, name must make a unique set."]})
    answer = await api.post(TOOLS, {"adapter": adapter["id"], "name": " send "})
    assert (answer.status, answer.body) == taken
    answer = await api.patch(f"{TOOLS}{call['id']}/", {"name": "send"})
    assert (answer.status, answer.body) == taken
