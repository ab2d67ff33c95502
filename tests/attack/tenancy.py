"""Attacks on other organizations: their ids on every route of the served document, in paths and in bodies."""

from typing import Any
from uuid import uuid4

from aiohttp import FormData

from tests.acceptance.client import Client, Json
from tests.attack.findings import Finding, holds, none_of
from tests.attack.target import AGENTS, Target
from tests.contract.requests_by_route import ABSENT_SERVER, MARK, RESOURCES, ROWS, UNIQUE, Ref, Row

ORGANIZATION_HEADER = "X-Organization"
MEMBERSHIPS = "/api/organizations/memberships/"
DELIVERIES = "/api/organizations/webhook-deliveries/"
TOOLS = "/api/toolbox/tools/"
APPROVALS = "/api/defaults/approvals/"
GRANTS = "/api/defaults/approval-grants/"
MESSAGES = "/api/defaults/messages/"
REFUSED = frozenset({400, 401, 403, 404, 405})
NOT_OURS = frozenset({"account", "reset_code"})


class Resources:
    """One resource of each kind in the victim's organization, created when a request needs it."""

    def __init__(self, target: Target) -> None:
        self.mark = f"mark{uuid4().hex[:8]}"
        self._tenant = target.victim
        self._created: dict[tuple[str, str], Json] = {
            ("organization", ""): {"id": target.victim.organization},
            ("agent", ""): {"id": target.victim.agent},
        }

    @property
    def client(self) -> Client:
        return self._tenant.key

    async def resolve(self, value: Any) -> Any:
        """Return the value with references and marks replaced."""
        match value:
            case Ref():
                resource: Any = await self._get_or_create(value)
                for step in value.attribute.split("."):
                    resource = resource[step]
                return resource
            case str():
                return value.replace(MARK, self.mark).replace(UNIQUE, uuid4().hex[:16])
            case list():
                return [await self.resolve(each) for each in value]
            case dict():
                return {name: await self.resolve(each) for name, each in value.items()}
        return value

    async def _get_or_create(self, ref: Ref) -> Json:
        name = (ref.kind, ref.which)
        if name not in self._created:
            self._created[name] = await self._create(ref.kind)
        return self._created[name]

    async def _create(self, kind: str) -> Json:
        match kind:
            case "membership":
                [membership] = await self.client.get(MEMBERSHIPS)
                return dict(membership)
            case "run":
                agent = await self.resolve(Ref("agent"))
                return {"id": (await self.client.post(f"{AGENTS}{agent}/run/"))["run"]}
            case "webhook_delivery":
                await self.client.create_agent(template=await self.resolve(Ref("template")))
                return dict((await self.client.get(DELIVERIES))[0])
            case "attachment":
                return await self._upload(await self.resolve(Ref("agent")))
            case "template_secret":
                template = await self.resolve(Ref("template"))
                _, body = RESOURCES["secret"]
                return await self._post(f"/api/templates/{template}/secrets/", body)
            case "approval" | "approval_grant" | "mcp_server":
                return await self._create_of_tools(kind)
        return await self._post(*RESOURCES[kind])

    async def _create_of_tools(self, kind: str) -> Json:
        adapter = await self.resolve(Ref("adapter"))
        if kind == "mcp_server":
            await self._post(f"/api/toolbox/adapters/{adapter}/mcp/", {"url": ABSENT_SERVER})
            return {"id": adapter}
        body = {"adapter": adapter, "name": UNIQUE, "approval": "always"}
        tool = await self._post(TOOLS, body)
        agent = await self.client.create_agent(adapters=[adapter])
        called = await self._post(f"{AGENTS}{agent}/tools/{tool['name']}/", {"note": self.mark})
        call = await self.client.get(f"{APPROVALS}{called['result']['call']}/")
        if kind == "approval":
            return dict(call)
        decision = {"approve": True, "grant": {"arguments": {"title": self.mark}}}
        await self._post(f"{APPROVALS}{call['id']}/decide/", decision)
        [grant] = await self.client.get(GRANTS, agent=agent)
        return dict(grant)

    async def _upload(self, agent_id: str) -> Json:
        form = FormData({"agent": agent_id, "channel": "sms", "direction": "outbound"})
        form.add_field("files", self.mark.encode(), filename="note.txt", content_type="text/plain")
        message = await self.client.upload(MESSAGES, form)
        return dict(message["attachments"][0])

    async def _post(self, path: str, body: Json) -> Json:
        return dict(await self.client.post(path, **await self.resolve(body)))


async def foreign_ids(target: Target) -> list[Finding]:
    """Call every route with the ids of another organization, in the path and in the body."""
    resources, opened, tried = Resources(target), [], 0
    documented = (await target.send("GET", "/api/schema/")).json()["paths"]
    for path, operations in documented.items():
        for method in operations.keys() & {"get", "post", "patch", "put", "delete"}:
            name = f"{method.upper()} {path}"
            row = ROWS.get(name)
            if row is None or not _refers(row):
                continue
            statuses, leaked = await _try(target, resources, method.upper(), path, row)
            tried += len(statuses)
            opened += [f"{name} → {status}" for status in statuses if status not in REFUSED]
            opened += [f"{name} shows the other organization"] if leaked else []
    missing = [path for path in documented if not any(path in name for name in ROWS)]
    return [
        none_of("requests with foreign ids that were not refused", opened, tried),
        none_of("routes that this suite cannot call", missing, len(documented)),
        await _is_untouched(resources),
    ]


def _refers(row: Row) -> bool:
    """Return whether the request names resources that the victim alone owns."""
    refs = {ref.kind for ref in _refs([row.path, row.body])}
    return bool(refs) and row.by is None and not refs & NOT_OURS and "code" not in (row.body or {})


def _refs(value: Any) -> list[Ref]:
    if isinstance(value, Ref):
        return [value]
    values = value.values() if hasattr(value, "values") else value if isinstance(value, list) else ()
    return [ref for each in values for ref in _refs(each)]


async def _try(
    target: Target, resources: Resources, method: str, path: str, row: Row
) -> tuple[list[int], bool]:
    """Send the request with the attacker's key, token, and a header that names the victim's organization."""
    for name, value in row.path.items():
        path = path.replace(f"{{{name}}}", str(await resources.resolve(value)))
    body = None if row.body is None else await resources.resolve(row.body)
    key, token = target.attacker.key.authorization, f"Token {target.attacker.token}"
    credentials: list[dict[str, str]] = [
        {"Authorization": key},
        {"Authorization": token},
        {"Authorization": key, ORGANIZATION_HEADER: target.victim.organization},
    ]
    answers = [await target.send(method, path, json=body, headers=headers) for headers in credentials]
    sent = str(body)
    leaked = any(resources.mark in answer.text and resources.mark not in sent for answer in answers)
    return [answer.status for answer in answers], leaked


async def _is_untouched(resources: Resources) -> Finding:
    """Return whether the victim's agent is as before."""
    agent = await resources.client.agent(await resources.resolve(Ref("agent")))
    is_untouched = agent["name"] == "Clerk" and not agent["tags"]
    return holds("the other organization's agent is untouched", is_untouched, str(agent)[:80])
