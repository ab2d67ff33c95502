"""The recording of a run: its spans, and the content of its calls."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import orjson
import pytest

from storage.errors import DatabaseUnavailable, NoAnswer
from storage.history.spans import SharedContents
from storage.history.trace_model import NewSpan
from storage.history.traces import Traces
from storage.ids import new_id
from storage.postgres.pool import Pool
from supervisors.harness.trace_recorder import (
    EARLIER_MESSAGES,
    INPUT_MESSAGES,
    CallContent,
    ContentPolicy,
    OpenSpan,
    SpanRecorder,
    content_policy,
    input_messages,
    output_messages,
)
from supervisors.llm.port import ChatMessage, ChatRole, ModelRequest, ModelResponse, ToolCall
from supervisors.settings import TracingSettings
from supervisors.tools.tool import ToolDefinition
from tests.storage.factories import NOW, agent, stored_spans, template
from tests.supervisors.held_clock import HeldClock


class ObservedStore:
    """A store of spans that signals and counts each write, and loses the answers on demand."""

    def __init__(self, traces: Traces) -> None:
        self.traces = traces
        self._wrote = asyncio.Event()
        self.loses_answers = False
        self.writes: list[int] = []  # the number of spans of each

    async def insert_spans(self, spans: Sequence[NewSpan]) -> None:
        try:
            await self.traces.insert_spans(spans)
        finally:
            self._note(spans)

    async def end_spans(self, spans: Sequence[NewSpan]) -> None:
        await self.traces.end_spans(spans)
        self._note(spans)

    def _note(self, spans: Sequence[NewSpan]) -> None:
        self.writes.append(len(spans))
        self._wrote.set()
        if self.loses_answers:
            raise NoAnswer("the connection was lost")

    async def list_known_span_ids(self, span_ids: Collection[UUID]) -> set[UUID]:
        return await self.traces.list_known_span_ids(span_ids)

    async def insert_note(self, note: NewSpan) -> None:
        await self.traces.insert_note(note)

    async def wait_for_write(self) -> None:
        await self._wrote.wait()
        self._wrote.clear()


@pytest.fixture
def store(pool: Pool) -> ObservedStore:
    return ObservedStore(Traces(pool, max_spans=3))


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def recorder(store: ObservedStore, clock: HeldClock) -> SpanRecorder:
    return SpanRecorder(new_id(), cast(Traces, store), clock)


async def stored(store: ObservedStore, recorder: SpanRecorder) -> list[str]:
    return [span.name for span in await store.traces.list_spans(recorder.trace_id)]


async def test_spans_are_stored_during_the_run_once_a_second(
    clock: HeldClock, store: ObservedStore, recorder: SpanRecorder
) -> None:
    with recorder.span("first", "tool"):
        pass
    clock.advance(0.9)
    assert await stored(store, recorder) == []
    clock.advance(0.1)
    await store.wait_for_write()
    assert await stored(store, recorder) == ["first"]

    with recorder.span("second", "tool"):
        pass
    clock.advance(0.9)
    assert await stored(store, recorder) == ["first"]

    await recorder.flush()
    assert sorted(await stored(store, recorder)) == ["first", "second"]
    assert clock.timers() == []


async def test_recording_stops_with_one_note_when_the_trace_is_full(
    pool: Pool, recorder: SpanRecorder
) -> None:
    for _ in range(2):
        for number in range(5):
            with recorder.span(f"step {number}", "tool"):
                pass
        await recorder.flush()

    spans = await stored_spans(pool, recorder.trace_id)
    assert sorted(span.name for span in spans) == ["recording stopped", "step 0", "step 1", "step 2"]
    assert [span.error for span in spans if span.error] == [
        "recording stopped: a trace may have at most 3 spans (limits.spans_per_trace)"
    ]


async def test_step_is_stored_open_after_a_second_and_ended(
    pool: Pool, clock: HeldClock, store: ObservedStore, recorder: SpanRecorder
) -> None:
    with recorder.span("invoke", "agent") as root, recorder.span("chat", "llm", root) as chat:
        chat.metadata["asked"] = True
        clock.advance(1.0)
        await store.wait_for_write()
        waiting = await stored_spans(pool, recorder.trace_id)
        chat.metadata["answered"] = True
        clock.advance(30.0)
    await recorder.flush()

    assert sorted((span.name, span.ended_at) for span in waiting) == [("chat", None), ("invoke", None)]
    ended = await stored_spans(pool, recorder.trace_id)
    assert {span.id: span.ended_at for span in ended} == {root.id: clock.now(), chat.id: clock.now()}
    metadata = await pool.fetchval("SELECT metadata FROM span_metadata")
    assert metadata == {"asked": True, "answered": True}


async def test_quick_steps_are_stored_once_at_the_end(
    clock: HeldClock, store: ObservedStore, recorder: SpanRecorder
) -> None:
    for _ in range(3):
        with recorder.span("step", "tool"):
            clock.advance(0.3)
    await recorder.flush()

    assert store.writes == [3]
    assert clock.timers() == []


async def test_step_that_began_just_now_is_not_stored_open(
    clock: HeldClock, store: ObservedStore, recorder: SpanRecorder
) -> None:
    with recorder.span("first", "tool"):
        clock.advance(0.5)
    with recorder.span("second", "tool"):
        clock.advance(0.5)
        await store.wait_for_write()
        assert await stored(store, recorder) == ["first"]
        clock.advance(1.0)
        await store.wait_for_write()
        assert await stored(store, recorder) == ["first", "second"]
    await recorder.flush()


async def test_spans_of_an_insert_without_answer_are_stored_once(
    pool: Pool, clock: HeldClock, store: ObservedStore, recorder: SpanRecorder
) -> None:
    with recorder.span("invoke", "agent"):
        store.loses_answers = True
        with recorder.span("first", "tool"):
            clock.advance(1.0)
            await store.wait_for_write()
        clock.advance(1.0)
        await store.wait_for_write()
        store.loses_answers = False
        with recorder.span("second", "tool"):
            pass
    assert await recorder.flush()

    spans = await stored_spans(pool, recorder.trace_id)
    assert sorted(span.name for span in spans) == ["first", "invoke", "second"]
    assert all(span.ended_at for span in spans)


async def test_flush_tells_that_the_end_of_a_span_is_missing(
    clock: HeldClock, store: ObservedStore, recorder: SpanRecorder
) -> None:
    with recorder.span("chat", "llm"):
        clock.advance(1.0)
        await store.wait_for_write()
        store.loses_answers = True

    assert not await recorder.flush()


async def test_open_step_of_a_full_trace_is_still_ended(
    pool: Pool, clock: HeldClock, store: ObservedStore, recorder: SpanRecorder
) -> None:
    with recorder.span("chat", "llm"):
        clock.advance(1.0)
        await store.wait_for_write()
        for number in range(5):
            with recorder.span(f"step {number}", "tool"):
                pass
        clock.advance(1.0)
        await store.wait_for_write()
    assert await recorder.flush()

    spans = await stored_spans(pool, recorder.trace_id)
    assert sorted(span.name for span in spans) == ["chat", "recording stopped", "step 0", "step 1"]
    assert all(span.ended_at for span in spans)


async def test_content_is_recorded_by_its_policy_only(pool: Pool, recorder: SpanRecorder) -> None:
    for policy in (None, ContentPolicy(None, 2**20)):
        recorder.content_policy = policy
        with recorder.span("chat", "llm") as chat:
            chat.content["told"] = "Hello!"
    await recorder.flush()

    rows = await pool.fetch("SELECT span_id, content FROM span_metadata")
    assert [(row["span_id"], row["content"]) for row in rows] == [(chat.id, {"told": "Hello!"})]


PROMPT = ChatMessage(ChatRole.SYSTEM, "Be kind.")
HELLO, MORE, NEWS = (ChatMessage(ChatRole.USER, text) for text in ("Hello!", "More?", "News."))
ANSWER = ChatMessage(ChatRole.ASSISTANT, "Hi.")
TOOL = ToolDefinition("look_up", "", {"type": "object"})


class Texts(SharedContents):
    """A store of shared contents that counts, and fails on demand."""

    def __init__(self, *, fails: bool = False) -> None:
        self.stored: list[bytes] = []
        self._fails = fails

    async def store(self, organization_id: UUID, text: bytes, now: datetime) -> bytes:
        if self._fails:
            raise DatabaseUnavailable("away")
        self.stored.append(text)
        return b"digest of " + text[:30]


def call_content(texts: Texts, max_bytes: int = 2**20) -> CallContent:
    return CallContent(agent(new_id()), texts, HeldClock(), max_bytes)


async def told(
    content: CallContent, *messages: ChatMessage, tools: tuple[ToolDefinition, ...] = (TOOL,)
) -> OpenSpan:
    span = OpenSpan(new_id(), "chat", "llm", None, NOW, 0.0)
    await content.record_request(span, ModelRequest("gpt", messages, tools))
    return span


def texts_of(span: OpenSpan) -> Sequence[str]:
    return [message["parts"][0]["content"] for message in span.content[INPUT_MESSAGES]]


async def test_each_call_records_only_new_messages() -> None:
    content, tools = call_content(Texts()), (TOOL,)

    first = await told(content, PROMPT, HELLO, tools=tools)
    second = await told(content, PROMPT, HELLO, ANSWER, MORE, tools=tools)
    third = await told(content, PROMPT, HELLO, ANSWER, MORE, ANSWER, NEWS, MORE, tools=tools)

    assert [texts_of(span) for span in (first, second, third)] == [["Hello!"], ["More?"], ["News.", "More?"]]
    assert [span.content[EARLIER_MESSAGES] for span in (first, second, third)] == [0, 3, 5]


async def test_answers_of_earlier_runs_are_recorded_by_the_first_call() -> None:
    content = call_content(Texts())

    first = await told(content, PROMPT, HELLO, ANSWER, MORE)

    assert texts_of(first) == ["Hello!", "Hi.", "More?"]


async def test_conversation_that_was_rewritten_is_recorded_in_full() -> None:
    content = call_content(Texts())
    await told(content, PROMPT, HELLO, ANSWER, MORE)

    compacted = await told(content, PROMPT, NEWS, MORE)

    assert texts_of(compacted) == ["News.", "More?"]
    assert compacted.content[EARLIER_MESSAGES] == 0


async def test_shared_parts_are_referred_to_where_they_change() -> None:
    texts, tools = Texts(), (TOOL,)
    content = call_content(texts)

    spans = [
        await told(content, PROMPT, HELLO, tools=tools),
        await told(content, PROMPT, HELLO, ANSWER, MORE, tools=tools),
        await told(content, PROMPT, NEWS, tools=(TOOL,)),
        await told(content, PROMPT, NEWS, ANSWER, MORE, tools=(TOOL, TOOL)),
        await told(content, ChatMessage(ChatRole.SYSTEM, "Be brief."), NEWS, tools=()),
    ]

    assert [(span.instructions is not None, span.tools is not None) for span in spans] == [
        (True, True),
        (False, False),
        (False, False),
        (False, True),
        (True, False),
    ]
    assert len(texts.stored) == 4


async def test_failure_to_store_shared_parts_does_not_stop_the_run() -> None:
    span = await told(call_content(Texts(fails=True)), PROMPT, HELLO)

    assert (span.instructions, span.tools, texts_of(span)) == (None, None, ["Hello!"])


KIB = 1024
CALL = ToolCall("call_1", "look_up", '{"word": "tea"}')
CONVERSATION = (
    ChatMessage(ChatRole.SYSTEM, "Be kind."),
    ChatMessage(ChatRole.USER, "Hello!"),
    ChatMessage(ChatRole.ASSISTANT, "Wait.", (CALL,)),
    ChatMessage(ChatRole.TOOL, '{"result":["a drink"]}', tool_call_id="call_1"),
)


def recorded(content: dict[str, Any], max_bytes: int = 2**20) -> dict[str, Any]:
    text = ContentPolicy(None, max_bytes).content(content).text
    assert len(text) <= max_bytes
    parsed: dict[str, Any] = orjson.loads(text)
    return parsed


def test_messages_have_the_form_of_the_conventions() -> None:
    tool_call = {"type": "tool_call", "id": "call_1", "name": "look_up", "arguments": {"word": "tea"}}
    response = {"type": "tool_call_response", "id": "call_1", "response": {"result": ["a drink"]}}

    assert recorded({"input": input_messages(CONVERSATION)}) == {
        "input": [
            {"role": "user", "parts": [{"type": "text", "content": "Hello!"}]},
            {"role": "assistant", "parts": [{"type": "text", "content": "Wait."}, tool_call]},
            {"role": "tool", "parts": [response]},
        ]
    }


def test_answer_has_reasoning_text_calls_and_finish_reason() -> None:
    broken = ToolCall("call_2", "look_up", '{"word": ')
    answer = ModelResponse("Tea.", (broken,), finish_reason="length", reasoning="Hm.")

    [message] = recorded({"output": output_messages(answer)})["output"]

    assert message == {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "Hm."},
            {"type": "text", "content": "Tea."},
            {"type": "tool_call", "id": "call_2", "name": "look_up", "arguments": '{"word": '},
        ],
        "finish_reason": "length",
    }


async def test_shared_parts_have_the_form_of_the_conventions() -> None:
    texts, tool = Texts(), ToolDefinition("look_up", "Look up a word.", {"type": "object"}, new_id())

    await told(call_content(texts), *CONVERSATION, tools=(tool,))
    [instructions, tools] = map(orjson.loads, texts.stored)

    assert instructions == [{"type": "text", "content": "Be kind."}]
    assert tools == [
        {
            "type": "function",
            "name": "look_up",
            "description": "Look up a word.",
            "parameters": {"type": "object"},
        }
    ]


async def test_nothing_is_stored_without_instructions_and_tools() -> None:
    texts = Texts()
    span = await told(call_content(texts), *CONVERSATION[1:], tools=())

    assert (texts.stored, span.instructions, span.tools) == ([], None, None)


def test_long_texts_are_cut_with_a_note() -> None:
    told = [ChatMessage(ChatRole.USER, text) for text in ("Hello!", "x" * 30_000)]

    content = recorded({"input": input_messages(told)}, 10 * KIB)

    short, long = (message["parts"][0]["content"] for message in content["input"])
    assert (short, long[7_999:]) == ("Hello!", "x… (cut: 8000 of 30000 characters)")
    assert content["hostsvc.content.cut"].startswith("It was too long: texts of more than 8000 characters")


def test_content_that_cannot_be_cut_is_replaced_by_a_note() -> None:
    told = [ChatMessage(ChatRole.USER, "Hello!") for _ in range(1000)]

    assert recorded({"input": input_messages(told)}, KIB) == {
        "hostsvc.content.cut": "It was too long to be kept: 61011 bytes of JSON."
    }


async def test_long_shared_parts_are_cut() -> None:
    texts, prompt = Texts(), ChatMessage(ChatRole.SYSTEM, "x" * 30_000)
    tool = ToolDefinition("look_up", "x" * 30_000, {"type": "object"})

    await told(call_content(texts, 10 * KIB), prompt, tools=(tool,))

    assert [len(text) <= 10 * KIB for text in texts.stored] == [True, True]


@pytest.mark.parametrize(
    ("of_template", "of_configuration", "is_recorded"),
    [
        (None, "full", True),
        (None, "none", False),
        ("", "full", True),
        ("", "none", False),
        ("full", "none", True),
        ("none", "full", False),
    ],
)
def test_template_overrides_whether_content_is_recorded(
    of_template: str | None, of_configuration: Any, is_recorded: bool
) -> None:
    shared = None if of_template is None else template(new_id(), content=of_template)

    policy = content_policy(shared, TracingSettings(of_configuration), KIB)

    expected = ContentPolicy(shared.id if shared else None, KIB) if is_recorded else None
    assert policy == expected
