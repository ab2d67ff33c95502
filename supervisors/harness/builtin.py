"""The built-in harness: wake context, then turns (turn boundary, model call, tool calls) until sleep."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from storage.history.span_content import SharedContents
from storage.history.transcripts import Transcripts
from storage.model import Agent, CarryOver, Outcome, Reply
from storage.notifications.notifications import Notifications
from storage.notifications.queues import RecentNotifications
from supervisors.clock import Clock
from supervisors.engine.run import ActiveRun, Ask, RunError, RunLog, RunResult
from supervisors.harness.carried_transcript import carry_in
from supervisors.harness.conversation import (
    Conversation,
    ask_model,
    effective_max_turns,
    effective_reasoning_effort,
)
from supervisors.harness.inbox import FinalAnswers, InboxUpdates
from supervisors.harness.live_text import LiveOutput, LiveText
from supervisors.harness.spending import BudgetGuard, UsageRecorder
from supervisors.harness.tool_execution import execute_tool_calls
from supervisors.harness.trace_recorder import CallContent, OpenSpan, SpanRecorder, content_policy
from supervisors.harness.transcript import TranscriptRecorder
from supervisors.llm.catalog import Prices, unknown_provider
from supervisors.llm.port import (
    ChatMessage,
    ChatRole,
    FinishReason,
    Model,
    ModelResponse,
)
from supervisors.ports import (
    SpanStore,
    UsageStore,
)
from supervisors.settings import RunSettings, TracingSettings
from supervisors.tools.toolset import Toolset
from supervisors.wake.context import WakeContext, WakeContexts
from supervisors.wake.prompts import first_message, system_message

CUT_OFF = {
    FinishReason.LENGTH: (
        "The model's answer was cut off at its length limit, before it said or called anything that can be "
        "acted on."
    ),
    FinishReason.CONTENT_FILTER: "The provider's content filter withheld the model's answer.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltinHarness:
    """Executes runs in this process."""

    wakes: WakeContexts
    notifications: Notifications
    recent_notifications: RecentNotifications
    spans: SpanStore
    transcripts: Transcripts
    shared_contents: SharedContents
    usage: UsageStore
    budget_guard: BudgetGuard
    prices: Prices
    toolset: Toolset
    providers: Mapping[str, Model]
    live_output: LiveOutput
    clock: Clock
    settings: RunSettings
    tracing: TracingSettings
    max_content_bytes: int  # of a span

    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Run turns until the agent sleeps, calls no more tools, or reaches its turn limit.

        Raise RunError if the run fails, AgentGone or LeadershipLost if it may not go on.
        """
        recorder = SpanRecorder(run.id, self.spans, self.clock, lambda: run.ended_at)
        context = await self.wakes.get(run.agent_id)
        if context is None:
            raise RunError("The agent was deleted.")
        agent = context.facts.agent
        usage_recorder = UsageRecorder(agent, run.id, self.usage, self.prices, self.clock)
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
        agent, template = context.facts.agent, context.facts.template
        provider_name, model = self._model_of(agent)
        recorder.content_policy = policy = content_policy(template, self.tracing, self.max_content_bytes)
        run.log = log = RunLog()
        sends_text = template is not None and template.reply is Reply.TEXT
        carries_over = template is not None and template.carry_over is CarryOver.TRANSCRIPT
        return Conversation(
            run=run,
            log=log,
            ask=ask,
            agent=agent,
            provider=self.providers[provider_name],
            provider_name=provider_name,
            model=model,
            tools=tuple(await self.toolset.definitions(agent)),
            max_turns=effective_max_turns(agent, template, self.settings.max_turns),
            reasoning_effort=effective_reasoning_effort(agent, template),
            thinking_max_tokens=template.thinking_max_tokens if template else 0,
            recorder=recorder,
            root=root,
            content=CallContent(agent, self.shared_contents, self.clock, policy.max_bytes)
            if policy
            else None,
            live_text=LiveText(run, agent, self.live_output, self.clock) if policy else None,
            usage_recorder=usage_recorder,
            inbox_updates=InboxUpdates(run, self.recent_notifications, self.clock),
            final_answers=FinalAnswers(
                run,
                ask,
                agent,
                sends_text,
                self.notifications,
                self.toolset,
                recorder,
                root,
                log,
                self.clock,
            ),
            messages=[
                ChatMessage(ChatRole.SYSTEM, system_message(context.facts)),
                ChatMessage(ChatRole.USER, first_message(context)),
            ],
            transcript=TranscriptRecorder(run, self.transcripts, self.clock) if carries_over else None,
        )

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
        answer = await ask_model(conversation)
        conversation.messages.append(answer.as_message())
        if not answer.tool_calls and answer.finish_reason in CUT_OFF:
            raise RunError(CUT_OFF[FinishReason(answer.finish_reason)])
        await final_answers.take(answer)
        if answer.tool_calls:
            if await execute_tool_calls(self.toolset, conversation, answer.tool_calls):
                return RunResult(Outcome.SLEPT)
            follow_up = final_answers.remarks()
        else:
            has_turns_left = limit is None or run.turns < limit
            follow_up = await final_answers.follow_up() if has_turns_left else ""
            if not follow_up:
                return final_answers.result()
        if follow_up:
            conversation.messages.append(ChatMessage(ChatRole.USER, follow_up))
        return None

    def _model_of(self, agent: Agent) -> tuple[str, str]:
        """Return the provider's name and the model's name at that provider."""
        prefix, separator, name = agent.model.partition("/")
        if not separator:
            prefix, name = self.settings.default_provider, agent.model
        if prefix not in self.providers:
            raise RunError(unknown_provider(prefix, self.providers))
        return prefix, name


async def _store_all(run: ActiveRun, usage_recorder: UsageRecorder, recorder: SpanRecorder) -> None:
    await usage_recorder.close()
    run.cost_usd = usage_recorder.cost_usd
    run.has_open_spans = not await recorder.flush()


async def _run_to_completion(work: Coroutine[Any, Any, None]) -> None:
    """Wait for the work to end even if the run is cancelled; raise CancelledError only afterwards."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
