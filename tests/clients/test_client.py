"""The client does what users do: both clients, against the real service."""

import pickle
import threading
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hostsvc_client import Hostsvc, HostsvcError, errors, models
from hostsvc_client.errors import Invalid, NotAuthenticated, NotFound, SecretLost, Unprocessable

from tests.clients.process import Service


def new_agent(client: Hostsvc, name: str = "Ada", **body: object) -> models.Agent:
    return client.agents.create(name=name, model="builtin/inbox", **body)  # type: ignore[arg-type]


def test_client_does_the_main_job(client: Hostsvc) -> None:
    created = new_agent(client, max_sleep_hours=8)
    agent = client.agent(created)
    assert (created.status, created.max_sleep_hours) == (models.AgentStatus.SLEEPING, 8)
    notification = agent.notify("A parcel is lost", "Number 4711")
    assert (notification.body, notification.priority) == ("Number 4711", "high")
    events = agent.events(since=0, type=["run.ended"])
    ended = next(iter(events))
    assert ended.run is not None
    run = client.runs.wait(created.id, ended.run)
    assert (run.outcome, run.notifications) == (models.Outcome.SLEPT, [notification.id])
    assert agent.why().startswith("Asleep until")
    assert agent.why(at="2020-01-01T03:00") != agent.why()
    assert agent.timeline().bands[-1].phase == "asleep"
    preview = agent.preview(event={"source": "api"})
    assert (preview.now.phase, preview.then.phase) == ("asleep", "running")
    assert [each.id for each in agent.runs()] == [run.id]
    waterfall = client.traces.waterfall(run.trace)
    assert waterfall.total_spans == len(waterfall.spans.ids) > 0


def test_requested_run_can_be_awaited(client: Hostsvc) -> None:
    agent = client.agent(new_agent(client))
    answer = agent.run()
    assert answer.run is not None
    assert client.runs.wait(agent.id, answer.run).ended_at is not None


def test_run_is_awaited_even_if_it_is_queued(client: Hostsvc) -> None:
    """A request right after the end of a run may be answered before the next one begins."""
    agent = client.agent(new_agent(client))
    runs = [agent.run_to_end() for _ in range(5)]
    assert len({run.id for run in runs}) == 5
    assert {(str(run.outcome), run.wake_reason) for run in runs} == {("slept", "run_requested")}


def test_queued_run_that_does_not_begin_in_time_raises(client: Hostsvc) -> None:
    agent = client.agent(new_agent(client, paused=True))
    with pytest.raises(errors.NotEnded, match="no run has begun: paused"):
        agent.run_to_end()


def test_list_follows_pages(client: Hostsvc) -> None:
    agent = new_agent(client)
    sent = [client.notifications.create(agent=agent.id, title=f"{number}").id for number in range(7)]
    pages = client.notifications.list(agent=agent.id, limit=3)
    assert [each.id for each in pages] == sent[::-1]
    assert len(pages.page()) == 3
    assert [each.id for each in islice(pages, 4)] == sent[:2:-1]


def test_inputs_take_enums_texts_and_datetimes(client: Hostsvc) -> None:
    agent = new_agent(client, tags=["night", "support"])
    soon = datetime.now(UTC) + timedelta(hours=1)
    reminder = client.notifications.create(
        agent=agent.id, title="Call back", priority=models.Priority.HIGH, scheduled_for=soon
    )
    assert (reminder.scheduled_for, reminder.priority) == (soon, models.Priority.HIGH)
    later = client.notifications.list(agent=agent.id, scheduled_after=soon, priority="high")
    assert [each.id for each in later] == [reminder.id]
    assert [each.id for each in client.agents.list(tag=["night", "support"], name="ada")][:1] == [agent.id]


def test_reserved_names_and_uploads_are_sent(client: Hostsvc) -> None:
    agent = new_agent(client, paused=True)
    message = client.messages.create(
        agent=agent.id,
        channel="email",
        direction="inbound",
        body="See this",
        from_="grace@example.org",
        files=[("note.txt", b"left at the door", "text/plain")],
    )
    assert message.address == "grace@example.org"
    [file] = message.attachments
    assert (
        client.attachments.download(file.to_dict()["url"].rstrip("/").rpartition("/")[2])
        == b"left at the door"
    )


def test_refusals_name_the_fields_and_can_be_pickled(client: Hostsvc) -> None:
    with pytest.raises(Invalid) as caught:
        client.agents.create(name="Ada", model="builtin/inbox", max_turns="many")  # type: ignore[arg-type]
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert copy.fields == {"max_turns": ["A valid integer is required."]}
    assert (copy.status, copy.request_id != "", str(copy)) == (
        400,
        True,
        "400: max_turns: A valid integer is required.",
    )
    with pytest.raises(Invalid, match="Did you mean"):
        client.notifications.create(agent=new_agent(client).id, title="Hello", prioritee="high")  # type: ignore[call-arg]
    with pytest.raises(NotFound):
        client.agents.get("00000000-0000-4000-8000-000000000000")


def test_key_that_is_wrong_is_refused_without_repetition(shared: Service) -> None:
    with Hostsvc(shared.url, "hsk_wrong") as client, pytest.raises(NotAuthenticated):
        next(iter(client.events()))


def test_repeated_creation_has_one_effect(client: Hostsvc) -> None:
    agent = new_agent(client)
    for _ in range(2):
        client.notifications.create(agent=agent.id, title="Order", idempotency_key=f"order-{agent.id}")
    assert len(list(client.notifications.list(agent=agent.id))) == 1
    with pytest.raises(Unprocessable):
        client.notifications.create(agent=agent.id, title="Another", idempotency_key=f"order-{agent.id}")


def test_replayed_answer_without_secret_raises(client: Hostsvc) -> None:
    first = client.api_keys.create(name="server", idempotency_key=f"key-{id(client)}")
    with pytest.raises(SecretLost, match="the key is lost: delete") as caught:
        client.api_keys.create(name="server", idempotency_key=f"key-{id(client)}")
    assert caught.value.answer.id == first.id
    client.api_keys.delete(first.id)
    body = {"name": "ours", "tool_call_secret": "known to us", "idempotency_key": f"template-{id(client)}"}
    for _ in range(2):
        client.templates.create(**body)  # type: ignore[arg-type]


def test_events_survive_a_killed_service(own_service: Service) -> None:
    """None is missed and none repeated, whether the service or the client starts again."""
    key = own_service.sign_up("events@example.org")
    with Hostsvc(own_service.url, key) as client:
        agent = client.agent(client.agents.create(name="Ada", model="builtin/inbox", paused=True))
        seen: list[tuple[int, str]] = []
        for title in "abc":
            agent.notify(title)
        events = agent.events(since=0, type=["notification.created"])
        seen += [(event.id or 0, event.to_dict()["resource"]["title"]) for event in islice(events, 3)]
        own_service.end(9)
        threading.Timer(0.5, own_service.start).start()
        with Hostsvc(own_service.url, key) as other:
            for title in "de":
                other.agent(agent.id).notify(title)
            seen += [(event.id or 0, event.to_dict()["resource"]["title"]) for event in islice(events, 1)]
            events.close()
            rest = other.agent(agent.id).events(since=seen[-1][0], type=["notification.created"])
            seen += [(event.id or 0, event.to_dict()["resource"]["title"]) for event in islice(rest, 1)]
    assert [title for _, title in seen] == [*"abcde"]
    assert [position for position, _ in seen] == sorted({position for position, _ in seen})


def test_position_beyond_the_log_raises(client: Hostsvc) -> None:
    agent = client.agent(new_agent(client))
    with pytest.raises(errors.EventsLost) as caught:
        next(iter(agent.events(since=10**15)))
    assert next(iter(agent.events(since=caught.value.since))).id is not None


def test_every_error_can_be_pickled() -> None:
    examples = [
        errors.ConnectionFailed("gone", is_sent=False),
        errors.TimedOut("late"),
        *(errors.refusal(status, {"detail": "no"}, "r", 1.0) for status in (400, 404, 409, 429, 503)),
        errors.SecretLost(("key",), None),
        errors.EventsLost(4),
        errors.NotEnded(None),
        errors.NotGenuine("wrong"),
        HostsvcError("any"),
    ]
    for error in examples:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
