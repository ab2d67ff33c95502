"""The conversation of one run with its model: it is asked, and the tools that it calls are executed.

Each request and each tool call is a span of the trace.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
import structlog

from storage.errors import DatabaseUnavailable, NodeEnded
from storage.history.trace_model import CACHED_TOKENS, COST_USD, INPUT_TOKENS, OUTPUT_TOKENS
from storage.model import Agent, ReasoningEffort, Template
from storage.postgres.json_values import to_json
from supervisors.engine.run import ActiveRun, Ask, RunError, RunLog
from supervisors.errors import AgentGone, TryAgainLater
from supervisors.harness.inbox import FinalAnswers, InboxUpdates
from supervisors.harness.live_text import LiveText
from supervisors.harness.spending import UsageRecorder
from supervisors.harness.trace_recorder import (
    CUT_SHORT,
    OUTPUT_MESSAGES,
    CallContent,
    OpenSpan,
    SpanRecorder,
    output_messages,
)
from supervisors.harness.transcript import TranscriptRecorder
from supervisors.llm.port import (
    ChatMessage,
    ChatRole,
    Model,
    ModelCallFailed,
    ModelOptions,
    ModelRequest,
    ModelResponse,
    ToolCall,
)
from supervisors.policy.journal import MESSAGE_TOOLS
from supervisors.text import excerpt, shorten
from supervisors.tools.arguments import ToolError
from supervisors.tools.builtin.memory import memory
from supervisors.tools.builtin.notifications import clear_notification
from supervisors.tools.builtin.runs import sleep
from supervisors.tools.tool import PartialResult, ToolDefinition
from supervisors.tools.toolset import Toolset

log = structlog.get_logger()

MAX_RESULT_BYTES = 131_072  # of a result, for the model and the trace
MAX_CONVERSATION_CHARACTERS = 8_388_608  # beyond the context of any model; later results are left out
LEFT_OUT = "hostsvc.request.left_out"
MAX_CONCURRENT_CALLS = 100  # of one turn

CONVERSATION_FULL = ToolError(
    "conversation_full", "The tool was called, but this run's conversation is too long for its result."
)

ToolOutcome = dict[str, Any]  # as the model sees it: {"result": ...} or {"error": ...}


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
    qualified_model: str
    tools: tuple[ToolDefinition, ...]
    max_turns: int | None
    options: ModelOptions
    recorder: SpanRecorder
    root: OpenSpan
    content: CallContent | None  # None: content is not recorded
    usage_recorder: UsageRecorder
    inbox_updates: InboxUpdates
    final_answers: FinalAnswers
    messages: list[ChatMessage]
    transcript: TranscriptRecorder | None = None  # None: nothing is carried from run to run
    live_text: Callable[[], LiveText] | None = None  # of a new answer; None: nobody may see it


def effective_max_turns(agent: Agent, template: Template | None, default: int) -> int | None:
    """Return the agent's turn limit, else its template's, else the default; None if that is negative."""
    limit = agent.max_turns or (template.max_turns if template else 0) or default
    return None if limit < 0 else limit


def effective_options(agent: Agent, template: Template | None) -> ModelOptions:
    """Return what the template asks of the model. The agent's own reasoning effort comes first."""
    effort = agent.reasoning_effort or (template.default_reasoning_effort if template else "")
    effort = "" if effort == ReasoningEffort.NONE else effort
    if template is None:
        return ModelOptions(effort)
    return ModelOptions(
        effort,
        template.thinking_max_tokens,
        template.temperature,
        template.max_output_tokens,
        template.tool_choice,
        template.response_format,
    )


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
    if answer.left_out:
        provider, model = conversation.provider_name, conversation.model
        span.metadata[LEFT_OUT] = [
            f"Left out of the request, because {provider} refused it for {model}: {name}."
            for name in answer.left_out
        ]
    await usage.flush()
    conversation.run.cost_usd = usage.cost_usd
    conversation.run.unpriced_calls = usage.unpriced_calls
    if usage.cost_of_latest is not None:
        span.metadata[COST_USD] = float(usage.cost_of_latest)
    return answer


async def _answer(conversation: Conversation, span: OpenSpan) -> ModelResponse:
    """Return the model's answer, and show its text while the model writes it.

    Record what it was told and answered, also if it fails in the middle.
    """
    content = conversation.content
    live_text = conversation.live_text() if conversation.live_text else None
    request = ModelRequest(
        conversation.model,
        tuple(conversation.messages),
        conversation.tools,
        conversation.options,
        live_text.add if live_text else None,
        may_quote=content is not None,
    )
    if content is not None:
        await content.record_request(span, request)
    run, began_at, has_failed = conversation.run, conversation.run.seconds, False
    try:
        with run.waiting_for(f"provider {conversation.provider_name}"):
            answer = await conversation.provider.complete(request)
    except ModelCallFailed as error:
        has_failed = True
        if content is not None and error.partial is not None:
            span.content[OUTPUT_MESSAGES] = output_messages(error.partial)
        raise
    finally:
        run.model_calls.append((conversation.provider_name, run.seconds - began_at, has_failed))
        if live_text is not None and live_text.timer is not None:
            live_text.finish()
    if content is not None:
        span.content[OUTPUT_MESSAGES] = output_messages(answer)
    return answer


async def act_on_answer(toolset: Toolset, conversation: Conversation, answer: ModelResponse) -> bool:
    """Execute the tool calls of an answer, and send its text if that is to be sent.

    Add the result of each call to the conversation; return whether the agent sleeps. The calls run
    concurrently, but those of `memory`, which may build on each other, in their order. Then comes the text,
    and last of all `sleep`, wherever it stands among the calls: it ends the run, and is refused if one of
    them failed. A stop of the run cancels the calls, except `sleep`.
    """
    others = [tool_call for tool_call in answer.tool_calls if tool_call.name != sleep.definition.name]
    room = MAX_CONVERSATION_CHARACTERS - sum(len(message.text) for message in conversation.messages)
    for start in range(0, len(others), MAX_CONCURRENT_CALLS):
        batch = others[start : start + MAX_CONCURRENT_CALLS]
        outcomes = await conversation.run.interruptible(_call_all(toolset, conversation, batch))
        for tool_call, outcome in zip(batch, outcomes, strict=True):
            room -= _add_outcome(conversation, tool_call, outcome, room)
    await conversation.final_answers.take(answer)
    for tool_call in answer.tool_calls:
        if tool_call.name == sleep.definition.name:
            outcome = await _call(toolset, conversation, tool_call)
            room -= _add_outcome(conversation, tool_call, outcome, room)
            if "result" in outcome:
                return True
    return False


async def _call_all(
    toolset: Toolset, conversation: Conversation, tool_calls: Sequence[ToolCall]
) -> Sequence[ToolOutcome]:
    if len(tool_calls) == 1:  # needs no task of its own
        return [await _call(toolset, conversation, tool_calls[0])]
    memory_turn = asyncio.Lock()  # fair, so that these calls keep their order

    async def call(tool_call: ToolCall) -> ToolOutcome:
        if tool_call.name != memory.definition.name:
            return await _call(toolset, conversation, tool_call)
        async with memory_turn:
            return await _call(toolset, conversation, tool_call)

    outcomes = await asyncio.gather(*map(call, tool_calls), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):  # it ends the run; by now all calls have finished
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


async def _call(toolset: Toolset, conversation: Conversation, tool_call: ToolCall) -> ToolOutcome:
    """Call one tool, as a span of the trace, and return its outcome. Raise only what ends the run."""
    name = excerpt(tool_call.name, 255)
    with conversation.recorder.tool_span(name, conversation.root) as span:
        span.metadata["gen_ai.tool.call.id"] = tool_call.id
        span.content["gen_ai.tool.call.arguments"] = shorten(tool_call.arguments, MAX_RESULT_BYTES)[0]
        try:
            agent, run_id, ask = conversation.agent, conversation.run.id, conversation.ask
            arguments = _parsed(tool_call.arguments)
            tool = await toolset.find(agent, tool_call.name)
            with conversation.run.waiting_for(f"tool {name}"):
                result = await toolset.use(
                    tool, agent, run_id, ask, arguments, span.id, metadata=span.metadata
                )
            partial = result if isinstance(result, PartialResult) else PartialResult(result, "")
            cut_result, note = shorten(partial.value, MAX_RESULT_BYTES)
            left_out = f"{note} {partial.left_out}".strip()
        except (AgentGone, NodeEnded, RunError, asyncio.CancelledError):
            conversation.log.record_call(name, conversation.run.turns, CUT_SHORT)
            raise
        except Exception as error:
            refusal = _refusal(error, name)
            span.error = refusal.message
            conversation.log.record_call(name, conversation.run.turns, refusal.message)
            if name != sleep.definition.name:
                conversation.run.failed_calls.append(name)
            if name in MESSAGE_TOOLS and "message_id" in refusal.details:
                conversation.final_answers.note_unsent(UUID(refusal.details["contact_id"]))
            return {"error": refusal.as_json()}
        conversation.log.record_call(name, conversation.run.turns)
        if name == clear_notification.definition.name:
            conversation.final_answers.note_cleared(UUID(result["id"]))
        if name in MESSAGE_TOOLS and "contact_id" in result:
            conversation.final_answers.note_message(UUID(result["contact_id"]))
        span.content["gen_ai.tool.call.result"] = cut_result
        return {"result": cut_result, "left_out": left_out} if left_out else {"result": cut_result}


def _refusal(error: Exception, name: str) -> ToolError:
    """Return the error that the model sees for a failed call."""
    match error:
        case ToolError():
            return error
        case DatabaseUnavailable() | TryAgainLater():
            return ToolError("unavailable", f"The service cannot do this at the moment: {error}. Try again.")
        case _:
            log.error("tool crashed", tool=name, exc_info=error)
            return ToolError("internal", "The tool failed with an internal error. The service's log has it.")


def _add_outcome(conversation: Conversation, tool_call: ToolCall, outcome: ToolOutcome, room: int) -> int:
    """Add the outcome, or an error if it has more than `room` characters; return how many were added."""
    text = to_json(outcome).decode()
    if len(text) > room:
        text = to_json({"error": CONVERSATION_FULL.as_json()}).decode()
    conversation.messages.append(ChatMessage(ChatRole.TOOL, text, tool_call_id=tool_call.id))
    return len(text)


def _parsed(arguments: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError as error:
        raise ToolError("invalid", f"The arguments are not JSON: {error}.") from error
    if not isinstance(parsed, dict):
        raise ToolError("invalid", "The arguments must be a JSON object.")
    return parsed
