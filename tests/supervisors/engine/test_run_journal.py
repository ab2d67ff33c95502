"""Journals: each ended run has one, whatever ended it and whoever executed it."""

from decimal import Decimal
from typing import Any

import pytest

from storage.channels.messages import Direction, MessageStatus
from storage.model import Outcome, Priority
from storage.postgres.json_values import decoded
from storage.postgres.pool import Pool
from supervisors.engine.messages import RunRequest, StopRequest
from supervisors.llm.inbox_model import InboxModel
from supervisors.llm.port import ModelResponse
from supervisors.tools.arguments import ToolError
from tests.storage.channels import resources
from tests.storage.factories import new_span, usage_record
from tests.supervisors.harness.scripted_runs import (
    SLEEP,
    fails,
    notify,
    only_run,
    running,
    start,
    start_once,
)
from tests.supervisors.tools.builtin.test_messages import new_contact
from tests.supervisors.world import open_world

NOTHING = {
    "woken_by": [],
    "cleared": [],
    "cleared_count": 0,
    "uncleared": [],
    "uncleared_count": 0,
    "sent": [],
    "sent_count": 0,
    "failed_count": 0,
    "unanswered": [],
    "tools": [],
    "cost_usd": 0.0,
    "unpriced_calls": 0,
}


def tool(name: str, calls: int = 1, errors: int = 0, last_error: str = "") -> dict[str, Any]:
    return {"name": name, "calls": calls, "errors": errors, "last_error": last_error}


async def test_builtin_run_tells_what_it_cleared_and_called(pool: Pool) -> None:
    async with open_world(pool, model=InboxModel()) as world:
        agent = await world.agent()
        await world.notify(agent, title="Look it up later", priority=Priority.LOW)
        await world.notify(agent, title="New sms from Ada")
        assert decoded((await only_run(world, agent)).journal) == NOTHING | {
            "woken_by": ["New sms from Ada"],
            "cleared": ["New sms from Ada", "Look it up later"],
            "cleared_count": 2,
            "tools": [tool("clear_notification", 2), tool("list_notifications")],
        }


async def test_builtin_run_tells_whom_it_wrote_to(pool: Pool) -> None:
    async with running(pool) as (world, agent, script):
        contact = await new_contact(world, agent.organization_id)
        arguments = f'{{"contact_id": "{contact.id}", "body": "Hello"}}'
        script.say([("send_message", arguments)], [SLEEP])
        await start(world, agent)
        run = await only_run(world, agent)
        assert not run.needs_person, "its message needs one"
        journal = decoded(run.journal)
        assert journal["sent"] == [
            {"contact": str(contact.id), "name": "Ada", "channel": "sms", "status": "failed"}
        ]
        assert (journal["sent_count"], journal["failed_count"]) == (0, 1)
        [sent] = journal["tools"]
        assert (sent["name"], sent["errors"]) == ("send_message", 1)
        assert sent["last_error"].startswith("You have no tool that sends messages by sms.")


@pytest.mark.parametrize(
    ("calls", "needs_person"),
    [
        ([("look", "{}")], True),
        ([("look", "{}"), ("create_notification", '{"title": "Look again"}')], False),
        ([("send_message", "{}")], True),
        ([("list_notifications", "{}")], False),
    ],
    ids=["failed", "failed before a change", "unsent without a message", "nothing failed"],
)
async def test_run_needs_a_person_if_nothing_solved_its_failure(
    pool: Pool, calls: list[tuple[str, str]], needs_person: bool
) -> None:
    async with running(pool, *([call] for call in calls), [SLEEP]) as (world, agent, _):
        await start_once(world, agent)
        run = await only_run(world, agent)
        errors = sum(entry["errors"] for entry in decoded(run.journal)["tools"])
        assert (run.needs_person, run.failed_calls) == (needs_person, errors)


async def test_journal_names_a_contact_without_a_name_by_its_address(pool: Pool) -> None:
    async with running(pool) as (world, agent, script):
        contact = await new_contact(world, agent.organization_id, name="")
        script.say([("send_message", f'{{"contact_id": "{contact.id}", "body": "Hello"}}')], [SLEEP])
        await start(world, agent)
        [sent] = decoded((await only_run(world, agent)).journal)["sent"]
        assert sent["name"] == contact.phone


async def test_stopped_run_tells_of_the_tool_cut_short(pool: Pool) -> None:
    async with running(pool, [("look", "{}")]) as (world, agent, _):

        async def never() -> None:
            await world.registry.ask(agent.id, StopRequest())

        world.toolset.rigged["look"] = never
        await start_once(world, agent)
        run = await only_run(world, agent)
        assert (run.outcome, run.needs_person) == (Outcome.STOPPED, False)
        assert decoded(run.journal)["tools"] == [
            tool("look", 1, 1, "cut short: the run was ended") | {"unsolved": True}
        ]


@pytest.mark.parametrize("is_tried_again", [True, False])
async def test_run_that_is_tried_again_needs_no_person(pool: Pool, is_tried_again: bool) -> None:
    async with running(pool, [("look", "{}")], *[ModelResponse("I give up.", ())] * 2) as (world, agent, _):
        world.toolset.rigged["look"] = fails(ToolError("unavailable", "dark"))
        world.registry.allow_starts(False)
        if is_tried_again:
            await notify(world, agent, "Hello")
        world.registry.allow_starts(True)
        await start_once(world, agent)
        run = await only_run(world, agent)
        assert (run.outcome, run.failed_calls, run.needs_person) == (Outcome.ENDED, 1, not is_tried_again)


async def test_run_of_a_dead_process_is_told_from_its_rows(pool: Pool) -> None:
    async with open_world(pool) as world:
        agent = await world.agent()
        woken_by = await world.notify(agent, title="New sms from Ada")
        run = world.puppets[agent.id].run
        contact = await new_contact(world, agent.organization_id)
        later = await notify(world, agent, "Low", priority=Priority.LOW)
        for notification in (woken_by, later):
            await world.storage.notifications.clear(agent.id, notification.id, world.clock.now())
        await world.storage.traces.insert_spans(
            [
                new_span(run.id, name="execute_tool look", span_type="tool", error="dark"),
                new_span(run.id, name="execute_tool look", span_type="tool"),
                new_span(run.id, name="chat", span_type="llm"),
            ]
        )
        used = usage_record(agent, trace_id=run.id, cost_usd=Decimal("0.5"), occurred_at=world.clock.now())
        await world.storage.usage.insert(used)
        await world.puppets[agent.id].call("list_notifications")
        with pytest.raises(Exception, match="no tool"):
            await world.puppets[agent.id].call("send_message", contact_id=str(contact.id), body="Hello")

        await world.restart()

        interrupted = await world.storage.runs.get(run.id)
        assert interrupted is not None
        assert interrupted.outcome is Outcome.INTERRUPTED
        assert decoded(interrupted.journal) == {
            "woken_by": ["New sms from Ada"],
            "cleared": ["New sms from Ada", "Low"],
            "cleared_count": 2,
            "uncleared": [],
            "uncleared_count": 0,
            "sent": [{"contact": str(contact.id), "name": "Ada", "channel": "sms", "status": "failed"}],
            "sent_count": 0,
            "failed_count": 1,
            "unanswered": [],
            "tools": [tool("look", 2, 1, "dark")],
            "cost_usd": 0.5,
            "unpriced_calls": 0,
        }


async def test_message_left_queued_by_a_dead_process_needs_a_person(pool: Pool) -> None:
    async with open_world(pool) as world:
        agent = await world.agent()
        run = (await world.start(agent)).run
        status = {"direction": Direction.OUTBOUND, "status": MessageStatus.QUEUED}
        queued = resources.message(agent, **status, contact_id=None, run_id=run.id)
        await world.storage.messages.insert(queued)

        await world.restart()

        left = await world.storage.messages.get(queued.id)
        assert left is not None
        assert left.needs_person


async def test_interrupted_run_has_its_journal_before_the_next_starts(pool: Pool) -> None:
    async with open_world(pool) as world:
        agent = await world.agent()
        await world.ask(agent, RunRequest())
        await world.restart()
        await world.advance(5)
        first, second = sorted(await world.ledger(agent), key=lambda run: run.started_at)
        assert decoded(first.journal) == NOTHING
        assert first.ended_at is not None
        assert first.ended_at <= second.started_at
        assert second.journal is None


async def test_sleep_of_a_process_is_told_from_its_rows(pool: Pool) -> None:
    async with open_world(pool) as world:
        agent = await world.agent()
        run = await world.start(agent)
        await world.storage.traces.insert_spans(
            [new_span(run.run.id, name="execute_tool look", span_type="tool")]
        )
        await run.sleeps()
        assert decoded((await only_run(world, agent)).journal) == NOTHING | {"tools": [tool("look")]}


async def test_run_tells_what_it_left_uncleared_at_its_end(pool: Pool) -> None:
    async with open_world(pool) as world:
        agent = await world.agent()
        handled = await world.notify(agent, title="Handled")
        run = world.puppets[agent.id]
        left = [await notify(world, agent, f"Left {number}") for number in range(11)]
        await notify(world, agent, "Low", priority=Priority.LOW)
        await world.remind(agent, 3600)
        await run.clears(handled)
        world.registry.allow_starts(False)
        await run.fail()
        await world.storage.notifications.clear(agent.id, left[0].id, world.clock.now())

        journal = decoded((await only_run(world, agent)).journal)
        assert journal["uncleared_count"] == 11
        assert journal["uncleared"] == [{"id": str(new.id), "title": new.title} for new in left[:10]]


async def test_journal_stays_bounded_in_bytes(pool: Pool) -> None:
    async with open_world(pool) as world:
        agent = await world.agent()
        for _ in range(12):
            await notify(world, agent, "\u00e4" * 255)
        await world.start(agent)
        await world.storage.notifications.clear_many(agent.id, None, world.clock.now())
        run = world.puppets[agent.id].run
        long = [
            new_span(run.id, name=f"{number}{'ä' * 250}", span_type="tool", error="ä" * 5000)
            for number in range(50)
        ]
        await world.storage.traces.insert_spans(long)
        await world.restart()
        ended = await world.storage.runs.get(run.id)
        assert ended is not None
        journal = decoded(ended.journal)
        assert (len(journal["cleared"]), journal["cleared_count"], len(journal["tools"])) == (10, 12, 20)
        assert (
            await pool.fetchval("SELECT octet_length(journal::text) FROM run WHERE id = $1", run.id) < 32_768
        )
