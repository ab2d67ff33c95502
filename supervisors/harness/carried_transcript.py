"""The carried transcript: a run that opens with what earlier runs said, shortened by a summary if need be."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from storage.history.transcripts import TranscriptTurn, TurnKind
from supervisors.engine.run import RunBudgetReached, RunDrained, RunError, RunStopped
from supervisors.harness import transcript
from supervisors.harness.conversation import Conversation
from supervisors.harness.trace_recorder import OpenSpan
from supervisors.harness.transcript import TranscriptRecorder
from supervisors.llm.port import ChatRole, ModelResponse

SUMMARY_SECONDS = 120.0  # for the call of the model
READ_FACTOR = 4  # how many times the tokens of a transcript are read at most, to be summarized

AskModel = Callable[[Conversation], Awaitable[ModelResponse]]


async def carry_in(
    conversation: Conversation,
    recorder: TranscriptRecorder,
    max_tokens: int,
    ask_model: AskModel,
) -> None:
    """Put what earlier runs said after the system prompt of the conversation, within `max_tokens`.

    If it is longer, the agent's own model summarizes the older turns first.
    """
    turns = await recorder.transcripts.list_carried(conversation.agent.id, READ_FACTOR * max_tokens)
    count = transcript.summarized_count(turns, max_tokens)
    if count:
        turns = await _compacted(conversation, recorder, max_tokens, turns, count, ask_model)
    messages = conversation.messages
    place = next((n for n, one in enumerate(messages) if one.role is not ChatRole.SYSTEM), len(messages))
    carried = transcript.messages_of(*transcript.fitting(turns, max_tokens))
    messages[place:place] = carried
    recorder.skip(place + len(carried))


async def _compacted(
    conversation: Conversation,
    recorder: TranscriptRecorder,
    max_tokens: int,
    turns: list[TranscriptTurn],
    count: int,
    ask_model: AskModel,
) -> list[TranscriptTurn]:
    """Return the turns with a summary, which is stored, in place of the first `count`.

    A summary that fails leaves all as it is. If somebody deletes the transcript during it, return none.
    """
    with conversation.recorder.span("compact_transcript", "other", conversation.root) as span:
        span.metadata["transcript.turns"] = count
        span.metadata["transcript.tokens"] = sum(turn.tokens for turn in turns[:count])
        try:
            text = await _summary(conversation, turns[:count], max_tokens, span, ask_model)
        except (RunStopped, RunDrained, RunBudgetReached):
            raise
        except RunError as error:
            span.error = f"The transcript was not summarized: {error}"
            return turns
        summary = recorder.entry(TurnKind.SUMMARY, transcript.summary_of(text, max_tokens))
        span.metadata["transcript.summary_tokens"] = summary.tokens
        if await recorder.transcripts.replace(turns[count - 1].id, summary):
            return [summary, *turns[count:]]
        span.error = "The transcript was deleted while it was summarized."
        return []


async def _summary(
    conversation: Conversation,
    turns: Sequence[TranscriptTurn],
    max_tokens: int,
    span: OpenSpan,
    ask_model: AskModel,
) -> str:
    """Return the model's summary of the turns; raise RunError if there is none in time."""
    messages = transcript.summary_request(turns, max_tokens)
    options = replace(conversation.options, max_output_tokens=0, response_format=None)
    request = replace(conversation, root=span, tools=(), messages=messages, options=options, live_text=None)
    try:
        async with asyncio.timeout(SUMMARY_SECONDS):
            answer = await ask_model(request)
    except TimeoutError:
        raise RunError(f"The model took longer than {SUMMARY_SECONDS:g} seconds.") from None
    if not answer.text.strip():
        raise RunError("The model answered without a text.")
    return answer.text
