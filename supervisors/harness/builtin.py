"""The built-in harness: wake context, then turns (turn boundary, model call, tool calls) until sleep."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from storage.model import CarryOver, Outcome, Reply
from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.engine.run import ActiveRun, Ask, RunError, RunLog, RunResult
from supervisors.events.feed import EventFeed
from supervisors.harness.answer_format import AnswerFormat
from supervisors.harness.carried_transcript import carry_in
from supervisors.harness.conversation import (
    Conversation,
    act_on_answer,
    ask_model,
    effective_max_turns,
    effective_options,
)
from supervisors.harness.inbox import MAX_OUTPUT, FinalAnswers, InboxUpdates
from supervisors.harness.live_text import LiveText
from supervisors.harness.spending import BudgetGuard, UsageRecorder
from supervisors.harness.trace_recorder import CallContent, OpenSpan, SpanRecorder, content_policy
from supervisors.harness.transcript import TranscriptRecorder
from supervisors.json_schema.checker import SchemaChecker
from supervisors.llm.catalog import Prices, unknown_provider
from supervisors.llm.port import ChatMessage, ChatRole, FinishReason, Model, ModelResponse
from supervisors.message_files import read_files
from supervisors.settings import RunSettings, TracingSettings
from supervisors.tools.toolset import Toolset
from supervisors.wake_context import WakeContext, WakeContexts, first_message, system_message

CUT_OFF = {
    FinishReason.LENGTH: (
        "The model's answer was cut off at its length limit, before it said or called anything that can be "
        "acted on."
    ),
    FinishReason.CONTENT_FILTER: "The provider's content filter withheld the model's answer.",
}

MAX_FRUITLESS_TURNS = 10
FRUITLESS = f"No call of a tool succeeded in the last {MAX_FRUITLESS_TURNS} turns."


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltinHarness:
    """Executes runs in this process."""

    stores: Storage
    wakes: WakeContexts
    budget_guard: BudgetGuard
    prices: Prices
    toolset: Toolset
    schema_checker: SchemaChecker
    providers: Mapping[str, Model]
    feed: EventFeed
    clock: Clock
    settings: RunSettings
    tracing: TracingSettings
    max_content_bytes: int  # of a span

    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Run turns until the agent sleeps, calls no more tools, or reaches its turn limit.

        Raise RunError if the run fails, AgentGone or NodeEnded if it may not go on.
        """
        recorder = SpanRecorder(run.id, self.stores.traces, self.clock, lambda: run.ended_at)
        context = await self.wakes.get(run.agent_id)
        if context is None:
            raise RunError("The agent was deleted.")
        agent = context.facts.agent
        usage_recorder = UsageRecorder(agent, run.id, self.stores.usage, self.prices, self.clock)
        try:
            with recorder.span(f"invoke_agent {agent.name}", "agent", started_at=run.started_at) as root:
                root.metadata["gen_ai.operation.name"] = "invoke_agent"
                root.metadata["gen_ai.agent.name"] = agent.name
                conversation = await self._begin(run, ask, context, recorder, root, usage_recorder)
                del context  # its texts would stay in memory for as long as the run lasts
                return await self._converse(conversation)
        finally:
            await _run_to_completion(_store_all(run, usage_recorder, recorder))

    async def _begin(
        self,
        run: ActiveRun,
        ask: Ask,
        context: WakeContext,
        recorder: SpanRecorder,
        root: OpenSpan,
        usage_recorder: UsageRecorder,
    ) -> Conversation:
        """Return the conversation as it is before the first turn. Raise RunError for an unknown provider."""
        agent, template, stores, clock = context.facts.agent, context.facts.template, self.stores, self.clock
        qualified = self.settings.qualify(agent.model)
        provider_name, _, model = qualified.partition("/")
        if provider_name not in self.providers:
            raise RunError(unknown_provider(provider_name, self.providers))
        recorder.content_policy = policy = content_policy(template, self.tracing, self.max_content_bytes)
        run.log = log = RunLog()
        carries_over = template is not None and template.carry_over is CarryOver.TRANSCRIPT
        content = CallContent(agent, stores.shared_contents, clock, policy.max_bytes) if policy else None
        return Conversation(
            run=run,
            log=log,
            ask=ask,
            agent=agent,
            provider=self.providers[provider_name],
            provider_name=provider_name,
            model=model,
            qualified_model=qualified,
            tools=tuple(await self.toolset.definitions(agent, template)),
            max_turns=effective_max_turns(agent, template, self.settings.max_turns),
            options=effective_options(agent, template),
            recorder=recorder,
            root=root,
            content=content,
            live_text=partial(LiveText, run, agent, self.feed, clock) if policy else None,
            usage_recorder=usage_recorder,
            inbox_updates=InboxUpdates(run, stores.recent_notifications, clock),
            final_answers=self._final_answers(run, ask, context, recorder, root, log),
            messages=await self._first_messages(context),
            transcript=TranscriptRecorder(run, stores.transcripts, clock) if carries_over else None,
        )

    def _final_answers(
        self,
        run: ActiveRun,
        ask: Ask,
        context: WakeContext,
        recorder: SpanRecorder,
        root: OpenSpan,
        log: RunLog,
    ) -> FinalAnswers:
        agent, template, answer_format = context.facts.agent, context.facts.template, None
        sends_text = template is not None and template.reply is Reply.TEXT
        if template is not None and template.response_format is not None:
            schema = template.response_format
            answer_format = AnswerFormat(agent.organization_id, schema, self.schema_checker, MAX_OUTPUT)
        queue, toolset, clock = self.stores.notifications, self.toolset, self.clock
        return FinalAnswers(
            run, ask, agent, sends_text, queue, toolset, recorder, root, log, clock, answer_format
        )

    async def _first_messages(self, context: WakeContext) -> list[ChatMessage]:
        """Return the messages that open the run, with the files that its model reads."""
        files = await read_files(context.files, self.stores.attachments) if context.files else ()
        return [
            ChatMessage(ChatRole.SYSTEM, system_message(context.facts)),
            ChatMessage(ChatRole.USER, first_message(context), files=files),
        ]

    async def _converse(self, conversation: Conversation) -> RunResult:
        """Take turns until one of them, or the boundary before the next one, ends the run.

        If the template carries the transcript over, the conversation goes on after what earlier runs said.
        """
        transcript = conversation.transcript
        if transcript is not None:
            max_tokens = self.settings.transcript_tokens
            await carry_in(conversation, transcript, max_tokens, self._ask_within_budget)
        try:
            while True:
                result = await self._reach_boundary(conversation) or await self._take_turn(conversation)
                if result is not None:
                    return result
        except BaseException:
            conversation.final_answers.note_early_end()
            raise
        finally:
            if transcript is not None:
                await _run_to_completion(transcript.store(conversation.messages))

    async def _ask_within_budget(self, conversation: Conversation) -> ModelResponse:
        await self.budget_guard.check(conversation.run, conversation.qualified_model)
        return await ask_model(conversation)

    async def _reach_boundary(self, conversation: Conversation) -> RunResult | None:
        """Do what is due between two turns; return how the run ends, or None if it takes another turn."""
        run, limit, final_answers = conversation.run, conversation.max_turns, conversation.final_answers
        if conversation.transcript is not None:
            await conversation.transcript.store(conversation.messages)
        run.at_turn_boundary()
        if run.slept.is_set():  # granted before, but the tool did not learn of it
            return RunResult(Outcome.SLEPT)
        if limit is not None and run.turns >= limit:
            final_answers.note_early_end()
            return RunResult(Outcome.TURN_LIMIT, f"ended by its limit of {limit} turns")
        await self.budget_guard.check(run, conversation.qualified_model)
        if final_answers.are_sent:
            await final_answers.note_turn()
        if run.turns or final_answers.are_sent:
            text = await run.interruptible(conversation.inbox_updates.fetch())
            if text:
                conversation.messages.append(ChatMessage(ChatRole.USER, text))
        return None

    async def _take_turn(self, conversation: Conversation) -> RunResult | None:
        """Ask the model and do what it says; return how the run ends, or None if it goes on."""
        run, limit, final_answers = conversation.run, conversation.max_turns, conversation.final_answers
        run.turns += 1
        run.is_last_turn = limit is not None and run.turns >= limit
        run.failed_calls.clear()
        answer = await ask_model(conversation)
        conversation.messages.append(ChatMessage(ChatRole.ASSISTANT, answer.text, answer.tool_calls))
        if not answer.tool_calls and answer.finish_reason in CUT_OFF:
            raise RunError(CUT_OFF[FinishReason(answer.finish_reason)])
        if await act_on_answer(self.toolset, conversation, answer):
            return RunResult(Outcome.SLEPT)
        if run.turns - conversation.log.succeeded_in >= MAX_FRUITLESS_TURNS:
            raise RunError(FRUITLESS)
        if answer.tool_calls:
            follow_up = final_answers.remarks()
        else:
            follow_up = "" if run.is_last_turn else await final_answers.follow_up()
            if not follow_up:
                return final_answers.result()
        if follow_up:
            conversation.messages.append(ChatMessage(ChatRole.USER, follow_up))
        return None


async def _store_all(run: ActiveRun, usage_recorder: UsageRecorder, recorder: SpanRecorder) -> None:
    await usage_recorder.close()
    run.cost_usd = usage_recorder.cost_usd
    run.unpriced_calls = usage_recorder.unpriced_calls
    run.has_open_spans = not await recorder.flush()


async def _run_to_completion(work: Coroutine[Any, Any, None]) -> None:
    """Wait for the work to end even if the run is cancelled; raise CancelledError only afterwards."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
