"""The recording of a run: its spans, and what its models and tools were told and answered.

The content has the form of OpenTelemetry's GenAI conventions. Each call of a model records only what the
calls before it did not.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
import structlog

from storage.errors import NotUnique, StorageError, TraceFull
from storage.history.spans import SharedContents
from storage.history.trace_model import NewSpan, Span, SpanContent, usage_of
from storage.history.traces import Traces
from storage.ids import new_id
from storage.model import Agent, Content, Template
from storage.postgres.json_values import to_json
from supervisors.clock import Clock, Timer
from supervisors.errors import log_failure
from supervisors.llm.port import ChatMessage, ChatRole, ModelRequest, ModelResponse
from supervisors.settings import TracingSettings
from supervisors.text import shorten, shortened_json, storable
from supervisors.tools.tool import ToolDefinition

log = structlog.get_logger()

STORE_INTERVAL_SECONDS = 1.0
OPEN_SECONDS = 0.9  # a step that is open for longer is stored before its end
CUT_SHORT = "cut short: the run was ended"
FULL = "recording stopped: a trace may have at most {} spans (limits.spans_per_trace)"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
EARLIER_MESSAGES = "hostsvc.input.earlier_messages"


@dataclass(slots=True, eq=False)
class OpenSpan:
    """A step in progress; `metadata` and `content` use the attribute names of OpenTelemetry GenAI.

    `content` is what a model or a tool is told and answers. `instructions` and `tools` are digests of the
    parts of it that many calls share.
    """

    id: UUID
    name: str
    span_type: str
    parent_id: UUID | None
    started_at: datetime
    began_at: float  # on the monotonic clock
    metadata: dict[str, Any] = field(default_factory=dict)
    content: dict[str, Any] = field(default_factory=dict)
    instructions: bytes | None = None
    tools: bytes | None = None
    error: str = ""


@dataclass(slots=True, eq=False)
class SpanRecorder:
    """The spans of one run. Spans that could not be stored are kept for the next attempt.

    A step that takes longer than about a second is stored while it is open, and ended later. When the trace
    has as many spans as it may have, one more says so, and later ones are not recorded. Content is recorded
    once `content_policy` is set. No span ends later than the trace.
    """

    trace_id: UUID
    store: Traces
    clock: Clock
    trace_ended_at: Callable[[], datetime | None] = lambda: None
    content_policy: "ContentPolicy | None" = None
    _open: list[OpenSpan] = field(default_factory=list)
    _stored_open: set[UUID] = field(default_factory=set)  # the spans that the store has without their end
    _finished: list[NewSpan] = field(default_factory=list)
    _next: Timer | None = None  # when spans are stored
    _writing: asyncio.Task[None] | None = None
    _is_full: bool = False

    @contextmanager
    def tool_span(self, tool: str, parent: OpenSpan) -> Iterator[OpenSpan]:
        """Record the block as a call of the tool."""
        with self.span(f"execute_tool {tool}", "tool", parent) as step:
            step.metadata |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
            yield step

    @contextmanager
    def span(
        self, name: str, span_type: str, parent: OpenSpan | None = None, started_at: datetime | None = None
    ) -> Iterator[OpenSpan]:
        """Record the block as a step; an exception that leaves the block becomes the step's error.

        The step with a `started_at` is the run itself, and has its id: programs elsewhere can name it.
        """
        parent_id = parent.id if parent else None
        span_id, started_at = self.trace_id if started_at else new_id(), started_at or self.clock.now()
        step = OpenSpan(span_id, storable(name), span_type, parent_id, started_at, self.clock.monotonic())
        self._open.append(step)
        self._schedule_storing()
        try:
            yield step
        except asyncio.CancelledError:
            step.error = step.error or CUT_SHORT
            raise
        except BaseException as error:
            step.error = step.error or str(error) or type(error).__name__
            raise
        finally:
            self._open.remove(step)
            if not self._is_full or step.id in self._stored_open:
                self._finished.append(self._new_span(step, self.clock.now()))
                self._schedule_storing()

    async def flush(self) -> bool:
        """Store the spans that have finished, at the end of the run; return whether all have their ends."""
        if self._writing is not None:
            await asyncio.wait({self._writing})
        if self._next is not None:
            self._next.cancel()
        await self._store_finished()
        return not self._stored_open

    def _new_span(self, step: OpenSpan, ended_at: datetime | None) -> NewSpan:
        """Return the span of the step, which is still open if `ended_at` is None."""
        started_at, last_at = step.started_at, self.trace_ended_at()
        if ended_at is not None:
            started_at = min(started_at, last_at or started_at)
            ended_at = max(started_at, min(ended_at, last_at or ended_at))
        span = Span(
            id=step.id,
            trace_id=self.trace_id,
            parent_id=step.parent_id,
            name=step.name,
            span_type=step.span_type,
            started_at=started_at,
            ended_at=ended_at,
            error=storable(step.error),
            **usage_of(step.metadata),
        )
        policy, content = self.content_policy, None
        if policy is not None and step.content:
            content = policy.content(step.content, step.instructions, step.tools)
        return NewSpan(span, to_json(step.metadata).decode(), content)

    def _schedule_storing(self) -> None:
        """Store the spans soon, at most once a second, also while the run waits for something.

        A short run stores all of its spans at its end.
        """
        if self._next is None:
            moment = self.clock.monotonic() + STORE_INTERVAL_SECONDS
            self._next = self.clock.call_at(moment, self._start_storing)

    def _start_storing(self) -> None:
        self._writing = asyncio.ensure_future(self._store_and_reschedule())

    async def _store_and_reschedule(self) -> None:
        await self._store_finished()
        await self._store_open()
        self._next = None
        if self._finished or self._unstored_open():
            self._schedule_storing()

    async def _store_finished(self) -> None:
        """Store the finished spans. A failure is only logged: tracing never stops a run."""
        spans, self._finished = self._finished, []
        try:
            ended = [new for new in spans if new.span.id in self._stored_open]
            if ended:
                await self.store.end_spans(ended)
            await self._insert([new for new in spans if new.span.id not in self._stored_open])
        except StorageError as error:
            log_failure(log, "spans not stored yet", error, count=len(spans))
            self._finished = spans + self._finished
            return
        self._stored_open.difference_update(new.span.id for new in spans)

    async def _store_open(self) -> None:
        """Store the steps that have been open for long. Those of them that end before are ended later."""
        latest = self.clock.monotonic() - OPEN_SECONDS
        steps = [step for step in self._unstored_open() if step.began_at <= latest]
        self._stored_open.update(step.id for step in steps)  # first: they may end during the write
        try:
            await self._insert([self._new_span(step, None) for step in steps])
        except StorageError as error:
            log_failure(log, "open spans not stored yet", error, count=len(steps))
            self._stored_open.difference_update(step.id for step in steps)

    def _unstored_open(self) -> list[OpenSpan]:
        if self._is_full:
            return []
        return [step for step in self._open if step.id not in self._stored_open]

    async def _insert(self, spans: list[NewSpan]) -> None:
        """Insert the spans; end those that an earlier attempt had stored although it failed."""
        if not spans or self._is_full:
            return
        try:
            await self.store.insert_spans(spans)
        except TraceFull as error:
            self._is_full = True
            self._stored_open.difference_update(new.span.id for new in spans)
            await self._store_last(spans, error)
        except NotUnique:
            known = await self.store.list_known_span_ids([new.span.id for new in spans])
            await self.store.end_spans([new for new in spans if new.span.id in known])
            await self.store.insert_spans([new for new in spans if new.span.id not in known])

    async def _store_last(self, spans: list[NewSpan], full: TraceFull) -> None:
        """Store the spans that still fit, and a note that there are no further ones."""
        now = self.clock.now()
        note = OpenSpan(new_id(), "recording stopped", "other", None, now, self.clock.monotonic())
        note.error = FULL.format(full.max_spans)
        fitting = spans[: full.max_spans - full.stored]
        try:
            with suppress(TraceFull):  # clients may have added spans since
                await self.store.insert_spans(fitting)
                self._stored_open.update(new.span.id for new in fitting if new.span.ended_at is None)
            await self.store.insert_note(self._new_span(note, now))
        except StorageError as error:
            log.warning("spans not stored: the trace is full", count=len(spans), error=str(error))


@dataclass(slots=True)
class CallContent:
    """Records what a run's model is told in the spans of its calls.

    The first call has the system instructions and the tool definitions; a later one only if they differ. Its
    messages are those that are new since the call before.
    """

    agent: Agent
    store: SharedContents
    clock: Clock
    max_bytes: int
    _sent: tuple[ChatMessage, ...] = ()  # the messages of the last call
    _instructions: list[str] = field(default_factory=list)  # of the last call
    _tools: tuple[ToolDefinition, ...] = ()

    async def record_request(self, span: OpenSpan, request: ModelRequest) -> None:
        """Record what the model is told by this request."""
        messages, sent = request.messages, self._sent
        earlier = len(sent) if messages[: len(sent)] == sent else 0  # all of the last call, or none
        new = messages[earlier:]
        if earlier and new and new[0].role is ChatRole.ASSISTANT:  # recorded as the last call's answer
            new, earlier = new[1:], earlier + 1
        self._sent = messages
        span.content[INPUT_MESSAGES] = input_messages(new)
        span.content[EARLIER_MESSAGES] = earlier
        instructions = [message.text for message in messages if message.role is ChatRole.SYSTEM]
        if instructions != self._instructions:
            self._instructions = instructions
            span.instructions = await self._digest(
                [{"type": "text", "content": text} for text in instructions]
            )
        if request.tools != self._tools:
            self._tools = request.tools
            span.tools = await self._digest(
                [
                    {
                        "type": "function",
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.parameters,
                    }
                    for tool in request.tools
                ]
            )

    async def _digest(self, parts: list[dict[str, Any]]) -> bytes | None:
        """Store the parts, cut if they are too long, and return their digest; None if there are none.

        A failure is only logged: recording never stops a run.
        """
        if not parts:
            return None
        text = to_json(shorten(parts, self.max_bytes)[0])
        try:
            return await self.store.store(self.agent.organization_id, text, self.clock.now())
        except StorageError as error:
            log_failure(log, "system prompt or tools not recorded", error)
            return None


@dataclass(frozen=True, slots=True)
class ContentPolicy:
    """How the content of a run's spans is stored: by whose retention, and at most how long for each span."""

    template_id: UUID | None
    max_bytes: int

    def content(
        self, content: dict[str, Any], instructions: bytes | None = None, tools: bytes | None = None
    ) -> SpanContent:
        """Return the content to store. If it is too long, its longest texts are cut, and a note says so."""
        text = to_json(content)
        if len(text) > self.max_bytes:
            text = shortened_json(text, self.max_bytes)
        return SpanContent(text.decode(), self.template_id, instructions, tools)


def content_policy(
    template: Template | None, settings: TracingSettings, max_bytes: int
) -> ContentPolicy | None:
    """Return how the content of a run is stored; None if it is not recorded."""
    content = (template.content if template else "") or settings.content
    if content == Content.NONE:
        return None
    return ContentPolicy(template.id if template else None, max_bytes)


def input_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return the messages to a model, without its system instructions."""
    return [
        {"role": message.role.value, "parts": _parts(message)}
        for message in messages
        if message.role is not ChatRole.SYSTEM
    ]


def output_messages(answer: ModelResponse) -> list[dict[str, Any]]:
    """Return the answer of a model as its only output message."""
    reasoning = [{"type": "reasoning", "content": answer.reasoning}] if answer.reasoning else []
    parts = [*reasoning, *_parts(ChatMessage(ChatRole.ASSISTANT, answer.text, answer.tool_calls))]
    return [{"role": ChatRole.ASSISTANT.value, "parts": parts, "finish_reason": answer.finish_reason}]


def _parts(message: ChatMessage) -> list[dict[str, Any]]:
    if message.role is ChatRole.TOOL:
        response = _json_or_text(message.text)
        return [{"type": "tool_call_response", "id": message.tool_call_id, "response": response}]
    texts = [{"type": "text", "content": message.text}] if message.text else []
    calls = [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": _json_or_text(call.arguments)}
        for call in message.tool_calls
    ]
    files = [
        {"type": "uri", "mime_type": file.content_type, "name": file.name, "uri": file.url}
        for file in message.files
    ]
    return [*texts, *files, *calls]


def _json_or_text(text: str) -> Any:
    """Return a JSON text as it is written, without a copy of its values; any other text as a string."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return orjson.Fragment(text)
