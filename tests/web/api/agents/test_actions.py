"""Actions on many agents over HTTP: ids or filters, dry runs, parts, undo and refusals."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from storage.agents.actions import AgentAction
from supervisors.bulk_requests import ask_each
from tests.storage.events.recorded import forget_events
from tests.web.api.unknown import UNKNOWN_ID
from tests.web.conftest import Api, Service, StartService
from web.api.agents import actions
from web.app_keys import ROOM
from web.request_room import ACTION_UNITS

ACTIONS = "/api/cloud/agents/actions/"
EVENTS = "SELECT type, agent_id, actor FROM event WHERE type LIKE $1 ORDER BY id"


async def act(api: Api, action: str, on: list[Any] | None = None, **body: Any) -> Any:
    """Act on the agents, and return the body of the answer."""
    if on is not None:
        body["agents"] = [agent["id"] for agent in on]
    answer = await api.post(ACTIONS, {"action": action, **body})
    assert answer.status == 200, answer
    return answer.body


async def act_on_all(api: Api, action: str, **body: Any) -> list[Any]:
    """Repeat the action until nothing is left; return the bodies of the answers."""
    answers = [await act(api, action, **body)]
    while answers[-1]["next"] is not None:
        answers.append(await act(api, action, **body, after=answers[-1]["next"]))
    return answers


async def undo(api: Api, done: Any) -> Any:
    answer = await api.post(ACTIONS, done["undo"])
    assert answer.status == 200, answer
    return answer.body


async def fields(api: Api, agents: list[Any], name: str) -> list[Any]:
    return [(await api.get(f"/api/cloud/agents/{agent['id']}/")).body[name] for agent in agents]


async def events(service: Service, pattern: str) -> list[tuple[str, str, str]]:
    rows = await service.storage.pool.fetch(EVENTS, pattern)
    return [(row["type"], str(row["agent_id"]), row["actor"].partition(":")[0]) for row in rows]


def ids(agents: list[Any]) -> set[str]:
    return {agent["id"] for agent in agents}


@pytest.mark.parametrize(
    ("action", "inverse", "field", "before", "after"),
    [
        ("pause", "resume", "paused", False, True),
        ("archive", "restore", "status", "sleeping", "archived"),
    ],
)
async def test_action_is_undone_for_exactly_the_changed(
    service: Service, api: Api, action: str, inverse: str, field: str, before: Any, after: Any
) -> None:
    agents = [await api.create_agent() for _ in range(3)]
    await act(api, action, agents[:1])
    await forget_events(service.storage.pool)

    done = await act(api, action, agents)

    assert (done["matched"], done["changed"], done["unchanged"]) == (3, 2, 1)
    assert ids(agents[1:]) == set(done["agents"]) == set(done["undo"]["agents"])
    assert done["undo"]["action"] == inverse
    assert await fields(api, agents, field) == [after] * 3
    told = await events(service, "agent.%")
    assert {(agent_id, actor) for _, agent_id, actor in told} == {(each, "key") for each in done["agents"]}
    assert len(told) == 2
    undone = await undo(api, done)
    assert (undone["changed"], undone["undo"]["action"]) == (2, action)
    assert await fields(api, agents, field) == [after, before, before]


async def test_stop_ends_runs_and_leaves_sleepers(api: Api) -> None:
    asleep, running = await api.create_agent(), await api.create_agent(status="running")
    holding = await api.create_agent(debounce_window_seconds=60)
    await api.create_notification(holding, priority="high", source="sms")

    done = await act(api, "stop", [asleep, running, holding], reason="Enough.")

    assert (done["changed"], done["unchanged"], done["undo"]) == (2, 1, None)
    assert set(done["agents"]) == ids([running, holding])
    path = f"/api/cloud/agents/{running['id']}/runs/?limit=1"
    await api.post(f"/api/cloud/agents/{running['id']}/stop/")  # waits until the run has ended
    [run] = (await api.get(path)).body
    assert (run["outcome"], run["stop_reason"]) == ("stopped", "Enough.")


async def test_clear_takes_active_ones_and_undo_returns_them(service: Service, api: Api) -> None:
    agent, other = await api.create_agent(), await api.create_agent()
    await act(api, "pause", [agent, other])
    active = [await api.create_notification(agent, priority="high") for _ in range(2)]
    low = await api.create_notification(agent)
    later = await api.create_notification(agent, priority="high", scheduled_for="2127-01-01T00:00Z")
    await forget_events(service.storage.pool)

    done = await act(api, "clear", [agent, other])

    assert (done["matched"], done["changed"], done["unchanged"]) == (2, 1, 1)
    assert set(done["undo"]["notifications"]) == ids(active)
    assert await events(service, "%") == [("notification.cleared", agent["id"], "key")] * 2
    listed = (await api.get(f"/api/defaults/notifications/?cleared=false&agent={agent['id']}")).body
    assert ids(listed) == ids([low, later])
    undone = await undo(api, done)
    assert (undone["matched"], undone["changed"], undone["undo"]) == (1, 1, None)
    assert (await events(service, "%"))[2:] == [("notification.changed", agent["id"], "key")] * 2
    shown = (await api.get(f"/api/cloud/agents/{agent['id']}/supervisor/")).body
    assert set(shown["blockers"]) == ids(active)
    assert (await undo(api, done))["changed"] == 0


async def test_uncleared_notification_wakes_its_agent(api: Api) -> None:
    agent = await api.create_agent(paused=True)
    await api.create_notification(agent, priority="high")
    done = await act(api, "clear", [agent])
    await act(api, "resume", [agent])
    assert (await api.get(f"/api/cloud/agents/{agent['id']}/runs/")).body == []

    await undo(api, done)

    await service_is_quiet(api)
    [run] = (await api.get(f"/api/cloud/agents/{agent['id']}/runs/")).body
    assert run["wake_reason"] == "notification:api"


async def service_is_quiet(api: Api) -> None:
    """Ask something of the same agents, which waits for what they were told before."""
    for agent in (await api.get("/api/cloud/agents/")).body:
        await api.patch(f"/api/cloud/agents/{agent['id']}/", {"paused": False})


async def test_tags_are_changed_and_restored(service: Service, api: Api) -> None:
    agents = [await api.create_agent(tags=["b"]), await api.create_agent()]
    await forget_events(service.storage.pool)

    done = await act(api, "tag", agents, tags=["a"])

    assert await fields(api, agents, "tags") == [["b", "a"], ["a"]]
    assert (done["changed"], done["undo"]["tags"]) == (2, ["a"])
    assert {each[0] for each in await events(service, "%")} == {"agent.changed"}
    assert (await act(api, "tag", agents, tags=["a"]))["changed"] == 0
    assert (await undo(api, done))["changed"] == 2
    assert await fields(api, agents, "tags") == [["b"], []]
    mixed = await act(api, "tag", agents, tags=["a", "b"])
    assert (mixed["changed"], mixed["undo"]) == (2, None), "they did not lack the same tags"
    untagged = await act(api, "untag", agents, tags=["b", "c"])
    assert untagged["undo"]["tags"] == ["b"]


async def test_agent_with_too_many_tags_is_a_failure(start_service: StartService) -> None:
    api = await (await start_service(tags_per_agent=2)).new_organization()
    full, empty = await api.create_agent(tags=["a", "b"]), await api.create_agent()

    done = await act(api, "tag", [full, empty], tags=["c"])

    assert (done["matched"], done["changed"], done["unchanged"]) == (2, 1, 0)
    assert done["agents"] == done["undo"]["agents"] == [empty["id"]]
    [failure] = done["failures"]
    assert failure["agent"] == full["id"]
    assert "limits.tags_per_agent" in failure["error"]
    assert await fields(api, [full], "tags") == [["a", "b"]]


async def test_match_has_the_filters_of_the_list(api: Api) -> None:
    template = await api.create_template()
    wanted = await api.create_agent(name="Grace", tags=["x"], template=template["id"], model="m")
    for body in ({"name": "Grace"}, {"tags": ["x"]}, {"name": "Ann"}):
        await api.create_agent(**body)
    match = {"search": "RAC", "tag": ["x"], "template": template["id"], "phase": "asleep"}

    dry = await act(api, "pause", match=match, dry_run=True)
    done = await act(api, "pause", match=match)

    assert (dry["matched"], dry["changed"], dry["agents"], dry["undo"]) == (1, 1, [], None)
    assert (done["matched"], done["agents"]) == (1, [wanted["id"]])
    assert (await act(api, "resume", match={"phase": "paused"}))["agents"] == [wanted["id"]]


async def test_match_without_filters_means_all_of_the_organization(api: Api, other: Api) -> None:
    agents = [await api.create_agent() for _ in range(3)]
    foreign = await other.create_agent()

    assert (await act(api, "archive", match={}))["changed"] == 3

    assert (await act(api, "archive", match={}, dry_run=True))["matched"] == 0
    assert (await act(api, "restore", match={"status": "archived"}))["changed"] == 3
    assert await fields(other, [foreign], "status") == ["sleeping"]
    assert await fields(api, agents, "status") == ["sleeping"] * 3


@pytest.mark.parametrize("given", ["agents", "match"])
async def test_action_goes_on_at_the_next_agent(
    api: Api, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setattr(actions, "MAX_AGENTS", 2)
    agents = [await api.create_agent() for _ in range(5)]
    await act(api, "pause", agents[1:2])
    body: dict[str, Any] = {"agents": [agent["id"] for agent in agents]}
    body = {"match": {}} if given == "match" else body

    answers = await act_on_all(api, "pause", **body)

    assert [answer["changed"] for answer in answers] == [2, 2]
    assert sum(answer["matched"] for answer in answers) == 5
    assert await fields(api, agents, "paused") == [True] * 5
    for answer in answers:
        await undo(api, answer)
    assert await fields(api, agents, "paused") == [False, True, False, False, False]


async def test_action_looks_at_a_bounded_number(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MAX_LOOKED_AT", 2)
    agents = [await api.create_agent() for _ in range(5)]
    await act(api, "pause", agents[:1])  # the last in the list

    answers = await act_on_all(api, "resume", match={})

    assert [(answer["matched"], answer["changed"]) for answer in answers] == [(2, 0), (2, 0), (1, 1)]


async def test_action_out_of_time_goes_on_at_the_next_call(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = [await api.create_agent() for _ in range(3)]
    with monkeypatch.context() as patch:
        patch.setattr(actions, "MAX_SECONDS", 0.0)
        done = await act(api, "pause", agents)
    assert (done["matched"], done["changed"], done["next"]) == (0, 0, agents[-1]["id"])

    assert (await act(api, "pause", agents, after=done["next"]))["changed"] == 3


async def test_clear_is_bounded_in_notifications(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MAX_NOTIFICATIONS", 2)
    agents = [await api.create_agent(paused=True) for _ in range(2)]
    created = [
        await api.create_notification(agent, priority="high")
        for agent, count in zip(agents, (2, 3), strict=True)
        for _ in range(count)
    ]

    answers = await act_on_all(api, "clear", match={})

    cleared = [each for answer in answers if answer["undo"] for each in answer["undo"]["notifications"]]
    assert sorted(cleared) == sorted(ids(created))
    assert all(len(answer["undo"]["notifications"]) <= 2 for answer in answers if answer["undo"])
    assert {each for answer in answers for each in answer["agents"]} == ids(agents)


async def test_concurrent_actions_change_each_agent_once(service: Service, api: Api) -> None:
    agents = [await api.create_agent(paused=True) for _ in range(5)]
    for agent in agents:
        await api.create_notification(agent, priority="high")
    await forget_events(service.storage.pool)

    for action, details in (("clear", {}), ("tag", {"tags": ["a"]}), ("archive", {})):
        await asyncio.gather(*(act(api, action, match={}, **details) for _ in range(4)))

    told = [type_ for type_, _, _ in await events(service, "%")]
    assert sorted(told) == [*["agent.archived"] * 5, *["agent.changed"] * 5, *["notification.cleared"] * 5]


@pytest.mark.parametrize("inverse", ["pause", "resume", "archive", "restore"])
async def test_change_by_another_is_not_undone(
    api: Api, monkeypatch: pytest.MonkeyPatch, inverse: str
) -> None:
    agents = [await api.create_agent() for _ in range(2)]
    action = actions.INVERSES[AgentAction(inverse)]
    await act(api, inverse, agents)

    async def after_another(ask: Any, agent_ids: Any, *bounds: Any) -> Any:
        await ask(UUID(agents[0]["id"]))
        return await ask_each(ask, agent_ids, *bounds)

    monkeypatch.setattr(actions, "ask_each", after_another)
    done = await act(api, action, agents)

    assert (done["changed"], done["unchanged"]) == (1, 1)
    assert done["undo"] == {"action": inverse, "agents": [agents[1]["id"]]}


@pytest.mark.one_node
async def test_too_many_actions_of_an_organization_are_refused(service: Service, api: Api) -> None:
    agent = await api.create_agent()
    place = service.app[ROOM].enter(UUID(agent["organization"]), 4 * ACTION_UNITS)

    refused = await api.post(ACTIONS, {"action": "pause", "match": {}})

    assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
    place.leave()
    assert (await act(api, "pause", match={}))["changed"] == 1


async def test_unknown_agents_are_failures_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MAX_AGENTS", 1)
    agents = [await api.create_agent() for _ in range(2)]
    body = {"agents": [UNKNOWN_ID, *sorted(ids(agents)), agents[0]["id"]]}

    dry = await act(api, "pause", **body, dry_run=True)
    answers = await act_on_all(api, "pause", **body)

    failure = {"agent": UNKNOWN_ID, "error": "There is no such agent."}
    assert (dry["matched"], dry["changed"], dry["unchanged"], dry["failures"]) == (3, 2, 0, [failure])
    assert [answer["failures"] for answer in answers] == [[failure], []]
    assert [(answer["matched"], answer["changed"], answer["unchanged"]) for answer in answers] == [
        (2, 1, 0),
        (1, 1, 0),
    ]


async def test_deleted_agent_as_cursor_keeps_its_place(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MAX_AGENTS", 1)
    agents = [await api.create_agent() for _ in range(3)]
    first = await act(api, "pause", match={})
    assert first["next"] == agents[1]["id"]
    await api.delete(f"/api/cloud/agents/{agents[1]['id']}/")

    rest = await act(api, "pause", match={}, after=first["next"])

    assert rest["agents"] == [agents[0]["id"]]


async def test_agents_of_others_are_refused_before_any_change(api: Api, other: Api) -> None:
    own, foreign = await api.create_agent(), await other.create_agent(paused=True)
    note = await other.create_notification(foreign, priority="high")
    await other.post(ACTIONS, {"action": "clear", "agents": [foreign["id"]]})
    template = await other.create_template()
    organization = foreign["organization"]

    for body in (
        {"action": "archive", "agents": [own["id"], foreign["id"]]},
        {"action": "archive", "agents": [foreign["id"]], "dry_run": True},
        {"action": "unclear", "notifications": [note["id"]]},
        {"action": "archive", "match": {"template": template["id"]}},
        {"action": "archive", "match": {"parent": foreign["id"]}},
        {"action": "archive", "match": {"organization": organization}},
    ):
        assert (await api.post(ACTIONS, body)).status == 403, body

    assert await fields(api, [own], "status") == ["sleeping"]
    assert await fields(other, [foreign], "status") == ["sleeping"]


REFUSED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"action": "pause"}, {"agents": [actions.NEITHER]}),
    ({"action": "pause", "agents": [], "match": {}}, {"agents": [actions.BOTH]}),
    ({"action": "tag", "match": {}}, {"tags": ["This field is required."]}),
    ({"action": "tag", "match": {}, "tags": []}, {"tags": ["This field is required."]}),
    ({"action": "stop", "match": {}, "tags": ["a"]}, {"tags": [actions.NO_TAGS]}),
    ({"action": "pause", "match": {}, "reason": "So."}, {"reason": [actions.NO_REASON]}),
    ({"action": "pause", "match": {"tags": ["a"]}}, {"match": {"tags": ["Unknown field."]}}),
    ({"action": "pause", "match": {"name": None}}, {"match": {"name": ["This field may not be null."]}}),
    ({"action": "unclear"}, {"notifications": ["This field is required."]}),
    ({"action": "unclear", "notifications": [], "match": {}}, {"match": [actions.NO_AGENTS]}),
    ({"action": "clear", "match": {}, "notifications": []}, {"notifications": [actions.NO_NOTIFICATIONS]}),
]


@pytest.mark.parametrize(("body", "messages"), REFUSED)
async def test_refusal_names_the_field(api: Api, body: dict[str, Any], messages: dict[str, Any]) -> None:
    answer = await api.post(ACTIONS, body)

    assert (answer.status, answer.body) == (400, messages)


async def test_cursor_that_is_no_id_of_an_agent_is_refused(api: Api) -> None:
    unknown = "00000000-0000-4000-8000-000000000000"
    answer = await api.post(ACTIONS, {"action": "pause", "match": {}, "after": unknown})

    assert (answer.status, list(answer.body)) == (400, ["after"])
