"""Model calls: one request of a conversation to its model, traced, recorded and billed."""

from storage.history.span_usage import CACHED_TOKENS, COST_USD, INPUT_TOKENS, OUTPUT_TOKENS
from supervisors.harness.conversation import Conversation
from supervisors.harness.span_recorder import OpenSpan
from supervisors.llm.port import ModelCallFailed, ModelRequest, ModelResponse


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
    """Return the model's answer. Record what it was told and answered, also if it fails in the middle."""
    request, content = conversation.request(), conversation.content
    if content is not None:
        await content.record_request(span, request)
    try:
        with conversation.run.waiting_for(f"provider {conversation.provider_name}"):
            answer = await _complete_live(conversation, request)
    except ModelCallFailed as error:
        if content is not None and error.partial is not None:
            content.record_answer(span, error.partial)
        raise
    if content is not None:
        content.record_answer(span, answer)
    return answer


async def _complete_live(conversation: Conversation, request: ModelRequest) -> ModelResponse:
    """Return the model's answer, and show its text while the model writes it."""
    if conversation.live_text is None:
        return await conversation.provider.complete(request)
    with conversation.live_text.of_answer():
        return await conversation.provider.complete(request)
