"""The import of the tools that MCP servers offer, and its repetition when their lists expire."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import structlog

from storage.errors import SecretUnreadable, StorageError
from storage.mcp_servers import McpServer, Offer
from storage.postgres.json_values import to_json
from storage.storage import Storage
from storage.toolbox import MAX_SHOWN_BYTES, MAX_SHOWN_CHARACTERS
from supervisors.clock import Clock
from supervisors.errors import TryAgainLater, log_failure
from supervisors.json_schema.checker import SchemaChecker
from supervisors.outbound import McpFailed, McpRequest, Outbound, OutboundError
from supervisors.text import cut, excerpt, storable
from supervisors.tools.adapter_tools import check_parameters, unusable_header

log = structlog.get_logger(__name__)

MAX_NAME_CHARACTERS = 128
MAX_ERROR_CHARACTERS = 300
MAX_REFRESHES = 16  # at once
DEFAULT_REFRESH = timedelta(hours=1)  # if the server does not say how long its list is valid
MIN_REFRESH, MAX_REFRESH = timedelta(minutes=5), timedelta(days=1)
RETRY = timedelta(minutes=5)  # after a list that could not be read


class McpImports:
    """Reads the lists of tools of MCP servers, when they are imported and when their lists expire."""

    def __init__(self, stores: Storage, outbound: Outbound, checker: SchemaChecker, clock: Clock) -> None:
        self._stores = stores
        self._outbound = outbound
        self._checker = checker
        self._clock = clock

    async def run_once(self) -> None:
        """Read the lists that have expired, a few at the same time."""
        due = await self._stores.mcp_servers.list_due(self._clock.now(), MAX_REFRESHES)
        results = await asyncio.gather(*map(self.refresh, due), return_exceptions=True)
        for server, error in zip(due, results, strict=True):
            if isinstance(error, StorageError):  # the list stays due
                log_failure(log, "tools not stored", error, adapter=str(server.adapter_id))
            elif error is not None:
                raise error

    async def refresh(self, server: McpServer) -> None:
        """Read the server's list of tools and store it, or else why it could not be read."""
        servers = self._stores.mcp_servers
        try:
            result = await self._outbound.ask_mcp(await self._request(server))
            offers, left_out = await self._read(server, result["tools"])
        except (OutboundError, SecretUnreadable, TryAgainLater) as error:
            reason = excerpt(str(error), MAX_ERROR_CHARACTERS)
            await servers.postpone(server, self._clock.now() + RETRY, reason)
            return
        now = self._clock.now()
        await servers.store(server, offers, now, now + _valid_for(result.get("ttlMs")), left_out)

    async def _request(self, server: McpServer) -> McpRequest:
        names = set(server.headers.values())
        values = await self._stores.secrets.get_values(server.organization_id, None, names)
        if missing := names - values.keys():
            raise McpFailed(f"The organization has no secret named {', '.join(sorted(missing))}.")
        headers = {header: values[name] for header, name in server.headers.items()}
        if header := unusable_header(headers):
            raise McpFailed(f"The secret for the header {header} is no line of visible ASCII characters.")
        return McpRequest(server.organization_id, server.url, "tools/list", {}, headers)

    async def _read(self, server: McpServer, tools: list[Any]) -> tuple[dict[str, Offer], str]:
        """Return the offers by name, and an error about tools that are left out."""
        offers: dict[str, Offer] = {}
        left_out = []
        for tool in tools:
            name = tool.get("name") if isinstance(tool, dict) else None
            name = name if isinstance(name, str) else ""
            is_usable = name.isprintable() and 0 < len(name) <= MAX_NAME_CHARACTERS and name not in offers
            offer = await self._offer(server, tool) if is_usable else None
            if offer is None:
                left_out.append(excerpt(name, MAX_NAME_CHARACTERS))
            else:
                offers[name] = offer
        text = f"Left out for their names or parameters: {', '.join(left_out)}" if left_out else ""
        return offers, excerpt(text, MAX_ERROR_CHARACTERS)

    async def _offer(self, server: McpServer, tool: Mapping[str, Any]) -> Offer | None:
        """Return what models see of the tool; None if its parameters are too long, or refer to elsewhere."""
        parameters = tool.get("inputSchema") or {}
        if len(to_json(parameters)) > MAX_SHOWN_BYTES:
            return None
        errors, is_enforced = await check_parameters(self._checker, server.organization_id, parameters)
        text = tool.get("description") or tool.get("title")
        description = cut(storable(text), MAX_SHOWN_CHARACTERS) if isinstance(text, str) else ""
        return None if errors else Offer(description, parameters, is_enforced)


def _valid_for(milliseconds: Any) -> timedelta:
    """Return how long a list is taken for valid that the server declares valid for so long."""
    if not isinstance(milliseconds, int) or milliseconds <= 0:
        return DEFAULT_REFRESH
    return min(max(timedelta(milliseconds=min(milliseconds, 10**9)), MIN_REFRESH), MAX_REFRESH)
