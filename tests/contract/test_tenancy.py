"""Access control: every route, called with every kind of valid and invalid credential."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, get_origin
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from storage.ids import new_id
from storage.model import Role
from tests.contract.answers import contents, send, unchanged
from tests.contract.requests_by_route import (
    AGENT,
    RESOURCES,
    ROWS,
    TRACE,
    Ref,
    for_each_route,
    key_of,
    new,
    row_of,
)
from tests.contract.tenants import (
    Request,
    RequestBuilder,
    Tenant,
    make,
    make_refused,
    refs_in,
    refs_in_body,
    refs_in_path,
)
from tests.web.conftest import OPERATOR_TOKEN, SETTINGS, Answer, Api, Service
from tests.web.people import TOKENS, as_user, join, new_user
from web.access.auth import RunAccess
from web.app import ROUTES
from web.credentials.formats import RunTokens, make_key
from web.fields import Uuid
from web.paging import PageQuery
from web.routes import Access, Route

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOT_PROVIDED = {"detail": "Authentication credentials were not provided."}
INVALID_KEY = {"detail": "Invalid API key."}
INVALID_TOKEN = {"detail": "Invalid token."}
DENIED = {"detail": "You do not have permission to perform this action."}

LOW_ROLE = {"detail": "This needs the role admin or owner; yours is member."}
LOW_ROLES = {"detail": "This needs the role admin or owner in one of your organizations."}
NOT_FOR_RUNS = {"detail": "The token of a run may not do this."}
NOT_AFTER_SLEEP = {
    "detail": "The run has gone to sleep: its token may only write usage and spans, and end its trace."
}
NOT_OF_THE_KEY = {"detail": "X-Organization: The credential belongs to another organization."}

RUNS = "/api/cloud/runs/"
SEARCH = "/api/defaults/documents/search/"
KIND_OF_FILTER = {"parent": "agent", "tool_id": "tool"}
REF_OF_LIST = {  # a resource that each list contains
    **{path: Ref(kind) for kind, (path, _) in RESOURCES.items() if kind != "account"},
    "/api/organizations/memberships/": Ref("membership"),
    "/api/organizations/organizations/": Ref("organization"),
    "/api/organizations/webhook-deliveries/": Ref("webhook_delivery"),
    "/api/defaults/approvals/": Ref("approval"),
    "/api/defaults/approval-grants/": Ref("approval_grant"),
    "/api/organizations/audit-log/": Ref("audit_entry"),
    RUNS: Ref("run"),
    "/api/cloud/supervisors/": Ref("agent"),
}

LEAVE = "DELETE FROM membership WHERE user_id = $1 AND organization_id = $2"
END = "UPDATE run SET ended_at = $2, outcome = $3 WHERE id = $1"


SHARED_KINDS = ("contact", "document", "project")  # without an agent they are for all agents
RESOURCES_OF_AGENT = RESOURCES | {kind: (RESOURCES[kind][0], new(kind, agent=AGENT)) for kind in SHARED_KINDS}
KIND_OF_LIST = {path: kind for kind, (path, _) in RESOURCES.items()}

FOR_CALLERS = [route for route in ROUTES if route.access is Access.CALLERS]
each_caller_route = for_each_route(FOR_CALLERS)
each_organization_route = for_each_route(
    [route for route in FOR_CALLERS if row_of(route).by is None]
)  # not the caller alone
each_public_route = for_each_route([route for route in ROUTES if route.access is Access.ANYONE])
each_operator_route = for_each_route([route for route in ROUTES if route.access is Access.OPERATORS])
LISTS_OF_RUN = [
    route for route in FOR_CALLERS if route.run_access is not RunAccess.NEVER and not refs_in(row_of(route))
]
PAGES_OF_RUN = [route for route in LISTS_OF_RUN if route.path != SEARCH]
LISTS = [route for route in FOR_CALLERS if get_origin(route.answer) is list and "{" not in route.path]


@dataclass(frozen=True)
class RunCaller:
    """A run of a tenant, a client with its token, and the service to which it sends requests."""

    agent: str
    id: str
    client: Api
    service: Service


async def start_run(tenant: Tenant) -> RunCaller:
    builder = RequestBuilder(tenant)
    agent, run = await builder.resolve(AGENT), await builder.resolve(Ref("run"))
    token = RunTokens(SETTINGS.token_secret).issue(UUID(run), datetime.now(UTC), timedelta(hours=1))
    return RunCaller(agent, run, tenant.key.with_authorization(f"Bearer {token}"), tenant.service)


async def end_run(tenant: Tenant, run: RunCaller, outcome: str) -> None:
    await tenant.service.storage.pool.execute(END, UUID(run.id), datetime.now(UTC), outcome)


async def request_of_run(tenant: Tenant, route: Route, run: RunCaller) -> Request:
    """Return a request about the run's own agent and trace, and about resources of that agent."""
    builder = RequestBuilder(tenant, RESOURCES_OF_AGENT)
    builder.use(AGENT, run.agent)
    builder.use(TRACE, run.id)
    request = (await builder.request(route)).by(run.client)
    if key_of(route) == "POST /api/defaults/notifications/":
        request = request.with_values(source="agent")  # it may name no other source
    return request


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def invalid_credentials(ours: Tenant) -> dict[str, tuple[str | None, dict[str, str]]]:
    """Return credentials that are not valid, each with the answer that it gets."""
    now = datetime.now(UTC)
    keys = "/api/organizations/api-keys/"
    revoked = await ours.key.create(keys, name="revoked")
    assert (await ours.key.delete(f"{keys}{revoked['id']}/")).status == 204
    inactive = await ours.key.create(keys, name="inactive", is_active=False)
    left = await ours.member()
    assert (await left.post("/api/organizations/auth/logout/")).status == 204
    token = TOKENS.issue(ours.owner.id, ours.owner.token_version, now)
    expired = TOKENS.issue(ours.owner.id, ours.owner.token_version, now - timedelta(days=2))
    ended, key = await start_run(ours), str(ours.key.authorization).removeprefix("Bearer ")
    await end_run(ours, ended, "failed")
    overdue = RunTokens(SETTINGS.token_secret).issue(UUID(ended.id), now, timedelta(hours=-1))
    return {
        "none": (None, NOT_PROVIDED),
        "of another scheme": ("Basic YTpi", NOT_PROVIDED),
        "no key at all": ("Bearer nonsense", INVALID_KEY),
        "a key nobody made": (f"Bearer {make_key().text}", INVALID_KEY),
        "a key but for its last letter": (f"Bearer {key[:-1]}{'a' if key[-1] != 'a' else 'b'}", INVALID_KEY),
        "a revoked key": (f"Bearer {revoked['key']}", INVALID_KEY),
        "an inactive key": (f"Bearer {inactive['key']}", INVALID_KEY),
        "a key as a token": (f"Token {key}", INVALID_TOKEN),
        "a token as a key": (f"Bearer {token}", INVALID_KEY),
        "an expired token": (f"Token {expired}", INVALID_TOKEN),
        "a token after logging out": (left.authorization, INVALID_TOKEN),
        "the token of an ended run": (ended.client.authorization, INVALID_TOKEN),
        "an expired token of a run": (f"Bearer {overdue}", INVALID_KEY),
        "a run's token as a user's": (f"Token {overdue}", INVALID_TOKEN),
        "the operator's token": (f"Bearer {OPERATOR_TOKEN}", INVALID_KEY),
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def member_of_both(shared_service: Service, ours: Tenant, theirs: Tenant) -> Api:
    """Return a client of a user who belongs to both organizations, and joined ours first."""
    user, own = await new_user(shared_service)
    await shared_service.storage.pool.execute(LEAVE, user.id, own.id)
    for tenant in (ours, theirs):
        await join(shared_service, user, tenant.organization.id, Role.ADMIN)
    return as_user(shared_service, user)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(ours: Tenant) -> RunCaller:
    return await start_run(ours)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asleep(ours: Tenant) -> RunCaller:
    """Return a run whose agent has gone to sleep; its process may still be there, and calls its own node."""
    run = await start_run(ours)
    await end_run(ours, run, "slept")
    return replace(run, service=ours.service.node_of_run(UUID(run.agent), UUID(run.id)))


def text_of(answer: Answer) -> str:
    return json.dumps(answer.body)


async def send_as_stranger(ours: Tenant, request: Request, **options: Any) -> Answer:
    """Return the answer to a stranger. Check that it contains nothing of ours."""
    answer = await send(ours.service, request, **options)
    for secret in (ours.mark, str(ours.organization.id)):
        assert secret not in text_of(answer), f"the answer to {request} contains {secret}"
    return answer


async def test_every_route_has_a_row() -> None:
    for route in ROUTES:
        row_of(route)
    assert ROWS.keys() == {key_of(route) for route in ROUTES}, "a row of the table belongs to no route"


async def test_invalid_credential_opens_no_route(
    ours: Tenant, invalid_credentials: dict[str, tuple[str | None, dict[str, str]]]
) -> None:
    guarded = [await make_refused(ours, route) for route in ROUTES if route.access is not Access.ANYONE]
    async with unchanged(ours.service.storage.pool):
        for request, (name, (authorization, expected)) in product(guarded, invalid_credentials.items()):
            if request.route.access is Access.OPERATORS:
                if name == "the operator's token":
                    continue
                expected = expected if expected == NOT_PROVIDED else INVALID_TOKEN
            answer = await send_as_stranger(ours, request.by(ours.key.with_authorization(authorization)))
            assert (answer.status, answer.body) == (401, expected), (name, request)


@each_public_route
async def test_open_route_ignores_credentials(
    ours: Tenant, route: Route, invalid_credentials: dict[str, tuple[str | None, dict[str, str]]]
) -> None:
    request = await make(ours, route)
    expected = 400 if route.body else route.status
    for name, (authorization, _) in invalid_credentials.items():
        client = ours.key.with_authorization(authorization)
        answer = await send_as_stranger(ours, request.by(client), **({"json": {}} if route.body else {}))
        assert answer.status == expected, name


@each_operator_route
async def test_operator_routes_refuse_other_credentials(
    ours: Tenant, running: RunCaller, route: Route
) -> None:
    request = await make(ours, route)
    assert (await send(ours.service, request)).status == 200
    for client in (ours.key, as_user(ours.service, ours.owner), running.client):
        answer = await send_as_stranger(ours, request.by(client))
        assert (answer.status, answer.body) == (401, INVALID_TOKEN)


async def test_credentials_of_another_organization_reach_nothing(ours: Tenant, theirs: Tenant) -> None:
    requests = [await make_refused(ours, route) for route in FOR_CALLERS if refs_in(row_of(route))]
    strangers = (theirs.key, await theirs.member(Role.ADMIN))
    before = await contents(ours.service.storage.pool)
    for request, client in product(requests, strangers):
        answer = await send_as_stranger(ours, request.by(client))
        assert (answer.status, answer.body) == (403, DENIED), request
        if request.route.body and refs_in_path(row_of(request.route)):  # it is checked before the body
            broken = {"data": b"[", "headers": {"Content-Type": "application/json"}}
            assert (await send_as_stranger(ours, request.by(client), **broken)).status == 403, request
    after = await contents(ours.service.storage.pool)
    assert {each for each in after ^ before if ours.mark in each[1]} == set()


@for_each_route([route for route in FOR_CALLERS if not refs_in(row_of(route)) and row_of(route).by is None])
async def test_answers_to_another_organization_show_nothing(
    ours: Tenant, theirs: Tenant, route: Route
) -> None:
    for client in (theirs.key, await theirs.member(Role.ADMIN)):
        answer = await send_as_stranger(ours, (await make(theirs, route)).by(client))
        assert answer.status == route.status


@each_organization_route
async def test_member_is_refused_only_where_admins_are_needed(ours: Tenant, route: Route) -> None:
    row = row_of(route)
    for role in Role:
        request = await make(ours, route)
        answer = await send(ours.service, request.by(await ours.member(role)))
        if row.for_admins and role is Role.MEMBER:
            assert (answer.status, answer.body) in ((403, LOW_ROLE), (403, LOW_ROLES))
        else:
            assert answer.status == route.status, (role, answer)


@each_caller_route
async def test_run_reaches_its_own_resources_by_few_routes(
    ours: Tenant, running: RunCaller, asleep: RunCaller, route: Route
) -> None:
    for run, accesses in (
        (running, {RunAccess.RUNNING, RunAccess.FINISHING}),
        (asleep, {RunAccess.FINISHING}),
    ):
        answer = await send(run.service, await request_of_run(ours, route, run))
        if route.run_access in accesses:
            assert answer.status == route.status, answer
        else:
            assert (answer.status, answer.body) in ((403, NOT_FOR_RUNS), (403, NOT_AFTER_SLEEP))


@each_caller_route
async def test_run_reaches_nothing_of_another_agent(
    ours: Tenant, theirs: Tenant, running: RunCaller, asleep: RunCaller, route: Route
) -> None:
    for tenant in (ours, theirs):
        request = await RequestBuilder(tenant, RESOURCES_OF_AGENT).request(route)
        for run in (running, asleep):
            answer = await send(run.service, request.by(run.client))
            if run is running and route in LISTS_OF_RUN:
                continue  # as tested by `test_run_lists_what_its_agent_may_see`
            assert answer.status == 403
            assert answer.body in (DENIED, NOT_FOR_RUNS, NOT_AFTER_SLEEP)


@for_each_route(PAGES_OF_RUN)
async def test_run_lists_what_its_agent_may_see(
    ours: Tenant, theirs: Tenant, running: RunCaller, route: Route
) -> None:
    kind = KIND_OF_LIST.get(route.path, "trace")
    own = RequestBuilder(ours, RESOURCES_OF_AGENT)
    own.use(AGENT, running.agent)
    visible = {await own.resolve(Ref(kind)), await own.resolve(Ref(kind, which="second"))}
    hidden = {await RequestBuilder(each, RESOURCES_OF_AGENT).resolve(Ref(kind)) for each in (ours, theirs)}
    if kind in SHARED_KINDS:
        visible.add(await RequestBuilder(ours).resolve(Ref(kind)))
        hidden.add(await RequestBuilder(theirs).resolve(Ref(kind)))

    path = f"{route.path}?limit=200"
    everything, last = await running.client.get(path), min(visible)
    assert everything.status == 200
    assert all(each in text_of(everything) for each in visible)
    assert not any(each in text_of(everything) for each in hidden)
    of_agent = await running.client.get(f"{path}&agent={running.agent}")
    assert of_agent.status == 200
    assert not any(each in text_of(of_agent) for each in hidden)
    for agent in (await RequestBuilder(ours).resolve(AGENT), str(new_id())):
        assert (await running.client.get(f"{path}&agent={agent}")).status == 403
    if kind != "trace":
        following = await running.client.get(f"{path}&after={last}")
        assert not any(each in text_of(following) for each in {*hidden, last})
        hidden_cursor = await running.client.get(f"{path}&after={max(hidden)}")
        assert not any(each in text_of(hidden_cursor) for each in hidden)


async def test_body_may_only_name_resources_of_its_organization(
    ours: Tenant, theirs: Tenant, member_of_both: Api
) -> None:
    named = [
        await refuse_foreign_reference(ours, theirs, member_of_both, route, ref)
        for route in FOR_CALLERS
        for ref in sorted(refs_in_body(row_of(route)) - refs_in_path(row_of(route)), key=repr)
    ]
    ours_now = [row for _, row in await contents(ours.service.storage.pool) if ours.mark in row]
    assert [row for row in ours_now if any(foreign in row for foreign in named)] == []


async def refuse_foreign_reference(
    ours: Tenant, theirs: Tenant, member_of_both: Api, route: Route, ref: Ref
) -> str:
    """Name a resource of theirs in a body beside ours; return its id.

    A member of both organizations may reach both, but not combine their resources.
    """
    row, foreign = row_of(route), str(await RequestBuilder(theirs).resolve(ref))
    request = await RequestBuilder(ours).request(route, {ref: foreign})
    assert (await send(ours.service, request)).status == row.mixed_status, request
    if len(refs_in(row)) > 1:
        assert (await send(ours.service, request.by(member_of_both))).status == row.mixed_status, request
    nowhere = await RequestBuilder(ours).request(route, {ref: str(new_id())})
    assert (await send(ours.service, nowhere)).status == row.unknown_status, request
    return foreign


async def test_lists_contain_only_resources_of_the_caller(
    ours: Tenant, theirs: Tenant, member_of_both: Api
) -> None:
    for tenant in (ours, theirs):
        for ref in REF_OF_LIST.values():
            await RequestBuilder(tenant).resolve(ref)
    for route in LISTS:
        if route.path == RUNS:
            continue  # a run contains no text of its tenant; `test_runs_of_all_agents_are_own` tests it
        if route.path == SEARCH:
            continue  # it needs words; `test_search_finds_what_the_agent_finds` tests it
        path = route.path if isinstance(route.query, PageQuery) else f"{route.path}?limit=200"
        mine, everything = await ours.key.get(path), await member_of_both.get(path)
        of_theirs = await send_as_stranger(ours, (await make(theirs, route)).by(theirs.key))
        assert theirs.mark in text_of(of_theirs), route
        assert ours.mark in text_of(mine), route
        assert theirs.mark not in text_of(mine), route
        assert ours.mark in text_of(everything), route
        assert theirs.mark in text_of(everything), route


async def test_runs_of_all_agents_are_own(ours: Tenant, theirs: Tenant, member_of_both: Api) -> None:
    mine, foreign = [(await start_run(tenant)).id for tenant in (ours, theirs)]
    for client, visible in ((ours.key, {mine}), (theirs.key, {foreign}), (member_of_both, {mine, foreign})):
        listed = {run["id"] for run in (await client.get(f"{RUNS}?limit=1000")).body}
        assert listed & {mine, foreign} == visible


@for_each_route([route for route in LISTS if route.query])
async def test_filter_by_foreign_id_is_refused_and_unknown_id_empty(
    ours: Tenant, theirs: Tenant, route: Route
) -> None:
    assert route.query
    ids = {name for name, each in route.query.load_fields.items() if isinstance(each, Uuid)}
    for name in ids - {"after", "resource_id"}:  # which may name any resource, also one that is gone
        foreign = await RequestBuilder(ours).resolve(Ref(KIND_OF_FILTER.get(name, name)))
        for value, expected in ((foreign, 403), (str(new_id()), 200)):
            answer = await theirs.key.get(f"{route.path}?{name}={value}")
            assert answer.status == expected, (name, answer)
            assert ours.mark not in text_of(answer)
            assert theirs.mark not in text_of(answer), "a filter by an unknown id finds something"
    if "after" in ids:
        last = await RequestBuilder(ours).resolve(REF_OF_LIST[route.path])
        answer = await theirs.key.get(f"{route.path}?after={last}")
        assert answer.status == 403
        assert ours.mark not in text_of(answer)
        answer = await theirs.key.get(f"{route.path}?after={uuid4()}")
        assert (answer.status, answer.body) == (200, [])


@for_each_route([route for route in ROUTES if route.by_header and route.method == "POST"])
async def test_header_chooses_the_organization_of_a_new_resource(
    ours: Tenant, theirs: Tenant, member_of_both: Api, route: Route
) -> None:
    for tenant, other in ((ours, theirs), (theirs, ours)):
        header = {"X-Organization": str(tenant.organization.id)}
        request = (await make(tenant, route)).by(member_of_both)
        made = await send(ours.service, request, headers=header)
        assert made.status == 201
        assert await newest(tenant, route) == made.body["id"]
        assert await newest(other, route) != made.body["id"]


async def newest(tenant: Tenant, route: Route) -> str:
    listed = (await tenant.key.get(f"{route.path}?limit=1")).body
    return str(listed[0]["id"]) if listed else ""


@each_caller_route
async def test_header_opens_no_other_organization(ours: Tenant, theirs: Tenant, route: Route) -> None:
    request = await make(theirs, route)
    for organization_id in (str(ours.organization.id), str(new_id())):
        header = {"X-Organization": organization_id}
        answer = await send_as_stranger(ours, request.by(theirs.key), headers=header)
        assert (answer.status, answer.body) == (403, NOT_OF_THE_KEY)
