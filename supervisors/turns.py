"""The built-in harness: wake context -> model -> its tool calls -> turn boundary -> model ... until sleep."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import orjson

from storage.model import Agent, Outcome, Template
from supervisors.clock import Clock
from supervisors.meter import Meter
from supervisors.models import Message, Model, ModelAnswer, Speaker, ToolRequest
from supervisors.ports import AgentStore, SpanStore, TemplateStore, UsageStore
from supervisors.prices import Prices
from supervisors.recorder import OpenSpan, Recorder
from supervisors.runs import Ask, Run, RunError, RunResult
from supervisors.settings import RunSettings
from supervisors.spend_cap import SpendCap
from supervisors.tools.errors import ToolError
from supervisors.tools.toolbox import Toolbox
from supervisors.tools.toolkit import ToolDefinition


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one run works with: who it is for, which model answers, and what has been said.

    `model` is its name at the provider, `qualified_model` that with the provider in front.
    """

    run: Run
    ask: Ask
    agent: Agent
    provider: Model
    model: str
    qualified_model: str
    tools: list[ToolDefinition]
    max_turns: int | None
    recorder: Recorder
    meter: Meter
    messages: list[Message]


class BuiltinHarness:
    """Executes runs in this process."""

    def __init__(
        self,
        *,
        agents: AgentStore,
        templates: TemplateStore,
        spans: SpanStore,
        usage: UsageStore,
        spend_cap: SpendCap,
        prices: Prices,
        toolbox: Toolbox,
        providers: Mapping[str, Model],
        clock: Clock,
        settings: RunSettings,
    ) -> None:
        self._agents = agents
        self._templates = templates
        self._spans = spans
        self._usage = usage
        self._spend_cap = spend_cap
        self._prices = prices
        self._toolbox = toolbox
        self._providers = providers
        self._clock = clock
        self._settings = settings

    async def execute(self, run: Run, ask: Ask) -> RunResult:
        """Turn after turn, until the agent sleeps, has nothing more to call, or reaches its limit."""
        recorder = Recorder(run.id, self._spans, self._clock)
        agent = await self._agents.get(run.agent_id)
        if agent is None:
            raise RunError("The agent was deleted.")
        meter = Meter(agent, run.id, self._usage, self._prices, self._clock)
        try:
            with recorder.span(f"invoke_agent {agent.name}", "agent", started_at=run.started_at) as root:
                root.metadata["gen_ai.operation.name"] = "invoke_agent"
                root.metadata["gen_ai.agent.name"] = agent.name
                conversation = await self._begin(run, ask, agent, recorder, meter)
                return await self._converse(conversation, root)
        finally:
            await asyncio.gather(meter.flush(), recorder.flush())

    async def _begin(
        self, run: Run, ask: Ask, agent: Agent, recorder: Recorder, meter: Meter
    ) -> Conversation:
        template = await self._templates.get(agent.template_id) if agent.template_id else None
        prefix, model = self._model_of(agent)
        system_prompt = agent.system_prompt or (template.system_prompt if template else "")
        return Conversation(
            run=run,
            ask=ask,
            agent=agent,
            provider=self._providers[prefix],
            model=model,
            qualified_model=f"{prefix}/{model}",
            tools=await self._toolbox.definitions(agent),
            max_turns=effective_max_turns(agent, template, self._settings.max_turns),
            recorder=recorder,
            meter=meter,
            messages=[
                Message(Speaker.SYSTEM, system_prompt),
                Message(Speaker.USER, wake_context(run, agent, self._clock)),
            ],
        )

    def _model_of(self, agent: Agent) -> tuple[str, str]:
        """The provider's name, and the model's name there."""
        prefix, separator, name = agent.model.partition("/")
        if not separator:
            prefix, name = self._settings.default_provider, agent.model
        if prefix not in self._providers:
            known = ", ".join(sorted(self._providers))
            raise RunError(f'There is no model provider "{prefix}"; the service knows: {known}.')
        return prefix, name

    async def _converse(self, conversation: Conversation, root: OpenSpan) -> RunResult:
        run = conversation.run
        while True:
            run.at_turn_boundary()
            if conversation.max_turns is not None and run.turns >= conversation.max_turns:
                return RunResult(Outcome.TURN_LIMIT, f"ended by its limit of {conversation.max_turns} turns")
            await self._spend_cap.check(run)
            run.turns += 1
            answer = await self._ask_model(conversation, root)
            conversation.messages.append(answer.as_message())
            if not answer.tool_requests:
                return RunResult(Outcome.ENDED)
            # Sleep ends the run, so what else was asked for in this turn comes first.
            for request in sorted(answer.tool_requests, key=lambda request: request.name == "sleep"):
                outcome = await self._call_tool(conversation, request, root)
                conversation.messages.append(
                    Message(Speaker.TOOL, orjson.dumps(outcome).decode(), tool_call_id=request.id)
                )
                if request.name == "sleep" and "result" in outcome:
                    return RunResult(Outcome.SLEPT)
            await conversation.recorder.keep_up()

    async def _ask_model(self, conversation: Conversation, root: OpenSpan) -> ModelAnswer:
        with conversation.recorder.span(f"chat {conversation.model}", "llm", root) as span:
            answer = await conversation.run.interruptible(self._complete(conversation))
            await conversation.meter.flush()
            span.metadata.update(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": conversation.agent.model,
                    "gen_ai.usage.input_tokens": answer.input_tokens,
                    "gen_ai.usage.output_tokens": answer.output_tokens,
                }
            )
            return answer

    async def _complete(self, conversation: Conversation) -> ModelAnswer:
        """The model's answer, noted in the same step: a stop comes either before the answer or after both."""
        answer = await conversation.provider.complete(
            conversation.model, conversation.messages, conversation.tools
        )
        conversation.meter.note(conversation.qualified_model, answer)
        return answer

    async def _call_tool(
        self, conversation: Conversation, request: ToolRequest, root: OpenSpan
    ) -> dict[str, Any]:
        """What the model sees of a call: `{"result": ...}` or `{"error": ...}`."""
        with conversation.recorder.span(f"execute_tool {request.name}", "tool", root) as span:
            span.metadata.update(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": request.name,
                    "gen_ai.tool.call.id": request.id,
                    "gen_ai.tool.call.arguments": request.arguments,
                }
            )
            try:
                arguments = _parsed(request.arguments)
                result = await self._toolbox.call(
                    conversation.agent,
                    conversation.run.id,
                    conversation.ask,
                    request.name,
                    arguments,
                    span_id=span.id,
                )
            except ToolError as error:
                span.error = error.message
                return {"error": error.as_json()}
            span.metadata["gen_ai.tool.call.result"] = result
            return {"result": result}


def effective_max_turns(agent: Agent, template: Template | None, default: int) -> int | None:
    """The agent's limit, else its template's, else the default; a negative one means none (None)."""
    limit = agent.max_turns or (template.max_turns if template else 0) or default
    return None if limit < 0 else limit


def wake_context(run: Run, agent: Agent, clock: Clock) -> str:
    """What the agent is told when it wakes: why, what time it is, how long it may sleep, what waits."""
    local_time = clock.now().astimezone(ZoneInfo(agent.timezone))
    cap = run.max_sleep_until
    sleep = (
        f"until {cap.astimezone(ZoneInfo(agent.timezone)):%Y-%m-%d %H:%M %Z}" if cap else "without a limit"
    )
    return (
        f"You were woken: {run.wake_reason}. It is {local_time:%A, %Y-%m-%d %H:%M:%S %Z}. "
        f"High-priority notifications that are uncleared: {run.waiting}. You may sleep {sleep}."
    )


def _parsed(arguments: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError as error:
        raise ToolError("invalid", f"The arguments are not JSON: {error}.") from error
    if not isinstance(parsed, dict):
        raise ToolError("invalid", "The arguments take a JSON object.")
    return parsed
