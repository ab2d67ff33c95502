"""Adapters and tools for the tests of the toolbox, created over HTTP."""

from typing import Any
from uuid import UUID

from tests.web.conftest import Api, Service

ADAPTERS = "/api/toolbox/adapters/"
TOOLS = "/api/toolbox/tools/"
CONFIGS = "/api/toolbox/adapter-configs/"
OUTSIDE = ["A $ref may not leave the document."]
PORT = {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer"}}}


async def create_adapter(api: Api, **body: Any) -> Any:
    return await api.create(ADAPTERS, **{"name": "Mail", **body})


async def create_tool(api: Api, adapter: Any, **body: Any) -> Any:
    return await api.create(TOOLS, **{"adapter": adapter["id"], "name": "send", **body})


async def publish(service: Service, adapter: Any) -> Any:
    assert await service.storage.adapters.publish(UUID(adapter["id"]))
    return {**adapter, "visibility": "public"}
