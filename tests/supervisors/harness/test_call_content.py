"""The content of model calls: each records what is new since the call before."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from storage.errors import DatabaseUnavailable
from storage.ids import new_id
from supervisors.harness.call_content import CallContent
from supervisors.harness.recorded_content import EARLIER_MESSAGES, INPUT_MESSAGES
from supervisors.harness.span_recorder import OpenSpan
from supervisors.llm.port import ChatMessage, ChatRole, ModelRequest
from supervisors.tools.toolkit import ToolDefinition
from tests.storage.factories import NOW
from tests.supervisors.held_clock import HeldClock

PROMPT = ChatMessage(ChatRole.SYSTEM, "Be kind.")
HELLO, MORE, NEWS = (ChatMessage(ChatRole.USER, text) for text in ("Hello!", "More?", "News."))
ANSWER = ChatMessage(ChatRole.ASSISTANT, "Hi.")
TOOL = ToolDefinition("look_up", "", {"type": "object"})


class Texts:
    """A store of shared contents that counts, and fails on demand."""

    def __init__(self, *, fails: bool = False) -> None:
        self.stored: list[bytes] = []
        self._fails = fails

    async def store(self, organization_id: UUID, text: bytes, now: datetime) -> bytes:
        if self._fails:
            raise DatabaseUnavailable("away")
        self.stored.append(text)
        return b"digest of " + text[:30]


def call_content(texts: Texts) -> CallContent:
    return CallContent(new_id(), texts, HeldClock(), 2**20)


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
