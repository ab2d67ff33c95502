"""The tools of a world, as the service reads them, and what it does not need there."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from hostsvc_testing.memory.tables import Tables
from storage.agents.wakes import WakeFacts
from storage.notifications.queues import RecentNotification
from storage.toolbox import CHANNEL, CallableTool, DescribedTool, ListedTool
from supervisors.json_schema.checker import SchemaChecker
from supervisors.json_schema.worker_process import find_errors, find_outside_references

ADAPTER = UUID(int=0)  # of all tools of a world; each agent has it


class MemoryTools:
    """The tools, which all agents have. Those with a handler send messages."""

    def __init__(self, tables: Tables) -> None:
        self._tools = tables.tools

    def insert(self, name: str, **fields: Any) -> UUID:
        plain = {"handler": "", "parameters": None, "is_enforced": False, "config": None, "secret": ""}
        id_, url = UUID(int=100 + len(self._tools)), "https://tools.test/"
        self._tools[id_] = CallableTool(id_, ADAPTER, name, url=url, **(plain | fields))
        return id_

    async def list_for_agent(self, agent_id: UUID) -> list[ListedTool]:
        called = (tool for tool in self._tools.values() if not tool.handler)
        return [ListedTool(tool.id, "world", 0, tool.name) for tool in called]

    async def describe(self, tool_ids: Sequence[UUID]) -> dict[UUID, DescribedTool]:
        tools = (self._tools[id_] for id_ in tool_ids if id_ in self._tools)
        return {tool.id: DescribedTool(tool.id, ADAPTER, "", tool.parameters, False) for tool in tools}

    async def get(self, agent_id: UUID, tool_id: UUID) -> CallableTool | None:
        return self._tools.get(tool_id)

    async def get_channel(self, agent_id: UUID, channel: str) -> CallableTool | None:
        return next((tool for tool in self._tools.values() if tool.handler == CHANNEL + channel), None)


class LocalSchemaChecker(SchemaChecker):
    """Checks schemas in this process: those of a test are not slow on purpose."""

    async def _ask(self, request: bytes) -> bytes:
        kind, *values = orjson.loads(request)
        return orjson.dumps(list((find_errors if kind == "schema" else find_outside_references)(*values)))


class Untold:
    """Keeps no traces, and tells models of nothing: those of a world look at the queues of their agents."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def get(self, agent_id: UUID, now: datetime, context_tokens: int) -> WakeFacts:
        agent = self._tables.agents[agent_id]
        template = self._tables.templates.get(agent.template_id) if agent.template_id else None
        return WakeFacts(agent, template, "", None, None, (), (), None, ())

    async def list_for_agent(self, agent_id: UUID, **_: Any) -> list[RecentNotification]:
        return []

    async def insert(self, *_: Any) -> None:
        """Do nothing."""

    insert_spans = end_spans = end = insert
