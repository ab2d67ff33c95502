"""The keys under which the application holds its parts."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from aiohttp import web

from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.engine.inspection import StatusReader
from supervisors.events.feed import EventFeed
from supervisors.json_schema.checker import SchemaChecker
from supervisors.llm.catalog import ModelCatalog, Prices
from supervisors.rewind.rewinds import Rewinds
from supervisors.timeline.timelines import Timelines
from supervisors.tools.toolset import Toolset
from supervisors.wake_context import WakeContexts
from web.credentials.formats import ApprovalTokens, RunTokens, StreamTickets, UserTokens
from web.credentials.passwords import Passwords
from web.credentials.rate_limits import RateLimits, TokenBuckets
from web.observability.counter_sums import CounterSums
from web.observability.line_limit import LineLimit
from web.observability.requests import RequestCounts
from web.ports import HarnessStatus, Health, Nodes, Registry
from web.request_room import RequestRoom
from web.settings import WebSettings

STORAGE: web.AppKey[Storage] = web.AppKey("storage")
REGISTRY: web.AppKey[Registry] = web.AppKey("registry")
NODES: web.AppKey[Nodes] = web.AppKey("nodes")
STATUS: web.AppKey[StatusReader] = web.AppKey("status")
WAKES: web.AppKey[WakeContexts] = web.AppKey("wakes")
REWINDS: web.AppKey[Rewinds] = web.AppKey("rewinds")
TIMELINES: web.AppKey[Timelines] = web.AppKey("timelines")
TOOLSET: web.AppKey[Toolset] = web.AppKey("toolset")
CLOCK: web.AppKey[Clock] = web.AppKey("clock")
# None: the agents' own code calls the models, so any may be named.
MODELS: web.AppKey[ModelCatalog | None] = web.AppKey("models")
PRICES: web.AppKey[Prices] = web.AppKey("prices")
SETTINGS: web.AppKey[WebSettings] = web.AppKey("settings")
HEALTH: web.AppKey[Health] = web.AppKey("health")
HARNESS: web.AppKey[Callable[[], HarnessStatus]] = web.AppKey("harness")
PASSWORDS: web.AppKey[Passwords] = web.AppKey("passwords")
SCHEMA_CHECKER: web.AppKey[SchemaChecker] = web.AppKey("schema_checker")
COUNTER_SUMS: web.AppKey[CounterSums] = web.AppKey("counter_sums")
REQUEST_COUNTS: web.AppKey[RequestCounts] = web.AppKey("request_counts")
SIGNUPS: web.AppKey[TokenBuckets] = web.AppKey("signups")  # by client network
REFUSALS: web.AppKey[TokenBuckets] = web.AppKey("refusals")  # by hook or user, that are recorded
LINES: web.AppKey[LineLimit] = web.AppKey("lines")  # of the log
RATE_LIMITS: web.AppKey[RateLimits] = web.AppKey("rate_limits")
USER_TOKENS: web.AppKey[UserTokens] = web.AppKey("user_tokens")
RUN_TOKENS: web.AppKey[RunTokens] = web.AppKey("run_tokens")
APPROVAL_TOKENS: web.AppKey[ApprovalTokens] = web.AppKey("approval_tokens")
STREAM_TICKETS: web.AppKey[StreamTickets] = web.AppKey("stream_tickets")
API_DOCUMENT: web.AppKey[Callable[[], Awaitable[bytes]]] = web.AppKey("api_document")
COLLECTIONS: web.AppKey[Sequence[str]] = web.AppKey("collections")  # the paths of the lists
EVENT_FEED: web.AppKey[EventFeed] = web.AppKey("event_feed")
STARTED_AT: web.AppKey[datetime] = web.AppKey("started_at")
ROOM: web.AppKey[RequestRoom] = web.AppKey("room")
