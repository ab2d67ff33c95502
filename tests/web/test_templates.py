"""Templates over HTTP."""

from typing import Any

from tests.web.conftest import Api

TEMPLATES = "/api/templates/"
MOST = 2**31 - 1
TOO_MUCH = ["Ensure this value is less than or equal to 2147483647."]
TOO_LONG = ["Ensure this field has no more than 255 characters."]

LIMITS: list[tuple[dict[str, Any], list[str]]] = [
    ({"name": ""}, ["This field may not be blank."]),
    ({"name": "x" * 256}, TOO_LONG),
    ({"default_model": "x" * 256}, TOO_LONG),
    ({"default_reasoning_effort": ""}, ['"" is not a valid choice.']),
    ({"thinking_max_tokens": MOST + 1}, TOO_MUCH),
    ({"max_turns": -1}, ["Ensure this value is greater than or equal to 0."]),
    ({"debounce_window_seconds": None}, ["This field may not be null."]),
    ({"debounce_window_seconds": True}, ["A valid integer is required."]),
    ({"harness_git_ref": "x" * 256}, TOO_LONG),
    ({"agent_created_webhook_url": "ftp://x"}, ["Enter a valid URL."]),
    (
        {"agent_created_webhook_url": "http://x.io/" + "x" * 200},
        ["Ensure this field has no more than 200 characters."],
    ),
    ({"tool_call_secret": "x" * 256}, TOO_LONG),
]


async def test_only_a_name_is_required(api: Api) -> None:
    created = await api.create(TEMPLATES, name=" Clerk ")
    assert created == {
        "id": created["id"],
        "organization": created["organization"],
        "name": "Clerk",
        "created_at": created["created_at"],
        "description": "",
        "system_prompt": "",
        "default_model": "",
        "default_reasoning_effort": "none",
        "thinking_max_tokens": 0,
        "max_turns": 0,
        "debounce_window_seconds": 0,
        "harness_git_ref": "",
        "agent_created_webhook_url": "",
        "tool_call_secret": "",
    }
    assert (await api.get(f"{TEMPLATES}{created['id']}/")).body == created


async def test_a_change_leaves_the_rest_alone(api: Api) -> None:
    created = await api.create_template(system_prompt=" Be brief. ", max_turns=MOST)
    changes = {"debounce_window_seconds": "60", "agent_created_webhook_url": "https://example.com/hook"}
    answer = await api.patch(f"{TEMPLATES}{created['id']}/", changes)
    assert (answer.status, answer.body) == (200, {**created, **changes, "debounce_window_seconds": 60})


async def test_fields_have_their_limits(api: Api) -> None:
    created = await api.create_template()
    for changes, messages in LIMITS:
        answer = await api.patch(f"{TEMPLATES}{created['id']}/", changes)
        assert (answer.status, answer.body) == (400, dict.fromkeys(changes, messages))


async def test_the_path_is_judged_before_the_body(api: Api, other: Api) -> None:
    created = await api.create_template()
    bad = {"name": ""}
    assert (await other.patch(f"{TEMPLATES}{created['id']}/", bad)).status == 403
    assert (await api.patch(f"{TEMPLATES}01890a5d-ac96-774b-bcce-b302099a8057/", bad)).status == 404
    assert (await api.patch(f"{TEMPLATES}7/", bad)).status == 404
    assert (await api.with_authorization(None).patch(f"{TEMPLATES}7/", bad)).status == 401
