"""The content of a run's model calls: each call records only what the calls before it did not."""

from uuid import UUID

import structlog

from storage.errors import StorageError
from supervisors.clock import Clock
from supervisors.failure_log import log_failure
from supervisors.harness.recorded_content import (
    EARLIER_MESSAGES,
    INPUT_MESSAGES,
    OUTPUT_MESSAGES,
    definitions_json,
    input_messages,
    instructions_json,
    output_messages,
)
from supervisors.harness.span_recorder import OpenSpan
from supervisors.llm.port import ChatMessage, ChatRole, ModelRequest, ModelResponse
from supervisors.ports import SharedContentStore

log = structlog.get_logger()


class CallContent:
    """Records what a run's model is told and answers in the spans of its calls.

    The first call has the system instructions and the tool definitions; a later one only if they differ. Its
    messages are those that are new since the call before.
    """

    def __init__(
        self, organization_id: UUID, store: SharedContentStore, clock: Clock, max_bytes: int
    ) -> None:
        self._organization_id = organization_id
        self._store = store
        self._clock = clock
        self._max_bytes = max_bytes
        self._sent: tuple[ChatMessage, ...] = ()  # the messages of the last call
        self._instructions = b""  # of the last call, as JSON
        self._definitions = b""
        self._tools: object = None  # those that `_definitions` describes

    async def record_request(self, span: OpenSpan, request: ModelRequest) -> None:
        """Record what the model is told by this request."""
        messages, earlier = request.messages, self._earlier(request.messages)
        new = messages[earlier:]
        if earlier and new and new[0].role is ChatRole.ASSISTANT:  # recorded as the last call's answer
            new, earlier = new[1:], earlier + 1
        self._sent = messages
        span.content[INPUT_MESSAGES] = input_messages(new)
        span.content[EARLIER_MESSAGES] = earlier
        await self._record_shared(span, request, new)

    def record_answer(self, span: OpenSpan, answer: ModelResponse) -> None:
        """Record what the model answered, or the part of it that arrived."""
        span.content[OUTPUT_MESSAGES] = output_messages(answer)

    def _earlier(self, messages: tuple[ChatMessage, ...]) -> int:
        """Return how many of the messages were sent by the last call: all of that call, or none."""
        count = len(self._sent)
        return count if count <= len(messages) and messages[:count] == self._sent else 0

    async def _record_shared(
        self, span: OpenSpan, request: ModelRequest, new: tuple[ChatMessage, ...]
    ) -> None:
        if any(message.role is ChatRole.SYSTEM for message in new):
            instructions = instructions_json(request.messages, self._max_bytes)
            if instructions != self._instructions:
                self._instructions = instructions
                span.instructions = await self._digest(instructions)
        if request.tools is not self._tools:
            self._tools = request.tools
            definitions = definitions_json(request.tools, self._max_bytes)
            if definitions != self._definitions:
                self._definitions = definitions
                span.tools = await self._digest(definitions)

    async def _digest(self, text: bytes) -> bytes | None:
        """Store the text and return its digest. A failure is only logged: recording never stops a run."""
        if not text:
            return None
        try:
            return await self._store.store(self._organization_id, text, self._clock.now())
        except StorageError as error:
            log_failure(log, "system prompt or tools not recorded", error)
            return None
