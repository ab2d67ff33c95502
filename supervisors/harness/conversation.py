"""The conversation of one run with its model: one request after the other, traced, recorded and billed."""

from contextlib import nullcontext
from dataclasses import dataclass

from storage.history.trace_model import CACHED_TOKENS, COST_USD, INPUT_TOKENS, OUTPUT_TOKENS
from storage.model import Agent, ReasoningEffort, Template
from supervisors.engine.run import ActiveRun, Ask, RunLog
from supervisors.harness.inbox import FinalAnswers, InboxUpdates
from supervisors.harness.live_text import LiveText
from supervisors.harness.spending import UsageRecorder
from supervisors.harness.trace_recorder import (
    OUTPUT_MESSAGES,
    CallContent,
    OpenSpan,
    SpanRecorder,
    output_messages,
)
from supervisors.harness.transcript import TranscriptRecorder
from supervisors.llm.port import ChatMessage, Model, ModelCallFailed, ModelRequest, ModelResponse
from supervisors.tools.tool import ToolDefinition


@dataclass(frozen=True, slots=True)
class Conversation:
    """One run's conversation; only `messages` changes. `root` is the parent of the spans of all steps.

    `model` is its name at the provider, `qualified_model` is that name after `<provider>/`.
    """

    run: ActiveRun
    log: RunLog
    ask: Ask
    agent: Agent
    provider: Model
    provider_name: str
    model: str
    tools: tuple[ToolDefinition, ...]
    max_turns: int | None
    reasoning_effort: str
    thinking_max_tokens: int
    recorder: SpanRecorder
    root: OpenSpan
    content: CallContent | None  # None: content is not recorded
    usage_recorder: UsageRecorder
    inbox_updates: InboxUpdates
    final_answers: FinalAnswers
    messages: list[ChatMessage]
    transcript: TranscriptRecorder | None = None  # None: nothing is carried from run to run
    live_text: LiveText | None = None  # None: nobody may see what the model writes

    @property
    def qualified_model(self) -> str:
        return f"{self.provider_name}/{self.model}"


def effective_max_turns(agent: Agent, template: Template | None, default: int) -> int | None:
    """Return the agent's turn limit, else its template's, else the default; None if that is negative."""
    limit = agent.max_turns or (template.max_turns if template else 0) or default
    return None if limit < 0 else limit


def effective_reasoning_effort(agent: Agent, template: Template | None) -> str:
    """Return the agent's effort, else its template's; blank if none is sent to the model."""
    effort = agent.reasoning_effort or (template.default_reasoning_effort if template else "")
    return "" if effort == ReasoningEffort.NONE else effort


async def ask_model(conversation: Conversation) -> ModelResponse:
    """Return the model's answer to the conversation, as a span of the trace. A stop of the run cancels it."""
    with conversation.recorder.span(f"chat {conversation.model}", "llm", conversation.root) as span:
        span.metadata.update(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": conversation.provider_name,
                "gen_ai.request.model": conversation.model,
            }
        )
        return await conversation.run.interruptible(_complete(conversation, span))


async def _complete(conversation: Conversation, span: OpenSpan) -> ModelResponse:
    """Return the model's answer after its usage is stored: no answer takes effect that is not billed.

    Recording needs no await after the answer, so the usage of a run that is cancelled then is kept, too.
    """
    answer = await _answer(conversation, span)
    usage = conversation.usage_recorder
    usage.record(conversation.qualified_model, answer)
    span.metadata.update(
        {
            "gen_ai.response.id": answer.id,
            "gen_ai.response.model": answer.model,
            "gen_ai.response.finish_reasons": [answer.finish_reason],
            INPUT_TOKENS: answer.input_tokens,
            OUTPUT_TOKENS: answer.output_tokens,
            CACHED_TOKENS: answer.cached_tokens,
        }
    )
    await usage.flush()
    conversation.run.cost_usd = usage.cost_usd
    if usage.cost_of_latest is not None:
        span.metadata[COST_USD] = float(usage.cost_of_latest)
    return answer


async def _answer(conversation: Conversation, span: OpenSpan) -> ModelResponse:
    """Return the model's answer, and show its text while the model writes it.

    Record what it was told and answered, also if it fails in the middle.
    """
    content, live_text = conversation.content, conversation.live_text
    request = ModelRequest(
        conversation.model,
        tuple(conversation.messages),
        conversation.tools,
        conversation.reasoning_effort,
        conversation.thinking_max_tokens,
        live_text.add if live_text else None,
    )
    if content is not None:
        await content.record_request(span, request)
    showing = live_text.of_answer() if live_text else nullcontext()
    try:
        with conversation.run.waiting_for(f"provider {conversation.provider_name}"), showing:
            answer = await conversation.provider.complete(request)
    except ModelCallFailed as error:
        if content is not None and error.partial is not None:
            span.content[OUTPUT_MESSAGES] = output_messages(error.partial)
        raise
    if content is not None:
        span.content[OUTPUT_MESSAGES] = output_messages(answer)
    return answer
