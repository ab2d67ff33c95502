"""The inbox during a run: arrivals, what is still open, and final answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from storage.channels.contacts import Contact
from storage.channels.messages import Direction, Message, MessageFilters, MessageStatus
from storage.ids import new_id
from storage.model import Agent, Notification, Outcome, Priority, Reply
from storage.notifications.notifications import NewNotification
from storage.postgres.json_values import decoded
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from supervisors.engine.messages import RunRequest, StopRequest
from supervisors.harness.inbox import MAX_FETCHED, MAX_NAMED, MAX_OUTPUT
from supervisors.llm.port import ChatRole, FinishReason, ModelResponse, ToolCall
from supervisors.policy.phases import Phase
from tests.receiver import Receiver, answering, receiving
from tests.storage.factories import adapter, new_notification, tool
from tests.supervisors.harness import scripted_runs
from tests.supervisors.harness.scripted_runs import metadata, notify, only_run, running, spans, start_once
from tests.supervisors.scripted_model import Script, Turn
from tests.supervisors.world import World, open_world


async def test_arrival_is_shown_once_at_the_next_turn_boundary(pool: Pool) -> None:
    async with running(pool, [("wait", "")], [("wait", "")], [], agent={"max_turns": 3}) as (
        world,
        agent,
        script,
    ):
        arrived: list[str] = []

        async def wait() -> None:
            if not arrived:
                arrived.append(str((await notify(world, agent, "A fire")).id))

        world.toolset.rigged = {"wait": wait}
        await start_once(world, agent)

        updates = [message.text for message in script.conversation if message.role is ChatRole.USER][1:]
        named = f'[{{"id":"{arrived[0]}","priority":"high","source":"api","title":"A fire"}}]'
        assert updates == [
            f"Since this run began, this came into your queue: {named}. list_notifications shows it in full."
        ]
        assert script.conversation[4].text == updates[0], "it follows the tool's answer"


async def test_arrival_is_shown_despite_many_older_notifications(pool: Pool) -> None:
    async with running(pool, [("wait", "")], [], agent={"max_turns": 2}) as (world, agent, script):

        async def wait() -> None:
            before = world.clock.now() - timedelta(minutes=1)
            for _ in range(MAX_FETCHED):
                old = new_notification(agent.id, created_at=before)
                await world.storage.notifications.insert(old, {agent.organization_id})
            await world.pool.execute("UPDATE notification SET activated_at = created_at")
            await notify(world, agent, "A fire")

        world.toolset.rigged = {"wait": wait}
        await start_once(world, agent)

        assert '"title":"A fire"' in script.conversation[-1].text


async def test_notification_raised_to_high_during_the_run_is_shown(pool: Pool) -> None:
    async with running(pool, [("wait", "")], [], agent={"max_turns": 2}) as (world, agent, script):
        low = await world.notify(agent, priority=Priority.LOW, title="Smoke")
        world.clock.advance(60)

        async def wait() -> None:
            raised = {"priority": Priority.HIGH}
            await world.storage.notifications.update(low.id, raised, world.clock.now())

        world.toolset.rigged = {"wait": wait}
        await start_once(world, agent)

        assert "Smoke" in script.conversation[-1].text


@pytest.mark.parametrize(
    ("count", "more"),
    [(MAX_NAMED + 2, "2 more"), (MAX_FETCHED + 1, f"at least {MAX_FETCHED - MAX_NAMED} more")],
)
async def test_ten_of_many_arrivals_are_named(pool: Pool, count: int, more: str) -> None:
    async with running(pool, [("wait", "")], [], agent={"max_turns": 2}) as (world, agent, script):

        async def wait() -> None:
            for number in range(count):
                await notify(world, agent, f"Fire {number}")

        world.toolset.rigged = {"wait": wait}
        await start_once(world, agent)

        told = script.conversation[-1].text
        assert told.count("Fire") == MAX_NAMED
        assert f"] and {more}. list_notifications" in told


async def test_arrival_without_signal_is_shown_after_an_interval(pool: Pool) -> None:
    async with running(pool, [("wait", "")], [("wait", "")], [], agent={"max_turns": 3}) as (
        world,
        agent,
        script,
    ):

        async def wait() -> None:
            if len(script.requests) == 1:
                await notify(world, agent, "By the way", priority=Priority.LOW)
            else:
                assert "By the way" not in str(script.conversation), "the queue is not read at every turn"
                world.clock.advance(30)

        world.toolset.rigged = {"wait": wait}
        await start_once(world, agent)

        assert "By the way" in script.conversation[-1].text


SLEEP = ("sleep", "{}")


@asynccontextmanager
async def talking(
    pool: Pool, *turns: Turn, agent: dict[str, Any] | None = None
) -> AsyncIterator[tuple[World, Agent, Script]]:
    """Open a world with an agent that runs by this script once `start` is called."""
    async with running(pool, *turns, agent=agent) as (world, talker, script):
        world.registry.allow_starts(False)
        yield world, talker, script


async def start(world: World, agent: Agent) -> None:
    """Run the agent to the end of its script."""
    world.registry.allow_starts(True)
    await scripted_runs.start(world, agent)


def says(text: str, *calls: tuple[str, str]) -> ModelResponse:
    return ModelResponse(text, tuple(ToolCall(f"call_{n}", *call) for n, call in enumerate(calls)))


def clears(notification: Notification | NewNotification) -> tuple[str, str]:
    return "clear_notification", f'{{"notification_id": "{notification.id}"}}'


def writes(contact: Contact, body: str) -> tuple[str, str]:
    return "send_message", f'{{"contact_id": "{contact.id}", "body": "{body}"}}'


def last_question(script: Script) -> str:
    [*_, message] = script.conversation
    assert message.role is ChatRole.USER
    return message.text


async def test_talking_model_is_told_once_what_is_open(pool: Pool) -> None:
    async with talking(pool, says("I took care of it."), says("Really, I did.")) as (world, agent, script):
        waiting = await notify(world, agent, 'Call "Ann"\n{"id": 1}')
        await notify(world, agent, "Read this some day", priority="low")
        await start(world, agent)

        run = (await world.ledger(agent))[0]
        assert (run.outcome, run.turns, run.output, run.error) == (Outcome.ENDED, 2, "Really, I did.", "")
        lines = last_question(script).splitlines()
        assert (
            lines[1] == f'{{"id":"{waiting.id}","source":"api","title":"Call \\"Ann\\"\\n{{\\"id\\": 1}}"}}'
        )
        assert not any("some day" in line for line in lines)
        assert lines[-1].endswith("then call sleep. Another answer without a tool call ends the run.")


async def test_model_that_is_told_what_is_open_can_clear_it(pool: Pool) -> None:
    async with talking(pool, says("Hello!")) as (world, agent, script):
        waiting = await notify(world, agent, "Call Ann")
        script.say([clears(waiting)], says("Good night.", SLEEP))
        await start(world, agent)

        run = await only_run(world, agent)
        assert (run.outcome, run.turns, run.output) == (Outcome.SLEPT, 3, "Good night.")
        trace = await world.storage.traces.get(run.id)
        assert trace is not None
        assert trace.metadata == {"output": "Good night."}


async def test_talking_model_ends_the_run_if_nothing_is_open(pool: Pool) -> None:
    async with talking(pool, says("Nothing to do.")) as (world, agent, _):
        await notify(world, agent, "Some day", priority="low")
        await start(world, agent)

        run = await only_run(world, agent)
        assert (run.outcome, run.turns, run.output) == (Outcome.ENDED, 1, "Nothing to do.")


async def test_last_turn_of_the_limit_is_followed_by_no_question(pool: Pool) -> None:
    async with talking(pool, says("Hello!"), agent={"max_turns": 1}) as (world, agent, _):
        await notify(world, agent, "Call Ann")
        await start(world, agent)

        run = (await world.ledger(agent))[0]
        assert (run.outcome, run.turns, run.output) == (Outcome.ENDED, 1, "Hello!")


async def test_many_open_notifications_are_counted(pool: Pool) -> None:
    async with talking(pool, says("Hello!"), says("Bye!")) as (world, agent, script):
        for number in range(12):
            await notify(world, agent, f"Note {number}")
        await start(world, agent)

        assert "2 more: list_notifications shows them." in last_question(script)


async def test_long_output_is_cut_with_a_note(pool: Pool) -> None:
    async with talking(pool, says(f"x\0{'y' * MAX_OUTPUT}")) as (world, agent, _):
        await start(world, agent)

        output = (await only_run(world, agent)).output
        assert output.startswith("xyyy")
        assert output.endswith(f"y… (cut: {MAX_OUTPUT} of {MAX_OUTPUT + 1} characters)")


@pytest.fixture
async def gateway() -> AsyncIterator[Receiver]:
    async with receiving() as server:
        yield server


@asynccontextmanager
async def answering_by_text(
    pool: Pool, gateway: Receiver, *turns: Turn
) -> AsyncIterator[tuple[World, Agent, Script]]:
    """Open a world with an agent whose final answers are sent by SMS through the gateway."""
    script = Script(*turns)
    async with open_world(pool, model=script) as world:
        template = await world.template(reply=Reply.TEXT)
        phone = adapter(template.organization_id)
        await world.storage.adapters.insert(phone)
        await world.storage.tools.insert(tool(phone.id, handler="channel:sms", url=gateway.url))
        world.registry.allow_starts(False)
        yield world, await world.agent(adapters=(phone.id,), template_id=template.id), script


async def new_contact(world: World, agent: Agent, name: str) -> Contact:
    phone = f"+155501001{ord(name[0])}"
    contact = Contact(new_id(), agent.organization_id, None, name, "", phone, {}, world.clock.now())
    await world.storage.contacts.insert(contact)
    return contact


async def text_from(world: World, agent: Agent, contact: Contact, body: str) -> Notification:
    """Receive an SMS as the API does, without waiting for the registry."""
    now = world.clock.now()
    new = new_notification(
        agent.id, source="sms", source_id=str(contact.id), title="New sms", body=body, created_at=now
    )
    await world.storage.notifications.insert(new, {agent.organization_id})
    stored = await world.storage.notifications.get(new.id)
    assert stored is not None
    return stored


async def sent(world: World, agent: Agent) -> list[Message]:
    """Return the messages of the agent, oldest first."""
    filters = MessageFilters((agent.organization_id,), agent_id=agent.id, direction=Direction.OUTBOUND)
    return [*await world.storage.messages.list_page(filters, Page(limit=100))][::-1]


async def is_cleared(world: World, notification: Notification) -> bool:
    stored = await world.storage.notifications.get(notification.id)
    assert stored is not None
    return stored.cleared


async def test_final_answer_is_sent_to_the_waking_contact(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway, says("Hello Ann!")) as (world, agent, _):
        ann = await new_contact(world, agent, "Ann")
        asked = [await text_from(world, agent, ann, text) for text in ("Are you there?", "Hello?")]
        await start(world, agent)

        run = await only_run(world, agent)
        assert (run.outcome, run.turns, run.output, run.error) == (Outcome.ENDED, 1, "Hello Ann!", "")
        [call] = gateway.requests
        [message] = await sent(world, agent)
        assert call.data["arguments"]["body"] == message.body == "Hello Ann!"
        assert call.data["tool_call_id"] == call.headers["Idempotency-Key"] == str(message.id)
        assert (message.contact_id, message.status, message.run_id) == (ann.id, MessageStatus.SENT, run.id)
        assert [await is_cleared(world, one) for one in asked] == [True, True]
        assert await world.phase(agent) is Phase.ASLEEP
        [span] = await spans(world, agent, "tool")
        recorded = await metadata(world, span)
        assert recorded["gen_ai.tool.call.result"]["message_id"] == str(message.id)


async def test_text_beside_a_sleep_call_is_sent_first(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway, says("Hello Ann!", SLEEP)) as (world, agent, _):
        await text_from(world, agent, await new_contact(world, agent, "Ann"), "Are you there?")
        await start(world, agent)

        run = await only_run(world, agent)
        assert (run.outcome, run.turns, run.output) == (Outcome.SLEPT, 1, "Hello Ann!")
        assert [message.body for message in await sent(world, agent)] == ["Hello Ann!"]


async def test_text_beside_other_calls_is_not_sent(pool: Pool, gateway: Receiver) -> None:
    look = says("Let me look.", ("list_notifications", "{}"))
    async with answering_by_text(pool, gateway, look, says("Hello Ann!")) as (world, agent, _):
        await text_from(world, agent, await new_contact(world, agent, "Ann"), "Are you there?")
        await start(world, agent)

        assert [message.body for message in await sent(world, agent)] == ["Hello Ann!"]


async def test_text_beside_clearing_is_sent_to_the_writer(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        ann, bob = await new_contact(world, agent, "Ann"), await new_contact(world, agent, "Bob")
        asked = [await text_from(world, agent, contact, "When do you open?") for contact in (ann, bob)]
        script.say(says("At nine, Ann.", clears(asked[0])), says("At nine, Bob.", clears(asked[1])))
        script.say([SLEEP])
        await start(world, agent)

        run = await only_run(world, agent)
        assert (run.outcome, run.turns, run.output) == (Outcome.SLEPT, 3, "At nine, Bob.")
        bodies = {message.contact_id: message.body for message in await sent(world, agent)}
        assert bodies == {ann.id: "At nine, Ann.", bob.id: "At nine, Bob."}
        assert len(gateway.requests) == 2


async def test_remark_after_a_text_beside_clearing_is_not_sent(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        asked = await text_from(world, agent, await new_contact(world, agent, "Ann"), "When do you open?")
        script.say(says("We open at nine.", clears(asked)), says("I have answered Ann.", SLEEP))
        await start(world, agent)

        assert [message.body for message in await sent(world, agent)] == ["We open at nine."]


@pytest.mark.parametrize("last", [[SLEEP], says("")], ids=["sleep", "nothing"])
async def test_text_beside_a_look_is_sent_unless_another_follows(
    pool: Pool, gateway: Receiver, last: Turn
) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        asked = await text_from(world, agent, await new_contact(world, agent, "Ann"), "When do you open?")
        script.say(says("We open at nine.", ("get_time", "{}")), [clears(asked)], last)
        await start(world, agent)

        assert (await only_run(world, agent)).output == "We open at nine."
        assert [message.body for message in await sent(world, agent)] == ["We open at nine."]


async def test_text_of_the_last_turn_is_sent(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        await world.change(agent, max_turns=1)
        await text_from(world, agent, await new_contact(world, agent, "Ann"), "When do you open?")
        script.say(says("We open at nine.", ("get_time", "{}")))
        await start(world, agent)

        assert (await only_run(world, agent)).outcome is Outcome.TURN_LIMIT
        assert [message.body for message in await sent(world, agent)] == ["We open at nine."]


async def test_text_beside_a_message_goes_to_nobody(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        ann = await new_contact(world, agent, "Ann")
        asked = await text_from(world, agent, ann, "When do you open?")
        script.say(says("I tell Ann.", writes(ann, "At nine."), clears(asked), SLEEP))
        await start(world, agent)

        assert [message.body for message in await sent(world, agent)] == ["At nine."]
        assert (await only_run(world, agent)).outcome is Outcome.SLEPT


async def test_text_beside_a_failed_message_goes_to_nobody(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        ann = await new_contact(world, agent, "Ann")
        asked = await text_from(world, agent, ann, "When do you open?")
        script.say(says("I tell Ann.", ("send_message", "{}"), clears(asked), SLEEP))
        script.say([writes(ann, "At nine."), SLEEP])
        await start(world, agent)

        assert [message.body for message in await sent(world, agent)] == ["At nine."]


async def test_text_without_a_message_is_said_to_reach_nobody(pool: Pool) -> None:
    async with talking(pool) as (world, agent, script):
        ann = await new_contact(world, agent, "Ann")
        asked = await text_from(world, agent, ann, "When do you open?")
        script.say([clears(asked)], says("We open at nine."), says("As I said, at nine."))
        await start(world, agent)

        run = await only_run(world, agent)
        assert last_question(script).startswith("Your text was sent to nobody, although you cleared messages")
        assert (run.outcome, run.error) == (Outcome.ENDED, "the model wrote a text and sent no message")
        assert (decoded(run.journal)["unanswered"], run.needs_person) == ([str(ann.id)], True)


async def test_text_after_a_message_leaves_nobody_unanswered(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        await world.change(agent, template_id=None)
        ann = await new_contact(world, agent, "Ann")
        asked = await text_from(world, agent, ann, "When do you open?")
        script.say([clears(asked)], says("We open at nine."), [writes(ann, "At nine.")], says("Done."))
        await start(world, agent)

        run = await only_run(world, agent)
        assert (run.outcome, run.error, run.turns) == (Outcome.ENDED, "", 4)
        assert (decoded(run.journal)["unanswered"], run.needs_person) == ([], False)


async def test_talking_model_that_clears_nothing_is_said_to_send_nothing(pool: Pool) -> None:
    async with talking(pool, says("At nine."), says("Really.")) as (world, agent, _):
        await text_from(world, agent, await new_contact(world, agent, "Ann"), "When do you open?")
        await start(world, agent)

        run = (await world.ledger(agent))[0]
        assert (run.error, run.needs_person) == ("the model wrote a text and sent no message", False)


async def test_each_waiting_contact_gets_a_text_of_its_own(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway, says("Hello Bob!"), says("Hello Ann!")) as (
        world,
        agent,
        script,
    ):
        ann, bob = await new_contact(world, agent, "Ann"), await new_contact(world, agent, "Bob")
        await text_from(world, agent, ann, "I am Ann.")
        await text_from(world, agent, bob, "I am Bob.")
        await start(world, agent)

        assert [
            (call.data["arguments"]["contact"]["name"], call.data["arguments"]["body"])
            for call in gateway.requests
        ] == [("Bob", "Hello Bob!"), ("Ann", "Hello Ann!")]
        question = last_question(script)
        assert question.startswith(f"Your text was sent to the contact {bob.id}. These high-priority")
        assert question.endswith(f"next answer without a tool call is sent to the contact {ann.id}.")
        run = await only_run(world, agent)
        assert (run.outcome, run.output) == (Outcome.ENDED, "Hello Ann!")


@pytest.mark.parametrize("sleeps", [False, True], ids=["without sleep", "beside sleep"])
async def test_text_after_clearing_is_sent_to_the_writer(pool: Pool, gateway: Receiver, sleeps: bool) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        ann = await new_contact(world, agent, "Ann")
        asked = [await text_from(world, agent, ann, text) for text in ("Hello?", "When do you open?")]
        script.say([clears(one) for one in asked], says("We open at nine.", *([SLEEP] if sleeps else [])))
        await start(world, agent)

        run = await only_run(world, agent)
        outcome = Outcome.SLEPT if sleeps else Outcome.ENDED
        assert (run.outcome, run.turns, run.output) == (outcome, 2, "We open at nine.")
        [message] = await sent(world, agent)
        assert (message.contact_id, message.body, message.status) == (ann.id, run.output, MessageStatus.SENT)


async def test_text_after_clearing_and_writing_is_sent_to_nobody(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        ann = await new_contact(world, agent, "Ann")
        asked = await text_from(world, agent, ann, "When do you open?")
        script.say([writes(ann, "At nine."), clears(asked)], says("I have told Ann."))
        await start(world, agent)

        assert [message.body for message in await sent(world, agent)] == ["At nine."]
        assert (await only_run(world, agent)).outcome is Outcome.ENDED


async def test_text_answers_what_came_after_the_message_of_the_model(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        ann = await new_contact(world, agent, "Ann")
        asked = await text_from(world, agent, ann, "When do you open?")

        async def ann_writes_again() -> None:
            script.during_call = None
            world.clock.advance(1)
            script.say([clears(await text_from(world, agent, ann, "And on Sunday?"))], says("Never."))

        script.say([writes(ann, "At nine."), clears(asked)])
        script.during_call = ann_writes_again
        await start(world, agent)

        assert [message.body for message in await sent(world, agent)] == ["At nine.", "Never."]


async def test_text_after_clearing_messages_of_several_is_sent_to_nobody(
    pool: Pool, gateway: Receiver
) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        contacts = [await new_contact(world, agent, name) for name in ("Ann", "Bob")]
        asked = [await text_from(world, agent, contact, "When do you open?") for contact in contacts]
        script.say([clears(one) for one in asked], says("At nine."), says("I said so."))
        await start(world, agent)

        assert await sent(world, agent) == []
        assert last_question(script).startswith("Your text was sent to nobody, although you cleared messages")
        run = await only_run(world, agent)
        assert (run.outcome, run.turns) == (Outcome.ENDED, 3)
        assert set(decoded(run.journal)["unanswered"]) == {str(contact.id) for contact in contacts}


async def test_model_that_is_told_of_several_can_write_to_them(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        ann, bob = await new_contact(world, agent, "Ann"), await new_contact(world, agent, "Bob")
        asked = [await text_from(world, agent, contact, "When do you open?") for contact in (ann, bob)]
        script.say([clears(one) for one in asked], says("At nine.", SLEEP))
        script.say([writes(ann, "At nine.")], says("Ann knows, and Bob only said hello.", SLEEP))
        await start(world, agent)

        assert [message.contact_id for message in await sent(world, agent)] == [ann.id]
        run = await only_run(world, agent)
        assert (run.outcome, decoded(run.journal)["unanswered"]) == (Outcome.SLEPT, [])


async def test_text_after_clearing_that_cannot_be_sent_fails_the_run(pool: Pool, gateway: Receiver) -> None:
    gateway.answer = answering(500)
    async with answering_by_text(pool, gateway) as (world, agent, script):
        bob = await new_contact(world, agent, "Bob")
        asked = await text_from(world, agent, bob, "When do you open?")
        script.say([clears(asked)], says("At nine."))
        await start(world, agent)

        assert (await world.ledger(agent))[0].outcome is Outcome.FAILED
        [message] = await sent(world, agent)
        assert (message.body, message.status) == ("At nine.", MessageStatus.FAILED)


async def test_message_during_the_answer_is_not_cleared_by_it(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway, says("Hello!"), says("Yes, both!")) as (
        world,
        agent,
        script,
    ):
        ann = await new_contact(world, agent, "Ann")
        await text_from(world, agent, ann, "Are you there?")

        async def ann_writes_again() -> None:
            script.during_call = None
            world.clock.advance(1)
            await text_from(world, agent, ann, "And your friend?")

        script.during_call = ann_writes_again
        await start(world, agent)

        bodies = [call.data["arguments"]["body"] for call in gateway.requests]
        assert bodies == ["Hello!", "Yes, both!"]
        assert "And your friend?" not in script.requests[0].messages[-1].text


async def test_agent_woken_by_no_contact_sends_nothing(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway, says("I will."), says("I will!")) as (world, agent, script):
        await notify(world, agent, "Water the plants")
        await notify(world, agent, "New sms", source="sms", source_id="+15550100")
        await start(world, agent)

        assert await sent(world, agent) == []
        assert (await world.ledger(agent))[0].output == "I will!"
        assert last_question(script).endswith("Another answer without a tool call ends the run.")


async def test_text_that_cannot_be_sent_fails_the_run(pool: Pool, gateway: Receiver) -> None:
    gateway.answer = answering(500)
    async with answering_by_text(pool, gateway, says("Hello Bob!"), says("Bob?")) as (world, agent, script):
        bob = await new_contact(world, agent, "Bob")
        asked = await text_from(world, agent, bob, "I am Bob.")
        await start(world, agent)

        run = (await world.ledger(agent))[0]
        error = f"The text was not sent to the contact {bob.id}: The message is kept as failed."
        assert run.outcome is Outcome.FAILED
        assert run.error.startswith(error)
        assert last_question(script).startswith(error)
        assert (await world.see(agent)).failures.last_error.startswith(error)
        [message] = await sent(world, agent)
        assert (message.status, await is_cleared(world, asked)) == (MessageStatus.FAILED, False)

        gateway.answer = answering(200)
        script.say(says("Hello again, Bob!"))
        await world.go_to(1)

        [message] = await sent(world, agent)
        assert (message.status, message.body) == (MessageStatus.SENT, "Hello Bob!"), "as it was stored"
        assert [call.data["tool_call_id"] for call in gateway.requests] == [str(message.id)] * 2
        assert await is_cleared(world, asked)


async def test_killed_run_sends_its_text_once(
    pool: Pool, gateway: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a run that dies between the tool's answer and the clearing of the notification."""
    async with answering_by_text(pool, gateway, says("Hello Ann!"), says("Hi Ann!")) as (world, agent, _):
        ann = await new_contact(world, agent, "Ann")
        asked = await text_from(world, agent, ann, "Are you there?")
        cut_off = asyncio.Event()

        async def hang(*_: Any, **__: Any) -> bool:
            cut_off.set()
            await asyncio.Event().wait()
            return False

        monkeypatch.setattr(world.storage.notifications, "clear", hang)
        world.registry.allow_starts(True)
        await world.registry.ask(agent.id, RunRequest())
        await cut_off.wait()
        monkeypatch.undo()
        await world.restart()
        await world.go_to(5)

        assert [run.outcome for run in await world.ledger(agent)] == [Outcome.INTERRUPTED, Outcome.ENDED]
        assert len(gateway.requests) == 1
        assert [message.body for message in await sent(world, agent)] == ["Hello Ann!"]
        assert await is_cleared(world, asked)


async def test_uncleared_message_can_be_answered_again(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway, says("Hello Ann!"), says("Hello Ann, again!")) as (
        world,
        agent,
        _,
    ):
        asked = await text_from(world, agent, await new_contact(world, agent, "Ann"), "Are you there?")
        await start(world, agent)
        await world.go_to(10)
        await world.edit(asked, cleared=False)
        await world.go_to(100)

        assert [message.body for message in await sent(world, agent)] == ["Hello Ann!", "Hello Ann, again!"]


async def test_stop_ends_the_sending_of_a_text(pool: Pool, gateway: Receiver) -> None:
    is_called = asyncio.Event()

    async def hang(_: web.Request) -> web.StreamResponse:
        is_called.set()
        await asyncio.Event().wait()
        return web.Response()

    gateway.answer = hang
    async with answering_by_text(pool, gateway, says("Hello Ann!")) as (world, agent, _):
        await text_from(world, agent, await new_contact(world, agent, "Ann"), "Are you there?")
        world.registry.allow_starts(True)
        await world.registry.ask(agent.id, RunRequest())
        await is_called.wait()
        await world.ask(agent, StopRequest())

        assert (await only_run(world, agent)).outcome is Outcome.STOPPED
        assert [message.status for message in await sent(world, agent)] == [MessageStatus.QUEUED]


async def test_sleep_after_hearing_of_silence_needs_nobody(pool: Pool) -> None:
    async with talking(pool) as (world, agent, script):
        asked = await text_from(world, agent, await new_contact(world, agent, "Spam"), "You have won!")
        script.say([clears(asked)], says("That was spam."), [SLEEP])
        await start(world, agent)

        run = await only_run(world, agent)
        assert last_question(script).startswith("Your text was sent to nobody")
        assert (run.outcome, run.needs_person) == (Outcome.SLEPT, False)
        assert decoded(run.journal)["unanswered"] == []


async def test_failed_message_after_silence_stands_for_its_run(pool: Pool, gateway: Receiver) -> None:
    gateway.answer = answering(500)
    async with answering_by_text(pool, gateway) as (world, agent, script):
        await world.change(agent, template_id=None)
        ann = await new_contact(world, agent, "Ann")
        asked = await text_from(world, agent, ann, "When do you open?")
        script.say([clears(asked)], says("At nine."), [writes(ann, "At nine.")], says("Done."))
        await start(world, agent)

        [message] = await sent(world, agent)
        assert (message.status, message.needs_person) == (MessageStatus.FAILED, True)
        assert not (await only_run(world, agent)).needs_person


async def test_text_mode_run_failing_after_clearing_needs_a_person(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        ann = await new_contact(world, agent, "Ann")
        asked = await text_from(world, agent, ann, "When do you open?")
        cut_off = ModelResponse("", (), finish_reason=FinishReason.LENGTH)
        script.say([clears(asked)], cut_off, says("At nine."))
        await start(world, agent)
        await world.go_to(100)

        broken_off = (await world.ledger(agent))[0]
        assert (broken_off.outcome, broken_off.needs_person) == (Outcome.FAILED, True)
        assert decoded(broken_off.journal)["unanswered"] == [str(ann.id)]


async def test_failed_message_stands_for_a_run_that_broke_off(pool: Pool, gateway: Receiver) -> None:
    gateway.answer = answering(500)
    async with answering_by_text(pool, gateway) as (world, agent, script):
        ann = await new_contact(world, agent, "Ann")
        asked = await text_from(world, agent, ann, "When do you open?")
        cut_off = ModelResponse("", (), finish_reason=FinishReason.LENGTH)
        script.say([clears(asked), writes(ann, "At nine.")], cut_off)
        await start(world, agent)

        assert [message.needs_person for message in await sent(world, agent)] == [True]
        run = (await world.ledger(agent))[0]
        assert (run.outcome, run.needs_person) == (Outcome.FAILED, False)


async def test_text_beside_a_failed_call_gives_way_to_the_next(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        ann, bob = await new_contact(world, agent, "Ann"), await new_contact(world, agent, "Bob")
        asked = await text_from(world, agent, ann, "Book a table, please.")
        await text_from(world, agent, bob, "Hello")
        script.say(says("It is booked.", ("book", "{}"), clears(asked), SLEEP))
        script.say(says("We are full.", SLEEP), says("Hello Bob!", SLEEP))
        await start(world, agent)

        answers = {(message.contact_id, message.body) for message in await sent(world, agent)}
        assert answers == {(ann.id, "We are full."), (bob.id, "Hello Bob!")}


async def test_text_mode_run_drained_after_clearing_needs_a_person(pool: Pool, gateway: Receiver) -> None:
    async with answering_by_text(pool, gateway) as (world, agent, script):
        asked = await text_from(world, agent, await new_contact(world, agent, "Ann"), "When do you open?")
        called = asyncio.Event()

        async def hang() -> None:
            if await is_cleared(world, asked):
                called.set()
                await asyncio.Event().wait()

        script.during_call = hang
        script.say([clears(asked)], says("At nine."))
        world.registry.allow_starts(True)
        await world.registry.ask(agent.id, RunRequest())
        await called.wait()
        await world.registry.__aexit__(None, None, None)

        run = await only_run(world, agent)
        assert (run.outcome, run.needs_person) == (Outcome.INTERRUPTED, True)
