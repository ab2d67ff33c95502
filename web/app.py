"""The application: the route table, and the parts that handlers need."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

from aiohttp import web
from aiohttp.typedefs import Handler

from web import app_keys
from web.access.auth import admit_caller, admit_operator, authenticate_operator
from web.access.login_guard import LOGIN_GUARD, LoginGuard
from web.api.agents import actions, agents, context, runs, templates, usage
from web.api.channels import contacts, documents, messages, notifications, projects, versions
from web.api.events import audit_log, events
from web.api.events.frames import FRAMES, EventFrames
from web.api.events.open_streams import OPEN_STREAMS, OpenStreams, look_after_streams
from web.api.hooks import hooks, receiving
from web.api.organizations import accounts, api_keys, members, organizations, secrets, webhooks
from web.api.service import metrics, pages, status
from web.api.supervision import approvals, attention, preview, rewind, schedules, supervisors, timeline
from web.api.toolbox import adapters, agent_tools, call_results, mcp_servers, tools
from web.api.tracing import otlp, spans, traces, transcripts
from web.credentials.formats import ApprovalTokens, RunTokens, StreamTickets, UserTokens
from web.credentials.passwords import Passwords
from web.credentials.rate_limits import RateLimits, TokenBuckets
from web.errors import REPORT_REFUSAL
from web.mcp import agents as mcp_agents
from web.mcp import assistant
from web.observability.counter_sums import CounterSums
from web.observability.line_limit import LineLimit
from web.observability.requests import RequestCounts
from web.openapi.document import ServedDocument
from web.request.parsing import check_expectation
from web.request_room import RequestRoom
from web.routes import Access, Route
from web.settings import LimitSettings

HOUR_SECONDS = 3600.0

HANDLERS = (
    accounts,
    organizations,
    members,
    api_keys,
    webhooks,
    hooks,
    secrets,
    audit_log,
    templates,
    adapters,
    mcp_servers,
    tools,
    actions,
    agents,
    agent_tools,
    context,
    runs,
    supervisors,
    attention,
    timeline,
    preview,
    rewind,
    transcripts,
    usage,
    notifications,
    schedules,
    approvals,
    contacts,
    messages,
    documents,
    versions,
    projects,
    traces,
    spans,
    events,
    status,
    metrics,
    pages,
)
ROUTES = tuple(route for handlers in HANDLERS for route in handlers.routes)
# Described by a protocol of their own, not by the API document.
PROTOCOL_ROUTES = (*mcp_agents.routes, *assistant.routes, *otlp.routes)


def add_interface(app: web.Application) -> None:
    """Add the HTTP interface to an application that has the parts of the service by their keys."""
    app[REPORT_REFUSAL] = app[app_keys.HEALTH].report_refusal
    _add_own_parts(app)
    _add_routes(app)


def _add_own_parts(app: web.Application) -> None:
    """Add what only the interface uses: credentials, bounds, counts and event streams."""
    storage, clock, settings = app[app_keys.STORAGE], app[app_keys.CLOCK], app[app_keys.SETTINGS]
    nodes = app[app_keys.NODES]
    app[app_keys.STARTED_AT] = clock.now()
    app[app_keys.USER_TOKENS] = UserTokens(settings.token_secret, timedelta(days=settings.token_days))
    app[app_keys.RUN_TOKENS] = RunTokens(settings.token_secret)
    app[app_keys.APPROVAL_TOKENS] = ApprovalTokens(settings.token_secret)
    app[app_keys.STREAM_TICKETS] = StreamTickets(settings.token_secret)
    app[LOGIN_GUARD] = LoginGuard(storage.throttle)
    signups = max(1, settings.limits.signups_per_hour)
    app[app_keys.SIGNUPS] = TokenBuckets(signups, HOUR_SECONDS, node_count=lambda: len(nodes.nodes))
    app[app_keys.RATE_LIMITS] = RateLimits(settings.limits, lambda: len(nodes.nodes))
    app[app_keys.ROOM] = RequestRoom()
    app[app_keys.REFUSALS] = TokenBuckets(1)
    app[app_keys.LINES] = LineLimit(clock.monotonic)
    app[app_keys.REQUEST_COUNTS] = RequestCounts()
    app[app_keys.COUNTER_SUMS] = CounterSums(storage.node_counters, nodes)
    app[FRAMES] = EventFrames(storage, clock, app[app_keys.ROOM])
    app[OPEN_STREAMS] = OpenStreams(app, app[app_keys.EVENT_FEED])
    app.cleanup_ctx.extend((_passwords, look_after_streams, metrics.publish_counters))


def adopt_limits(app: web.Application, limits: LimitSettings) -> None:
    """Change the limits while the application serves; those of bodies stay until a restart."""
    app[app_keys.SETTINGS].limits = limits
    app[app_keys.RATE_LIMITS].adopt(limits)
    app[app_keys.SIGNUPS].quota = max(1, limits.signups_per_hour)


def _add_routes(app: web.Application) -> None:
    """Add the routes, and what tells clients of them."""
    app[app_keys.API_DOCUMENT] = ServedDocument(ROUTES).get
    app[app_keys.COLLECTIONS] = pages.collection_paths(ROUTES)
    add_api_routes(app.router, app[app_keys.SETTINGS].limits)
    for receiver in (receiving, call_results):
        for path in receiver.PATHS:
            app.router.add_resource(path).add_route(
                "POST", receiver.receive, expect_handler=check_expectation
            )
    pages.add_documentation_files(app)
    pages.add_console_files(app)


def add_api_routes(router: web.UrlDispatcher, limits: LimitSettings) -> None:
    """Add all routes, and to each path what refuses the other methods."""
    by_path: dict[str, list[Route]] = {}
    for route in (*ROUTES, *PROTOCOL_ROUTES):
        by_path.setdefault(route.path, []).append(route)
    for path, routes in by_path.items():
        resource = router.add_resource(path)
        for each in routes:
            endpoint = each.endpoint(limits)
            resource.add_route(each.method, endpoint, expect_handler=check_expectation)
            if each.method == "GET":
                resource.add_route("HEAD", endpoint, expect_handler=check_expectation)
        # Without it `PATCH /notifications/clear/` would go to `/notifications/{id}/`.
        resource.add_route("*", _refuse_method(routes), expect_handler=check_expectation)


def _refuse_method(routes: Sequence[Route]) -> Handler:
    """Return the handler for all methods that a path does not have: 401 comes before 405."""
    allowed = {route.method for route in routes}
    allowed |= {"HEAD"} if "GET" in allowed else set()
    accesses = {route.access for route in routes}

    async def refuse(request: web.Request) -> web.StreamResponse:
        if accesses == {Access.OPERATORS}:
            admit_operator(request, authenticate_operator)
        elif Access.ANYONE not in accesses:
            await admit_caller(request)
        raise web.HTTPMethodNotAllowed(request.method, allowed)

    return refuse


async def _passwords(app: web.Application) -> AsyncIterator[None]:
    with Passwords(app[LOGIN_GUARD].has_guessed) as passwords:
        app[app_keys.PASSWORDS] = passwords
        yield
