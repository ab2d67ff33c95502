"""The toolset: all tools of an agent by name, and the one way to call them."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from storage.errors import LimitReached
from storage.events.model import BY_SERVICE, by_run
from storage.model import Agent
from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.engine.run import Ask
from supervisors.json_schema.checker import SchemaChecker
from supervisors.outbound import Outbound
from supervisors.policy.replies import WaitingContact
from supervisors.tools.adapter_tools import AdapterTools
from supervisors.tools.arguments import UNKNOWN_TOOL, Arguments, ToolError
from supervisors.tools.builtin.contacts import (
    GET_CONTACT,
    LIST_CONTACTS,
    UPDATE_CONTACT,
    get_contact,
    list_contacts,
    update_contact,
)
from supervisors.tools.builtin.documents import (
    LIST_DOCUMENTS,
    LIST_PROJECTS,
    READ_DOCUMENT,
    SEARCH_DOCUMENTS,
    WRITE_DOCUMENT,
    list_documents,
    list_projects,
    read_document,
    search_documents,
    write_document,
)
from supervisors.tools.builtin.memory import MEMORY, use_memory
from supervisors.tools.builtin.messages import (
    GET_MESSAGE,
    LIST_MESSAGES,
    OPEN_SMS_ATTACHMENT,
    SEND_MESSAGE,
    SEND_SMS,
    Messaging,
    get_message,
    list_messages,
    open_sms_attachment,
)
from supervisors.tools.builtin.notifications import (
    CLEAR_NOTIFICATION,
    CREATE_NOTIFICATION,
    LIST_NOTIFICATIONS,
    clear_notification,
    create_notification,
    list_notifications,
)
from supervisors.tools.builtin.runs import GET_TIME, LIST_RUNS, SLEEP, get_time, list_runs, sleep
from supervisors.tools.tool import AgentTool, ToolDefinition, ToolInvocation


class Toolset:
    """Finds the tools of agents, and calls them on their behalf."""

    def __init__(self, stores: Storage, clock: Clock, outbound: Outbound, checker: SchemaChecker) -> None:
        self._stores = stores
        self._clock = clock
        self._adapters = AdapterTools(stores.agent_tools, outbound, checker, clock)
        self._messaging = Messaging(self._adapters, clock)
        self._builtin = _builtin(self._messaging)

    async def definitions(self, agent: Agent) -> list[ToolDefinition]:
        """Return the tools that the agent has now: the built-in ones, then those of its adapters."""
        definitions = [tool.definition for tool in self._builtin.values()]
        return definitions + await self._adapters.definitions(agent, taken=self._builtin)

    async def find(self, agent: Agent, name: str) -> AgentTool:
        """Return the agent's tool of this name. Raise ToolError if it has none."""
        tool = self._builtin.get(name) or await self._adapters.find(agent, name, taken=self._builtin)
        if tool is None:
            raise ToolError(UNKNOWN_TOOL, f"There is no tool named {name}.")
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
    ) -> Any:
        """Call the tool and return its result, ready for JSON, or a part of it. Raise ToolError if it fails.

        `run_id`: the run that calls, if any. `span_id`: the span of this call in the run's trace, if any.
        `caller`: who calls if it is no run, for the event log.
        """
        call = ToolInvocation(
            agent,
            run_id,
            span_id,
            Arguments(arguments),
            self._stores,
            ask,
            self._clock.now(),
            actor=by_run(run_id) if run_id else caller,
        )
        try:
            return await tool.use(call)
        except LimitReached as error:
            raise ToolError("limit_reached", str(error), limit=error.name) from error

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
        arguments = Arguments({"contact_id": str(contact.contact_id), "body": text})
        return await self._messaging.send_message(
            ToolInvocation(
                agent,
                run_id,
                span_id,
                arguments,
                self._stores,
                ask,
                self._clock.now(),
                contact.message_id,
                by_run(run_id),
            )
        )


def _builtin(messaging: Messaging) -> dict[str, AgentTool]:
    """Return the tools that every agent has."""
    tools: tuple[tuple[ToolDefinition, Callable[[ToolInvocation], Awaitable[Any]]], ...] = (
        (LIST_NOTIFICATIONS, list_notifications),
        (CLEAR_NOTIFICATION, clear_notification),
        (CREATE_NOTIFICATION, create_notification),
        (SEND_MESSAGE, messaging.send_message),
        (SEND_SMS, messaging.send_sms),
        (OPEN_SMS_ATTACHMENT, open_sms_attachment),
        (LIST_MESSAGES, list_messages),
        (GET_MESSAGE, get_message),
        (LIST_CONTACTS, list_contacts),
        (GET_CONTACT, get_contact),
        (UPDATE_CONTACT, update_contact),
        (LIST_DOCUMENTS, list_documents),
        (SEARCH_DOCUMENTS, search_documents),
        (READ_DOCUMENT, read_document),
        (WRITE_DOCUMENT, write_document),
        (MEMORY, use_memory),
        (LIST_PROJECTS, list_projects),
        (LIST_RUNS, list_runs),
        (GET_TIME, get_time),
        (SLEEP, sleep),
    )
    return {definition.name: AgentTool(definition, use) for definition, use in tools}
