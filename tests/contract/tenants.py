"""Tenants for the tests, and the requests in their name, built from the table of requests."""

import asyncio
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from aiohttp import FormData

from storage.model import Organization, Role, User
from tests.contract.requests_by_route import (
    ABSENT_SERVER,
    ADAPTER,
    AGENT,
    MARK,
    RESOURCES,
    TEMPLATE,
    TOOL,
    UNIQUE,
    Ref,
    Row,
    key_of,
    row_of,
)
from tests.storage.factories import parked_call
from tests.web.conftest import OPERATOR_TOKEN, Api, Service
from tests.web.people import as_user, new_user, staff
from web.credentials.formats import hash_secret
from web.routes import Access, Route

DELIVERIES = "/api/organizations/webhook-deliveries/"
GRANTS = "/api/defaults/approval-grants/"
ATTACH = """
INSERT INTO agent_adapter (agent_id, adapter_id, position) VALUES ($1, $2, 1) ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Tenant:
    """An organization whose texts all contain its mark, so that a leak can be found."""

    service: Service
    mark: str
    organization: Organization
    owner: User
    key: Api
    refused: dict[str, "Request"] = field(default_factory=dict, repr=False)

    async def member(self, role: Role = Role.MEMBER) -> Api:
        """Return a client of another user who belongs to the organization."""
        client, _ = await staff(self.service, self.organization, role)
        return client


async def new_tenant(service: Service) -> Tenant:
    mark = f"mark{secrets.token_hex(8)}"
    owner, organization = await new_user(service, f"{mark}@example.org", mark)
    key = await as_user(service, owner).create("/api/organizations/api-keys/", name=mark)
    tenant = Tenant(
        service, mark, organization, owner, service.nobody.with_authorization(f"Bearer {key['key']}")
    )
    path = f"/api/organizations/organizations/{organization.id}/"
    assert (await tenant.key.patch(path, {"name": mark})).status == 200
    return tenant


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a route, ready to be sent with a credential that may call it."""

    route: Route
    path: str
    body: dict[str, Any] | None
    authorization: str | None = field(repr=False)

    def by(self, client: Api) -> "Request":
        return replace(self, authorization=client.authorization)

    def with_values(self, **more: Any) -> "Request":
        """Return the request with these values added to its body."""
        return replace(self, body={**(self.body or {}), **more})


class RequestBuilder:
    """Builds one request, and creates the resources that it refers to."""

    def __init__(
        self, tenant: Tenant, resources: Mapping[str, tuple[str, dict[str, Any]]] = RESOURCES
    ) -> None:
        self._place = tenant
        self._resources = resources
        self._created: dict[tuple[str, str], Any] = {}

    def use(self, ref: Ref, value: str) -> None:
        """Let the request refer to this id instead of a new resource."""
        self._created[ref.kind, ref.which] = {"id": value}

    async def request(self, route: Route, instead: Mapping[Ref, str] | None = None) -> Request:
        """Return a valid request of the route. `instead` gives other ids for references in its body only."""
        row = row_of(route)
        for ref in sorted(refs_in(row), key=repr):
            await self.resolve(ref)
        path = route.path
        for name, named in row.path.items():
            path = path.replace(f"{{{name}}}", str(await self.resolve(named)))
        for ref, value in (instead or {}).items():
            self.use(ref, value)
        body = None if row.body is None else await self.resolve(row.body)
        return Request(route, path, body, await self._authorization(route, row))

    async def _authorization(self, route: Route, row: Row) -> str | None:
        if row.by is not None:
            return f"Token {await self.resolve(row.by)}"
        if route.access is Access.CALLERS:
            return self._place.key.authorization
        return f"Bearer {OPERATOR_TOKEN}" if route.access is Access.OPERATORS else None

    async def resolve(self, value: Any) -> Any:
        """Return the value with references, MARK and UNIQUE replaced."""
        match value:
            case Ref():
                attribute = await self._get_or_create(value)
                for step in value.attribute.split("."):
                    attribute = attribute[step]
                return attribute
            case str():
                return value.replace(MARK, self._place.mark).replace(UNIQUE, secrets.token_hex(8))
            case list():
                return [await self.resolve(item) for item in value]
            case dict():
                return {name: await self.resolve(item) for name, item in value.items()}
            case _:
                return value

    async def _get_or_create(self, ref: Ref) -> Any:
        name = (ref.kind, ref.which)
        if name not in self._created:
            self._created[name] = await self._create(ref.kind)
        return self._created[name]

    async def _create(self, kind: str) -> Any:
        tenant = self._place
        match kind:
            case "organization":
                return {"id": str(tenant.organization.id)}
            case "membership":
                _, membership_id = await staff(tenant.service, tenant.organization, Role.MEMBER)
                return {"id": membership_id}
            case "audit_entry":
                await self._create("template")
                log = tenant.service.storage.audit_log
                await log.chain_all(partial(asyncio.sleep, 0))
                return (await tenant.key.get("/api/organizations/audit-log/")).body[0]
            case "run":
                agent_id = await self.resolve(Ref("agent"))
                answer = await tenant.key.post(f"/api/cloud/agents/{agent_id}/run/")
                assert answer.body["run"] is not None, "no run slot is free: this module starts too many runs"
                return {"id": answer.body["run"]}
            case "approval" | "approval_grant" | "mcp_server":
                return await self._create_of_tools(kind)
            case "webhook_delivery":
                template = await self.resolve(TEMPLATE)
                path, body = self._resources["agent"]
                agent = await tenant.key.create(path, **await self.resolve(body), template=template)
                return (await tenant.key.get(f"{DELIVERIES}?agent={agent['id']}")).body[0]
            case "attachment":
                return await self._upload(await self.resolve(AGENT))
            case "template_secret":
                template = await self.resolve(TEMPLATE)
                _, body = self._resources["secret"]
                return await tenant.key.create(
                    f"/api/templates/{template}/secrets/", **await self.resolve(body)
                )
            case "reset_code":
                return {"code": await self._reset_code()}
            case _:
                path, body = self._resources[kind]
                return await tenant.key.create(path, **await self.resolve(body))

    async def _create_of_tools(self, kind: str) -> Any:
        tenant = self._place
        match kind:
            case "approval":
                return await self._ask()
            case "approval_grant":
                path = f"/api/defaults/approvals/{(await self._ask())['id']}/decide/"
                decision = {"approve": True, "grant": {"arguments": {"title": tenant.mark}}}
                call = await tenant.key.post(path, decision)
                return (await tenant.key.get(f"{GRANTS}?agent={call.body['agent']}")).body[0]
            case _:
                adapter, url = await self.resolve([ADAPTER, ABSENT_SERVER])
                await tenant.key.post(f"/api/toolbox/adapters/{adapter}/mcp/", {"url": url})
                return {"id": adapter}

    async def _ask(self) -> Any:
        """Park a call of a tool, as the agent's own call would."""
        storage, [agent_id, tool_id] = self._place.service.storage, await self.resolve([AGENT, TOOL])
        agent, tool = await storage.agents.get(UUID(agent_id)), await storage.tools.get(UUID(tool_id))
        assert agent is not None
        assert tool is not None
        await storage.pool.execute(ATTACH, agent.id, tool.adapter_id)
        arguments = f'{{"a":"{self._place.mark}_{secrets.token_hex(8)}"}}'
        times = {"created_at": datetime.now(UTC), "expires_at": None, "due_at": None}
        call = parked_call(agent, tool_id=tool.id, tool=tool.name, arguments=arguments, **times)
        return {"id": str((await storage.parked_calls.insert(call)).id)}

    async def _upload(self, agent_id: str) -> Any:
        form = FormData({"agent": agent_id, "channel": "sms", "direction": "outbound"})
        form.add_field("files", self._place.mark.encode(), filename="note.txt", content_type="text/plain")
        answer = await self._place.key.request("POST", "/api/defaults/messages/", data=form)
        assert answer.status == 201, answer
        return answer.body["attachments"][0]

    async def _reset_code(self) -> str:
        email, code = await self.resolve(Ref("account", "user.email")), secrets.token_urlsafe()
        later = datetime.now(UTC) + timedelta(hours=1)
        assert await self._place.service.storage.accounts.set_reset_code(email, hash_secret(code), later)
        return code


async def make(tenant: Tenant, route: Route) -> Request:
    """Return a valid request of the route, with resources of its own."""
    return await RequestBuilder(tenant).request(route)


async def make_refused(tenant: Tenant, route: Route) -> Request:
    """Return a valid request of the route for a test that spoils it: the same one for all of them."""
    name = key_of(route)
    if name not in tenant.refused:
        tenant.refused[name] = await make(tenant, route)
    return tenant.refused[name]


def refs_in(row: Row) -> set[Ref]:
    """Return the references to resources in the path and the body of a row."""
    return refs_in_path(row) | refs_in_body(row)


def refs_in_path(row: Row) -> set[Ref]:
    return set(_refs(list(row.path.values())))


def refs_in_body(row: Row) -> set[Ref]:
    return {ref for ref in _refs(row.body) if ref.attribute == "id"}


def _refs(value: Any) -> Iterator[Ref]:
    match value:
        case Ref():
            yield value
        case list():
            for item in value:
                yield from _refs(item)
        case dict():
            yield from _refs(list(value.values()))
