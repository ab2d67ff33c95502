"""The bounds of every answer about the longest resources: its bytes, and its time on the event loop."""

import json
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientResponse

from tests.contract.requests_by_route import RESOURCES, Ref, for_each_route
from tests.contract.tenants import Request, RequestBuilder, Tenant, make, new_tenant
from tests.processor_time import callbacks, slowness
from tests.web.conftest import SETTINGS, Service
from web.app import ROUTES
from web.fields import MAX_SIDE_TEXT
from web.routes import Route

pytestmark = pytest.mark.asyncio(loop_scope="module")

# An answer is as long as the longest field of what it is about, which came in one body, and at most 512 KiB
# for all other fields. A list is sent in pieces, so its length does not matter, but that of its pieces.
MAX_BYTES = SETTINGS.limits.body_bytes + 524_288

# CPU time of one callback, so that other programs on the machine do not count, on a machine whose `slowness`
# is 1. A try that takes longer is repeated.
MAX_CALLBACK_SECONDS = 0.020
TRIES = 10  # a busy machine makes a computation take longer, never shorter

TEXT = "x" * (SETTINGS.limits.body_bytes - 2_000)
SIDE = "\x01" * MAX_SIDE_TEXT  # each of these takes six bytes as JSON
LINE = "\x01" * 255
VALUES = [0.1 + number / 7 for number in range(49_000)]
TAGS = [f"{number:04}" + "t" * 251 for number in range(1000)]
ATTACHMENTS = [{"url": f"https://example.org/{number}{'a' * 900}"} for number in range(250)]

# What makes the longest resource of each kind: in the body that creates it, and in a change after that.
LONGEST: dict[str, dict[str, Any]] = {
    "template": {"system_prompt": TEXT},
    "adapter": {"config_schema": {"type": "object", "examples": VALUES}},
    "tool": {"parameters": {"examples": VALUES}},
    "adapter_config": {"config": {"values": VALUES}},
    "hook": {"title": "x" * 1000, "only_if": {"title": "\x01" * 2700}},
    "agent": {"system_prompt": TEXT},
    "notification": {"body": TEXT, "priority": "high"},
    "contact": {"metadata": VALUES},
    "message": {"body": TEXT},
    "document": {"content": TEXT},
    "project": {"description": TEXT},
    "trace": {"metadata": VALUES},
    "span": {"metadata": VALUES, "name": LINE},
}
MORE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "template": ("PATCH", "", {"description": SIDE, "name": LINE}),
    "adapter": ("PATCH", "", {"description": SIDE}),
    "tool": ("PATCH", "", {"description": SIDE}),
    "hook": ("PATCH", "", {"body": "\x01" * 8192, "name": LINE}),
    "agent": ("PATCH", "", {"tags": TAGS, "name": LINE}),
    "notification": ("PATCH", "", {"title": SIDE}),
    "message": ("PATCH", "", {"attachments": ATTACHMENTS, "subject": LINE}),
    "trace": ("POST", "end/", {"error": SIDE, "name": LINE}),
    "span": ("POST", "end/", {"error": SIDE}),
}
ENDS_TOKENS = {"/api/organizations/auth/logout/", "/api/organizations/auth/password/"}
SPANS = [{"name": f"{number:04}{LINE[4:]}", "span_type": LINE[:64]} for number in range(500)]

FILL_RUNS = "UPDATE run SET notifications = ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 1000))"
FILL_USAGE = """
INSERT INTO usage_record (
    id, organization_id, agent_id, model, input_tokens, output_tokens, priced, occurred_at)
SELECT gen_random_uuid(), organization_id, id, repeat(E'\\x01', 250) || n, 1, 1, true, now() - interval '1 h'
FROM agent, generate_series(1, 2000) AS n WHERE id = $1
"""
FILL_TOOLS = """
WITH inserted AS (
    INSERT INTO tool (id, adapter_id, name, description, parameters, is_enforced, created_at)
    SELECT gen_random_uuid(), $2, 'tool ' || n, repeat(E'\\x01', 5000),
           json_build_object('type', 'object', 'title', repeat('x', 30000)), true, now()
    FROM generate_series(1, 150) AS n
)
INSERT INTO agent_adapter (agent_id, adapter_id, position) VALUES ($1, $2, 1)
"""
FILL_QUEUE = """
INSERT INTO notification (id, organization_id, agent_id, title, priority, activated_at)
SELECT gen_random_uuid(), organization_id, id, 'n', 'high', now() FROM agent, generate_series(1, 200)
WHERE id = $1
"""
FILL_AGENTS = """
INSERT INTO agent SELECT (jsonb_populate_record(a, jsonb_build_object(
    'id', gen_random_uuid(), 'system_prompt', '', 'tags', ARRAY[]::text[]))).*
FROM agent a, generate_series(1, 1000) WHERE a.id = $1
"""
FILL_STATES = """
INSERT INTO agent_state SELECT (jsonb_populate_record(s, jsonb_build_object(
    'agent_id', a.id, 'run_id', null, 'status', 'archived', 'last_error', repeat(E'\\x01', 500)))).*
FROM agent_state s, agent a
WHERE s.agent_id = $1 AND NOT EXISTS (SELECT FROM agent_state WHERE agent_id = a.id)
"""
WITHOUT_SECRET = "|| jsonb_build_object('tool_call_secret', '')"  # it is bound to the row
COPIED = ("template", "hook", "adapter", "notification", "contact", "message", "project", "trace")
COPY = """
INSERT INTO {0} SELECT (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid()){1})).*
FROM {0} t, generate_series(1, 2) WHERE id = $1
"""
COPY_DOCUMENT = """
INSERT INTO document (id, organization_id, title, content, created_at, updated_at)
SELECT gen_random_uuid(), organization_id, title, content, created_at, updated_at
FROM document, generate_series(1, 2) WHERE id = $1
"""
FILL_PLACES = """
WITH place AS (
    INSERT INTO organization (id, name, created_at)
    SELECT gen_random_uuid(), repeat(E'\\x01', 255), now() FROM generate_series(1, 1000) RETURNING id
)
INSERT INTO membership (id, organization_id, user_id, role, created_at)
SELECT gen_random_uuid(), place.id, $1, 'member', now() FROM place
"""


class LongestBuilder(RequestBuilder):
    """Builds requests about resources that are as long as they can become."""

    def __init__(self, tenant: Tenant) -> None:
        longest = {
            kind: (path, {**body, **LONGEST.get(kind, {})}) for kind, (path, body) in RESOURCES.items()
        }
        super().__init__(tenant, longest)

    async def _create(self, kind: str) -> Any:
        created = await super()._create(kind)
        if kind in MORE:
            method, below, body = MORE[kind]
            path = f"{RESOURCES[kind][0]}{created['id']}/{below}"
            assert (await self._place.key.request(method, path, json=body)).status == 200, kind
        return created

    async def fill(self) -> None:
        """Create one resource of each kind, and what is listed with some of them."""
        pool, key = self._place.service.storage.pool, self._place.key
        for kind in (*LONGEST, "webhook_delivery"):
            await self.resolve(Ref(kind))
        for kind in COPIED:
            changes = WITHOUT_SECRET if kind == "template" else ""
            await pool.execute(COPY.format(kind, changes), await self.resolve(Ref(kind)))
        await pool.execute(COPY_DOCUMENT, await self.resolve(Ref("document")))
        agent, adapter, trace = [await self.resolve(Ref(kind)) for kind in ("agent", "adapter", "trace")]
        for _ in range(2):
            await key.post("/api/tracing/spans/", [{**span, "trace": trace} for span in SPANS])
        await pool.execute(FILL_USAGE, agent)
        await pool.execute(FILL_TOOLS, agent, adapter)
        await pool.execute(FILL_QUEUE, agent)
        await self.resolve(Ref("run"))
        await pool.execute(FILL_RUNS)
        await pool.execute(FILL_AGENTS, agent)
        await pool.execute(FILL_STATES, agent)
        await pool.execute(FILL_PLACES, await self.resolve(Ref("account", "user.id")))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def longest(shared_service: Service) -> AsyncIterator[LongestBuilder]:
    builder = LongestBuilder(await new_tenant(shared_service))
    await builder.fill()
    yield builder


async def request_of(route: Route, longest: LongestBuilder, ours: Tenant) -> Request:
    """Return a request about the longest resources, or about others if it would remove them or a token."""
    if route.method == "DELETE" or route.path in ENDS_TOKENS:
        request = await make(ours, route)
    else:
        request = await longest.request(route)
    for kind, (path, _) in RESOURCES.items():
        if (route.method, route.path) == ("POST", path):
            return request.with_values(**LONGEST.get(kind, {}))
    return request


async def exchange(service: Service, request: Request, query: str) -> tuple[int, int, float]:
    """Return the status of the answer, the length of its longest piece, and the CPU time of a callback."""
    body = None if request.body is None else json.dumps(request.body).encode()
    headers = {"Content-Type": "application/json"}
    if request.authorization is not None:
        headers["Authorization"] = request.authorization
    with callbacks() as seconds:
        async with service.client.request(
            request.route.method, request.path + query, headers=headers, data=body and BytesIO(body)
        ) as response:
            longest = await longest_piece(response)
    return response.status, longest, max(seconds)


async def longest_piece(response: ClientResponse) -> int:
    """Read the answer. Return its length, or that of its longest chunk if it is sent in chunks."""
    lengths = [0]
    while not response.content.at_eof():
        data, is_end_of_chunk = await response.content.readchunk()
        lengths[-1] += len(data)
        if is_end_of_chunk:
            lengths.append(0)
    return max(lengths)


@for_each_route(ROUTES)
async def test_answer_is_bounded_in_bytes_and_time(
    route: Route, longest: LongestBuilder, ours: Tenant, shared_service: Service
) -> None:
    query = "?limit=1000" if route.query is not None and "limit" in route.query.fields else ""
    if route.path.startswith("/api/tracing/traces/") and "{" not in route.path:
        query = "?limit=200"
    times = []
    for _ in range(TRIES):
        request = await request_of(route, longest, ours)
        status, length, seconds = await exchange(shared_service, request, query)
        assert status == route.status or status in route.refusals | {400, 403}, (status, route.path)
        assert length <= MAX_BYTES, length
        times.append(seconds if seconds <= MAX_CALLBACK_SECONDS else seconds / slowness())
        if times[-1] <= MAX_CALLBACK_SECONDS:
            break
    assert min(times) <= MAX_CALLBACK_SECONDS
