"""The text that models write, as clients see it while the run goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hostsvc.llm.chat_models import connect
from hostsvc.llm.providers import ProviderSettings
from storage.ids import new_id
from storage.model import CarryOver, Content
from storage.postgres.pool import Pool
from supervisors.engine.run import ActiveRun
from supervisors.harness.live_text import INTERVAL_SECONDS, MAX_CHARACTERS, LiveText
from supervisors.llm.port import ModelResponse, ToolCall
from tests.openai_endpoint import BreaksOff, open_endpoint
from tests.storage.factories import agent
from tests.supervisors.agent_facts import started_run
from tests.supervisors.harness.scripted_runs import SLEEP, only_run, running, start, start_once
from tests.supervisors.held_clock import HeldClock
from tests.supervisors.live_log import LiveLog
from tests.supervisors.world import open_world

HELLO = ModelResponse("Hello, Ada. ", (ToolCall("call_1", "list_notifications", "{}"),))


@dataclass
class Writing:
    """A run whose model writes as the test says."""

    add: Callable[[str], None]
    run: ActiveRun
    clock: HeldClock
    live: LiveLog


@contextmanager
def writing(*, followed: bool = True) -> Iterator[Writing]:
    """Open the first answer of a run, which ends with the block."""
    clock, live, ada = HeldClock(), LiveLog(followed), agent(new_id())
    run = started_run(ada.id, clock)
    run.turns = 1
    live_text = LiveText(run, ada, live, clock)
    yield Writing(live_text.add, run, clock, live)
    live_text.finish()


def test_first_piece_is_shown_at_once() -> None:
    with writing() as model:
        model.add("Hel")
        [event] = model.live.events
        assert (event.type, event.run_id, event.data) == (
            "model.delta",
            model.run.id,
            {"turn": 1, "offset": 0, "text": "Hel"},
        )


def test_pieces_within_the_interval_are_joined() -> None:
    with writing() as model:
        for piece in ("Hel", "lo, ", "A", "da"):
            model.add(piece)
        model.clock.advance(INTERVAL_SECONDS)
        assert model.live.pieces() == [(1, 0, "Hel"), (1, 3, "lo, Ada")]
        model.clock.advance(INTERVAL_SECONDS)
        model.add(".")
        assert model.live.pieces()[2:] == [(1, 10, ".")]
        assert model.clock.timers() == []


def test_end_of_answer_shows_the_rest() -> None:
    with writing() as model:
        model.add("Hel")
        model.add("lo")
    assert model.live.text() == "Hello"
    assert model.clock.timers() == []


def test_nothing_happens_while_nobody_follows() -> None:
    with writing(followed=False) as model:
        model.add("Hello, ")
        model.add("Ada. ")
        assert (model.live.events, model.clock.timers()) == ([], [])
        model.live.is_following = True
        model.add("Tea?")
        assert model.live.pieces() == [(1, 12, "Tea?")]


def test_text_beyond_the_limit_is_left_out() -> None:
    with writing() as model:
        model.add("Hello")
        model.add("x" * (MAX_CHARACTERS + 1))
        model.add("y")
        model.clock.advance(INTERVAL_SECONDS)
        model.add("z")
    assert [len(text) for _, _, text in model.live.pieces()] == [5, MAX_CHARACTERS, 1]
    assert model.live.pieces()[-1] == (1, 5 + MAX_CHARACTERS + 2, "z")


async def test_turns_of_a_run_are_told_apart(pool: Pool) -> None:
    async with running(pool, HELLO, ModelResponse("Good", (ToolCall("call_2", *SLEEP),))) as (world, ada, _):
        await start(world, ada)
        run = await only_run(world, ada)
        assert {event.run_id for event in world.live_output.events} == {run.id}
        assert world.live_output.text() == "Hello, Ada. Good"
        assert [(turn, offset) for turn, offset, _ in world.live_output.pieces()][-1] == (2, 0)


async def test_template_without_content_shows_no_text(pool: Pool) -> None:
    async with running(pool) as (world, _, script):
        for content in (Content.NONE, Content.FULL):
            script.say(HELLO, [SLEEP])
            template = await world.template(content=content)
            await start(world, await world.agent(template_id=template.id))
            assert bool(world.live_output.events) == (content is Content.FULL)


async def test_summary_of_the_transcript_is_not_shown(pool: Pool) -> None:
    async with running(pool, transcript_tokens=1000) as (world, _, script):
        template = await world.template(carry_over=CarryOver.TRANSCRIPT)
        ada = await world.agent(template_id=template.id)
        script.say(ModelResponse("long " * 2000, (ToolCall("call_1", *SLEEP),)))
        await start(world, ada)
        world.live_output.events.clear()
        script.say(ModelResponse("A summary.", ()), ModelResponse("Hello.", (ToolCall("call_2", *SLEEP),)))
        await start(world, ada)
        assert len(script.requests) == 3
        assert world.live_output.text() == "Hello."


async def test_answer_that_breaks_off_is_shown_in_part(pool: Pool) -> None:
    async with (
        open_endpoint(BreaksOff(politely=True, after="I would")) as endpoint,
        connect({"acme": ProviderSettings(endpoint.url, stream=True, max_retries=3)}, {}) as models,
        open_world(pool, model=models["acme"], provider="acme") as world,
    ):
        await start_once(world, await world.agent(model="acme/some-model"))
        assert world.live_output.pieces() == [(1, 0, "I would")]
        assert len(endpoint.calls) == 1  # so no text is ever repeated within a turn
