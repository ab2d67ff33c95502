"""Agents in worlds of their own, as users of the plugin test them."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import structlog

from hostsvc_testing import AgentRun, World, script
from hostsvc_testing.virtual.virtual_loop import EndlessMoment, NothingAhead
from storage.model import Outcome, Reply
from storage.parked_calls import CallState
from supervisors.tools.arguments import ToolError

PHONE = "+436601234567"


async def answers(run: AgentRun) -> None:
    for one in await run.queue():
        if one.source_id:
            await run.send_text(one, f"You said: {one.body}")
        await run.clear(one)
    await run.sleep()


async def forgets_to_clear(run: AgentRun) -> None:
    for one in await run.queue():
        await run.send_text(one, "Thank you.")
    await run.sleep()


async def answers_once(run: AgentRun) -> None:
    """Look at what was sent before, as the last run may have died between the answer and the clearing."""
    for one in await run.queue():
        last = (await run.call("list_messages", contact_id=one.source_id))[-1]
        if last["direction"] == "inbound":
            await run.send_text(one, "Thank you.")
        await run.clear(one)
    await run.sleep()


async def test_script_follows_up(world: World) -> None:
    agent = await world.agent(template="support", model=script("follow_up.yaml"))
    await world.text(agent, sender=PHONE, body="Where is my parcel?")
    await world.advance(days=9)
    assert [m.body for m in agent.sent] == ["At the depot.", "It arrives today."]
    assert agent.wakes <= 4
    assert {run.outcome for run in agent.runs} == {Outcome.SLEPT}


async def test_history_tells_of_errors_of_the_service(world: World) -> None:
    agent = await world.agent(quiet_hours="99:00-1")
    await world.notify(agent, "Go")
    await world.advance(minutes=1)
    assert not agent.wakes
    assert 'error: supervisor crashed: ValueError(\'"99:00-1" is no period' in str(world.history)


async def test_history_names_errors_that_the_service_caught_before(world: World) -> None:
    structlog.get_logger().error("tool crashed", tool="refund", exc_info=ValueError("odd"))
    structlog.get_logger().error("usage not stored")
    assert "error: tool crashed: ValueError('odd')\n" in str(world.history)
    assert str(world.history).endswith("error: usage not stored")


async def test_script_goes_on_in_order_after_decisions(world: World) -> None:
    paid: list[int] = []
    world.tool("refund", lambda amount: paid.append(amount), approval="always")
    agent = await world.agent(model=script("in_order.yaml"))
    await world.notify(agent, "Parcel lost")
    await world.advance(hours=1)
    assert [call.question for call in agent.pending] == ["May I pay back 80?"]
    await world.decide(agent, answer="Yes")
    await world.advance(hours=1)
    assert not paid
    await world.decide(agent)
    await world.advance(minutes=1)
    assert paid == [80]
    assert [m.body for m in agent.sent] == ["Paid."]


async def test_script_without_fitting_item_fails_run(world: World) -> None:
    agent = await world.agent(model=script("follow_up.yaml"))
    await world.notify(agent, "Something else")
    await world.advance(seconds=1)
    assert agent.runs[0].outcome is Outcome.FAILED
    assert "no answer to what waits: 'Something else" in agent.runs[0].error


async def test_question_that_nobody_answers_expires(world: World) -> None:
    async def asks(run: AgentRun) -> None:
        for one in await run.queue():
            if one.source == "api":
                await run.call("ask_person", question="May I?")
            await run.clear(one)
        await run.sleep()

    agent = await world.agent(run=asks)
    await world.notify(agent, "Go")
    await world.advance(days=8)
    assert not agent.pending
    assert CallState.EXPIRED in {call.state for call in world.tables.calls.rows.values()}
    assert [one.title for one in agent.queue] == ["ask_person: expired"]


async def test_month_of_thousand_wakes(world: World) -> None:
    agent = await world.agent(run=answers)
    for _ in range(1000):
        await world.text(agent, sender=PHONE, body="Hello")
        await world.advance(minutes=43.2)
    assert agent.wakes == len(agent.sent) == 1000
    assert world.now >= datetime(2027, 3, 31, 9, tzinfo=UTC)


async def test_reminder_for_years_ahead_comes(world: World) -> None:
    agent = await world.agent(run=answers)
    await world.notify(agent, "Renew", scheduled_for=world.now + timedelta(days=1500))
    await world.advance(days=1499)
    assert agent.wakes == 0
    await world.advance(days=1)
    assert agent.wakes == 1


async def test_agent_that_forgets_to_clear_is_found(world: World) -> None:
    agent = await world.agent(run=forgets_to_clear)
    await world.text(agent, sender=PHONE, body="Hello")
    await world.advance(days=1)
    assert len(agent.sent) > 1
    assert agent.queue


@pytest.mark.seeds(60)
async def test_crash_repeats_no_answer_of_careful_agent(world: World) -> None:
    agent = await world.agent(run=answers_once)
    world.crash()
    await world.text(agent, sender=PHONE, body="Hello")
    await world.advance(days=1)
    assert len(agent.sent) <= 1
    assert not agent.queue


@pytest.mark.seeds(60)
async def test_crash_repeats_no_answer_by_text(world: World) -> None:
    world.template("chatty", reply=Reply.TEXT)
    agent = await world.agent(template="chatty", model=script("by_text.yaml"))
    world.crash()
    await world.text(agent, sender=PHONE, body="Hello")
    await world.advance(days=1)
    assert [m.body for m in agent.sent] == ["Hello yourself."]
    assert not agent.queue


def test_crash_lets_careless_agent_answer_twice(tmp_path: Path) -> None:
    counts = {seed: answers_after_crash(seed, tmp_path) for seed in range(60)}
    assert set(counts.values()) == {1, 2}
    assert {seed: answers_after_crash(seed, tmp_path) for seed in counts} == counts


def answers_after_crash(seed: int, folder: Path) -> int:
    world = World(seed, folder)

    async def test() -> int:
        agent = await world.agent(run=answers)
        world.crash()
        await world.text(agent, sender=PHONE, body="Hello")
        await world.advance(days=1)
        counts.append(len(agent.sent))
        return 0

    counts: list[int] = []
    world.run(test())
    return counts[0]


async def test_duplicate_deliveries_arrive_twice(world: World) -> None:
    agent = await world.agent(run=answers_once)
    world.duplicate_deliveries()
    await world.email(agent, sender="ada@example.org", body="Hello")
    await world.advance(minutes=1)
    assert len(world.tables.messages) == 3
    assert len(agent.sent) == 1


async def test_debounce_window_of_template_holds_messages(world: World) -> None:
    world.template("slow", debounce_window_seconds=60)
    agent = await world.agent(template="slow", run=answers)
    for _ in range(3):
        await world.text(agent, sender=PHONE, body="Hello")
        await world.advance(seconds=30)
    assert agent.wakes == 0
    await world.advance(seconds=60)
    assert agent.wakes == 1


async def test_quiet_hours_follow_time_zone_and_clock(world: World) -> None:
    agent = await world.agent(run=answers, timezone="Europe/Vienna", quiet_hours="22:00-07:00")
    world.set_clock(datetime(2027, 3, 27, 22, tzinfo=UTC))  # an hour before midnight, summer time begins
    await world.notify(agent, "Later")
    await world.advance(hours=6.9)
    assert agent.wakes == 0
    await world.advance(hours=0.2)
    assert agent.runs[0].started_at == datetime(2027, 3, 28, 5, tzinfo=UTC)


async def test_reminder_wakes_despite_clock_that_is_set_back(world: World) -> None:
    async def reminds(run: AgentRun) -> None:
        for one in await run.queue():
            await run.clear(one)
            if one.source == "api":
                await run.remind("Look again", hours=2)
        await run.sleep()

    agent = await world.agent(run=reminds)
    await world.notify(agent, "Go")
    await world.advance(hours=1)
    world.set_clock(hours=-1)
    await world.advance(hours=1.9)
    assert agent.wakes == 1
    await world.advance(hours=0.2)
    assert agent.wakes == 2


async def test_schedule_wakes_each_working_day(world: World) -> None:
    async def works(run: AgentRun) -> None:
        for one in await run.queue():
            await run.clear(one)
            if one.source == "api":
                await run.call("set_schedule", name="figures", title="Look", cron="0 9 * * 1-5")
        await run.sleep()

    agent = await world.agent(run=works, timezone="Europe/Vienna")
    await world.notify(agent, "Go")
    world.crash()
    await world.advance(days=28)
    begun = {run.started_at.isoformat() for run in agent.runs}
    assert {"2027-03-26T08:00:00+00:00", "2027-03-29T07:00:00+00:00"} <= begun  # summer time has begun
    assert agent.wakes == 21
    assert not agent.queue


async def test_sleep_is_refused_while_something_waits(world: World) -> None:
    granted: list[bool] = []

    async def hurries(run: AgentRun) -> None:
        granted.append(await run.sleep())
        await run.clear(*await run.queue())
        granted.append(await run.sleep(until=run.now() + timedelta(hours=1)))

    agent = await world.agent(run=hurries)
    await world.notify(agent, "Go")
    await world.advance(minutes=5)
    assert granted == [False, True]


async def test_refused_tool_fails_run_of_function(world: World) -> None:
    async def guesses(run: AgentRun) -> None:
        with pytest.raises(ToolError):
            await run.call("refund", amount=1)
        await run.call("clear_notification", notification_id="none")

    agent = await world.agent(run=guesses)
    await world.notify(agent, "Go")
    await world.advance(seconds=1)
    assert agent.runs[0].outcome is Outcome.FAILED


async def remembers(run: AgentRun) -> None:
    for one in await run.queue():
        if one.body.startswith("I drink"):
            await run.call("memory", command="create", path="/memories/core.md", file_text=one.body)
        else:
            await run.send_text(one, await run.call("memory", command="view", path="/memories/core.md"))
        await run.clear(one)
    await run.sleep()


async def test_memory_lasts_for_weeks_and_over_crash(world: World) -> None:
    agent = await world.agent(run=remembers)
    await world.text(agent, sender=PHONE, body="I drink tea")
    await world.advance(weeks=3)
    world.crash()
    await world.text(agent, sender=PHONE, body="The usual, please")
    await world.advance(hours=1)
    assert agent.documents == {"/memories/core.md": "I drink tea"}
    assert "I drink tea" in agent.sent[-1].body


async def test_documents_are_written_and_found(world: World) -> None:
    found: list[str] = []

    async def writes(run: AgentRun) -> None:
        for one in await run.queue():
            if one.title == "Write":
                await run.call("write_document", title="Notes", content="Ada drinks tea")
            hits = await run.call("search_documents", query="tea")
            read = [await run.call("read_document", document_id=hit["id"]) for hit in hits]
            found.extend(each["content"] for each in read)
            await run.clear(one)
        await run.sleep()

    agent, other = await world.agent(run=writes), await world.agent(run=writes)
    await world.notify(agent, "Write")
    await world.notify(other, "Look")
    await world.advance(seconds=1)
    assert found == ["Ada drinks tea"]
    assert (agent.documents, other.documents) == ({"Notes": "Ada drinks tea"}, {})


async def test_child_works_as_its_template_says(world: World) -> None:
    async def delegates(run: AgentRun) -> None:
        for one in await run.queue():
            if one.source == "sms":
                child = await run.call("create_agent", name="researcher", instruction="Look it up.")
                await run.call("send_message", contact_id=child["id"], body=one.body)
            elif one.source == "subagent":
                await run.send_text(PHONE, one.body)
            await run.clear(one)
        await run.sleep()

    world.template("office", run=answers, may_create_agents=True)
    agent = await world.agent(template="office", run=delegates)
    await world.text(agent, sender=PHONE, body="Hello")
    await world.advance(minutes=1)
    [child] = agent.children
    assert child.wakes == 1
    assert [m.body for m in agent.sent] == ["You said: Hello"]


async def test_children_have_scripts_of_their_own(world: World) -> None:
    world.template("office", model=script("child.yaml"), may_create_agents=True)
    agent = await world.agent(template="office", model=script("parent.yaml"))
    await world.text(agent, sender=PHONE, body="Hello")
    await world.advance(minutes=1)
    assert [child.documents for child in agent.children] == [{"/memories/core.md": "Ada waits"}] * 2
    assert [m.body for m in agent.sent] == ["A child knows."]


async def test_attachments_are_refused_with_alternative(world: World) -> None:
    agent = await world.agent()
    with pytest.raises(TypeError, match="have no attachments: test this on a service, with --hostsvc-url"):
        await world.email(agent, sender="ada@example.org", body="See", attachments=[])


async def test_model_that_is_no_script_is_refused(world: World) -> None:
    with pytest.raises(TypeError, match="takes script"):
        await world.agent(model="openai/gpt")  # type: ignore[arg-type]  # it is wrong on purpose


def test_script_without_steps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("when: Hello")
    with pytest.raises(ValueError, match="must be a list of items with a list `do`"):
        script("wrong.yaml").read(tmp_path)


async def test_history_shows_calls_with_names(world: World) -> None:
    agent = await world.agent(run=answers, name="Ada")
    await world.text(agent, sender=PHONE, body="Hello")
    await world.advance(days=1)
    assert str(world.history).splitlines() == [
        f"Mon 01 Mar 09:00:00.000  Ada {line}"
        for line in (
            f"gets New sms from {PHONE}: Hello",
            "wakes: notification:sms",
            f"calls send_message(contact_id='{PHONE}', body='You said: Hello')",
            f"sends sms to {PHONE}: You said: Hello",
            f"calls clear_notification(notification_id='New sms from {PHONE}')",
            "calls sleep()",
        )
    ]


@pytest.mark.parametrize(
    ("tool", "arguments", "lacking"),
    [
        ("list_projects", {}, "list_projects"),
        ("write_document", {"title": "Notes", "project_id": str(UUID(int=7))}, "project_id"),
    ],
)
async def test_tool_that_worlds_lack_says_so(
    world: World, tool: str, arguments: dict[str, str], lacking: str
) -> None:
    async def plans(run: AgentRun) -> None:
        await run.call(tool, **arguments)

    agent = await world.agent(run=plans)
    await world.notify(agent, "Go")
    await world.advance(seconds=1)
    assert agent.runs[0].error == (
        f"worlds in memory have no {lacking}: test this on a service, with --hostsvc-url"
    )


async def test_own_tool_may_take_project(world: World) -> None:
    booked: list[str] = []
    world.tool("book", lambda project_id: booked.append(project_id))

    async def books(run: AgentRun) -> None:
        await run.call("book", project_id="Garden")
        await run.clear(*await run.queue())

    await world.notify(await world.agent(run=books), "Go")
    await world.advance(seconds=1)
    assert booked == ["Garden"]


async def test_refusals_of_script_are_in_history(world: World) -> None:
    agent = await world.agent(model=script("in_order.yaml"))
    await world.notify(agent, "Go")
    await world.advance(hours=1)
    await world.decide(agent, answer="No")
    await world.advance(seconds=1)
    assert "is refused refund: There is no tool named refund." in str(world.history)


@pytest.mark.parametrize("approval", ["never", "always"])
async def test_tool_that_breaks_is_told_to_agent(world: World, approval: str) -> None:
    def refund(amount: int) -> None:
        raise ValueError(f"{amount} is too much")

    async def pays(run: AgentRun) -> None:
        for one in await run.queue():
            await run.clear(one)
            heard.append(one.body)
            if one.source == "api":
                with suppress(ToolError):
                    await run.call("refund", amount=80)
        await run.sleep()

    heard: list[str] = []
    world.tool("refund", refund, approval=approval)
    agent = await world.agent(run=pays)
    await world.notify(agent, "Go")
    await world.advance(minutes=1)
    if approval == "always":
        await world.decide(agent)
        await world.advance(minutes=1)
        assert "80 is too much" in heard[-1]
    assert "calls refund(amount=80)" in str(world.history)
    assert "breaks refund: ValueError('80 is too much')" in str(world.history)


async def test_defect_of_function_is_in_history(world: World) -> None:
    async def breaks(run: AgentRun) -> None:
        raise ZeroDivisionError

    agent = await world.agent(run=breaks)
    await world.notify(agent, "Go")
    await world.advance(seconds=1)
    assert "ZeroDivisionError" in str(world.history)


def test_test_that_waits_in_vain_is_told(tmp_path: Path) -> None:
    world = World(0, tmp_path)

    async def test() -> None:
        await world.loop.create_future()

    with pytest.raises(NothingAhead, match="time passes by"):
        world.run(test())


@pytest.mark.parametrize("look", [lambda run: run.queue(), lambda run: run.call("list_messages")])
def test_run_that_only_looks_is_found(tmp_path: Path, look: Any) -> None:
    world = World(0, tmp_path)

    async def polls(run: AgentRun) -> None:
        while True:
            await look(run)

    async def test() -> None:
        agent = await world.agent(run=polls)
        await world.notify(agent, "Go")
        await world.advance(seconds=1)

    with pytest.raises(EndlessMoment, match="without time passing"):
        world.run(test())


async def test_builtin_inbox_clears_without_script(world: World) -> None:
    agent = await world.agent(adapters=["those of a service"])
    await world.notify(agent, "Go")
    await world.advance(seconds=1)
    assert (agent.wakes, agent.queue) == (1, [])
