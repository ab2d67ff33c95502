"""The toolset: all tools of an agent by name, and the one way to call them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from storage.channels.messages import Channel
from storage.errors import LimitReached
from storage.events.model import BY_SERVICE, by_run
from storage.model import Agent, Template
from storage.parked_calls import ParkedCall
from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.engine.run import Ask
from supervisors.json_schema.checker import SchemaChecker
from supervisors.outbound import Outbound
from supervisors.policy.parked_calls import CallAnswer, effective_arguments
from supervisors.policy.replies import WaitingContact
from supervisors.ports import KnownModels
from supervisors.tools.adapter_tools import AdapterTools
from supervisors.tools.arguments import UNKNOWN_TOOL, Arguments, ToolError
from supervisors.tools.builtin import (
    children,
    contacts,
    documents,
    memory,
    messages,
    notifications,
    questions,
    runs,
    schedules,
)
from supervisors.tools.mcp_imports import McpImports
from supervisors.tools.parking import PARKED_CALL, ResultAddresses
from supervisors.tools.tool import AgentTool, ToolDefinition, ToolInvocation, denied_tools

ADAPTER = "adapter"


class Toolset:
    """Finds the tools of agents, and calls them on their behalf."""

    def __init__(
        self,
        stores: Storage,
        clock: Clock,
        outbound: Outbound,
        checker: SchemaChecker,
        models: KnownModels | None,
        results: ResultAddresses | None = None,
    ) -> None:
        self.results = results or ResultAddresses()
        self._stores = stores
        self._clock = clock
        self._adapters = AdapterTools(stores.agent_tools, outbound, checker, clock, self.results)
        self.imports = McpImports(stores, outbound, checker, clock)
        self._messaging = messages.Messaging(self._adapters, clock)
        tools = _builtin(self._messaging, questions.Questions(checker), models)
        self._builtin = {tool.definition.name: tool for tool in tools}
        self.failures: Counter[str] = Counter()  # by built-in tool; ADAPTER for all others

    async def definitions(self, agent: Agent, template: Template | None) -> list[ToolDefinition]:
        """Return the tools of an agent of this template: the built-in ones, then those of its adapters."""
        denied = denied_tools(template)
        definitions = [tool.definition for name, tool in self._builtin.items() if name not in denied]
        if agent.adapters:
            definitions += await self._adapters.definitions(agent, taken=self._builtin)
        return definitions

    async def find(self, agent: Agent, name: str) -> AgentTool:
        """Return the agent's tool of this name. Raise ToolError if it has none."""
        tool = self._builtin.get(name) or await self._adapters.find(agent, name, taken=self._builtin)
        if tool is None:
            raise ToolError(UNKNOWN_TOOL, f"There is no tool named {name}.")
        return tool

    async def find_idempotent(self, agent: Agent, name: str) -> AgentTool:
        """Return the agent's tool of this name. Raise ToolError unless a repeated call does no harm."""
        tool = await self.find(agent, name)
        if not tool.definition.idempotent:
            raise ToolError("not_idempotent", f"The tool {name} is not marked as idempotent.")
        return tool

    async def use(
        self,
        tool: AgentTool,
        agent: Agent,
        run_id: UUID | None,
        ask: Ask,
        arguments: Mapping[str, Any],
        span_id: UUID | None = None,
        *,
        caller: str = BY_SERVICE,
        metadata: dict[str, Any] | None = None,
        may_wait: bool = True,
    ) -> Any:
        """Call the tool and return its result, ready for JSON, or a part of it. Raise ToolError if it fails.

        `run_id`: the run that calls, if any. `span_id`: the span of this call in the run's trace, if any.
        `caller`: who calls if it is no run, for the event log. `metadata`, that of the span, is added to.
        A call that may not wait fails instead.
        """
        call = self._call(agent, run_id, ask, arguments, span_id, caller=caller)
        call = replace(call, metadata={} if metadata is None else metadata, may_wait=may_wait)
        try:
            return await tool.use(call)
        except LimitReached as error:
            self._count_failure(tool)
            raise ToolError("limit_reached", str(error), limit=error.name) from error
        except ToolError:
            self._count_failure(tool)
            raise

    @property
    def max_call_seconds(self) -> float:
        """Return how long a call of a tool of an adapter can take."""
        return self._adapters.max_call_seconds

    async def make(self, parked: ParkedCall, ask: Ask) -> CallAnswer:
        """Make a parked call that is due, and return its answer. Raise StorageError if it was not made."""
        agent = await self._stores.agents.get(parked.agent_id)
        if agent is None:
            return CallAnswer(error="The agent was deleted.")
        call = self._call(agent, parked.run_id, ask, effective_arguments(parked))
        metadata = {PARKED_CALL: str(parked.id), "gen_ai.tool.call.id": str(parked.id)}
        call = replace(call, now=parked.decided_at or call.now, metadata=metadata)
        return await self._adapters.make(call, parked)

    def _count_failure(self, tool: AgentTool) -> None:
        is_builtin = tool.definition.adapter_id is None
        self.failures[tool.definition.name if is_builtin else ADAPTER] += 1

    @property
    def failed_messages(self) -> Mapping[Channel, int]:
        """Return how many messages this process could not send, by channel."""
        return self._messaging.failed

    async def send_reply(
        self,
        agent: Agent,
        run_id: UUID,
        ask: Ask,
        contact: WaitingContact,
        text: str,
        span_id: UUID,
    ) -> dict[str, Any]:
        """Send the text to the contact like `send_message`, but never twice as an answer to the same message.

        Raise ToolError if it is not sent.
        """
        arguments = {"contact_id": str(contact.contact_id), "body": text}
        call = self._call(agent, run_id, ask, arguments, span_id, contact.message_id)
        return await self._messaging.send_message(call)

    async def send_again(self, message_id: UUID, ask: Ask, *, caller: str) -> None:
        """Send an outbound message that failed, under its own id. Raise ToolError if it is not sent."""
        message = await self._stores.messages.get(message_id)
        agent = await self._stores.agents.get(message.agent_id) if message else None
        if message is None or agent is None:
            raise ToolError("not_found", "There is no such message.")
        await self._messaging.send_again(self._call(agent, None, ask, {}, caller=caller), message)

    def _call(
        self,
        agent: Agent,
        run_id: UUID | None,
        ask: Ask,
        arguments: Mapping[str, Any],
        span_id: UUID | None = None,
        message_id: UUID | None = None,
        *,
        caller: str = BY_SERVICE,
    ) -> ToolInvocation:
        actor, now = by_run(run_id) if run_id else caller, self._clock.now()
        return ToolInvocation(
            agent, run_id, span_id, Arguments(arguments), self._stores, ask, now, message_id, actor
        )


def _builtin(
    messaging: messages.Messaging, people: questions.Questions, models: KnownModels | None
) -> Sequence[AgentTool]:
    """Return the tools that every agent has."""
    return (
        notifications.list_notifications,
        notifications.clear_notification,
        notifications.create_notification,
        schedules.set_schedule,
        schedules.list_schedules,
        schedules.delete_schedule,
        AgentTool(messages.SEND_MESSAGE, messaging.send_message),
        AgentTool(messages.SEND_SMS, messaging.send_sms),
        messages.open_sms_attachment,
        messages.list_messages,
        messages.get_message,
        AgentTool(questions.ASK_PERSON, people.ask_person),
        contacts.list_contacts,
        contacts.get_contact,
        contacts.create_contact,
        contacts.update_contact,
        documents.list_documents,
        documents.search_documents,
        documents.read_document,
        documents.write_document,
        memory.memory,
        documents.list_projects,
        AgentTool(children.CREATE_AGENT, partial(children.create_agent, models)),
        runs.list_runs,
        runs.get_time,
        runs.sleep,
    )
