"""Versions of documents, and of the system prompts of agents and templates: list, read and restore them."""

from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from aiohttp import web

from storage.versions import Version, VersionSummary
from web.access.auth import Caller
from web.access.path_access import load_owned, path_number
from web.api.agents.agents import AgentResponse, serialize_agent
from web.api.agents.templates import TemplateResponse, serialize_template
from web.api.channels.documents import DocumentResponse, refuse_misplaced, serialize_document, writer_of
from web.app_keys import CLOCK, STORAGE
from web.errors import refusing_constraint_errors, require_found
from web.json import Serializer
from web.routes import Routes


class VersionResponse(TypedDict):
    """A version of a document or of a system prompt, without its content."""

    number: int
    """1 for the first version; each change adds 1."""
    title: str
    """The title of the document in this version; "" for a prompt."""
    content_type: str
    """The media type in this version."""
    size_bytes: int
    """The length of the content in UTF-8."""
    author: str
    """Who wrote this version: `user:`, `key:`, `agent:` or `run:` and the id; "" if it is not known."""
    run: UUID | None
    """The run in which an agent wrote this version; null if no run did."""
    created_at: datetime
    """When this version was written."""


class FullVersionResponse(VersionResponse):
    """A version of a document or of a system prompt with its content."""

    content: str
    """The text of this version."""


serialize_version = Serializer(VersionResponse, VersionSummary)

serialize_full_version = Serializer(FullVersionResponse, Version)

routes = Routes()


@routes.get("/api/defaults/documents/{id}/versions/")
async def list_versions(request: web.Request, caller: Caller) -> list[VersionResponse]:
    """List the last 50 versions of a document, the current one first."""
    return await _list(request, caller, request.app[STORAGE].documents)


@routes.get("/api/cloud/agents/{id}/prompts/")
async def list_agent_prompts(request: web.Request, caller: Caller) -> list[VersionResponse]:
    """List the last 50 versions of the agent's own system prompt, the current one first."""
    return await _list(request, caller, request.app[STORAGE].agents)


@routes.get("/api/templates/{id}/prompts/")
async def list_template_prompts(request: web.Request, caller: Caller) -> list[VersionResponse]:
    """List the last 50 versions of the template's system prompt, the current one first."""
    return await _list(request, caller, request.app[STORAGE].templates)


@routes.get("/api/defaults/documents/{id}/versions/{number}/")
async def get_version(request: web.Request, caller: Caller) -> FullVersionResponse:
    """Read one version of a document with its content."""
    return await _show(request, caller, request.app[STORAGE].documents)


@routes.get("/api/cloud/agents/{id}/prompts/{number}/")
async def get_agent_prompt(request: web.Request, caller: Caller) -> FullVersionResponse:
    """Read one version of the agent's own system prompt."""
    return await _show(request, caller, request.app[STORAGE].agents)


@routes.get("/api/templates/{id}/prompts/{number}/")
async def get_template_prompt(request: web.Request, caller: Caller) -> FullVersionResponse:
    """Read one version of the template's system prompt."""
    return await _show(request, caller, request.app[STORAGE].templates)


@routes.post("/api/defaults/documents/{id}/versions/{number}/revert/", refusals={400})
async def revert_document(request: web.Request, caller: Caller) -> DocumentResponse:
    """Make an earlier version the current one again, as a new version; nothing is lost.

    A document that its agent has deleted is restored.
    """
    storage, now = request.app[STORAGE], request.app[CLOCK].now()
    document, version = await _load(request, caller, storage.documents)
    changes = {name: getattr(version, name) for name in ("title", "content", "content_type")}
    await refuse_misplaced(storage, document, {"path": document.path, **changes})
    with refusing_constraint_errors(changes):
        restored = {**changes, "deleted_at": None}
        reverted = await storage.documents.update(document, restored, writer_of(caller), now)
    return serialize_document(require_found(reverted))


@routes.post("/api/cloud/agents/{id}/prompts/{number}/revert/", refusals={400})
async def revert_agent_prompt(request: web.Request, caller: Caller) -> AgentResponse:
    """Make an earlier version the agent's system prompt again, as a new version; nothing is lost."""
    agents, now = request.app[STORAGE].agents, request.app[CLOCK].now()
    agent, version = await _load(request, caller, agents)
    changes = {"system_prompt": version.content}
    changed = await agents.update(agent.id, changes, now, actor=caller.identity)
    return serialize_agent(require_found(changed))


@routes.post("/api/templates/{id}/prompts/{number}/revert/", refusals={400})
async def revert_template_prompt(request: web.Request, caller: Caller) -> TemplateResponse:
    """Make an earlier version the template's system prompt again, as a new version; nothing is lost."""
    templates, now = request.app[STORAGE].templates, request.app[CLOCK].now()
    template, version = await _load(request, caller, templates)
    changes = {"system_prompt": version.content}
    changed = await templates.update(template.id, changes, now, actor=caller.identity)
    return serialize_template(require_found(changed), caller)


async def _list(request: web.Request, caller: Caller, owners: Any) -> list[VersionResponse]:
    owner = await load_owned(request, caller, owners.get)
    versions = await request.app[STORAGE].versions.list_all(owner.id)
    return [serialize_version(version) for version in versions]


async def _show(request: web.Request, caller: Caller, owners: Any) -> FullVersionResponse:
    _, version = await _load(request, caller, owners)
    return serialize_full_version(version)


async def _load(request: web.Request, caller: Caller, owners: Any) -> tuple[Any, Version]:
    """Return the owner and the version that the path names. Raise the errors of `load_owned`."""
    owner = await load_owned(request, caller, owners.get)
    return owner, require_found(await request.app[STORAGE].versions.get(owner.id, path_number(request)))
