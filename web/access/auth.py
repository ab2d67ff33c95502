"""Who calls, what that caller may reach, and whether that client may send a request now.

A request that is refused here costs no more than its authentication: neither its body nor the database is
read for it, beyond what finds the credential. Valid credentials never count for an address, so nobody is kept
out by what others send from the same one.
"""

import hmac
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Self
from uuid import UUID

from aiohttp import web

from storage.model import Outcome, Role, Run
from storage.parked_calls import CallState
from web.app_keys import (
    APPROVAL_TOKENS,
    CLOCK,
    NODES,
    RATE_LIMITS,
    REGISTRY,
    RUN_TOKENS,
    SETTINGS,
    STORAGE,
    STREAM_TICKETS,
    USER_TOKENS,
)
from web.credentials.formats import KEY_TEXT, TicketHolder, hash_secret
from web.credentials.rate_limits import RateLimit
from web.errors import BadRequest, Invalid, NotAuthenticated, PermissionDenied, Throttled
from web.fields import parse_uuid
from web.observability.requests import HEADERS
from web.request.client_address import client_network

ORGANIZATION_HEADER = "X-Organization"
TICKET_PARAMETER = "ticket"
ADMINS = frozenset({Role.OWNER, Role.ADMIN})
NEEDS_ADMIN = "This needs the role admin or owner"
MAX_KNOWN_KEYS = 1024  # those used last
NO_ORGANIZATION = "You belong to no organization: create one, or accept an invitation."
OUTSIDE_NAMED = f"{ORGANIZATION_HEADER} names another organization than that of the resource."
SEVERAL_ORGANIZATIONS = f"You belong to several organizations: name one in {ORGANIZATION_HEADER}."


class RunAccess(StrEnum):
    """When a run's token opens a route."""

    NEVER = "never"
    RUNNING = "running"  # until the run has ended
    FINISHING = "finishing"  # also after its sleep, while its process still reports what it did


@dataclass(frozen=True, slots=True)
class RunScope:
    """The run that a run token belongs to; such a caller reaches nothing else."""

    run_id: UUID
    agent_id: UUID
    organization_id: UUID
    is_over: bool

    def require_route(self, access: RunAccess) -> None:
        """Raise PermissionDenied if a route is not open to the token of this run, or no longer."""
        if access is RunAccess.NEVER:
            raise PermissionDenied("The token of a run may not do this.")
        if self.is_over and access is not RunAccess.FINISHING:
            raise PermissionDenied(
                "The run has gone to sleep: its token may only write usage and spans, and end its trace."
            )


@dataclass(frozen=True, slots=True)
class Reach:
    """The resources that lists show a caller: all of its organizations.

    With `agent_id`, the agent of a run, only those of this agent and those for all agents.
    """

    organization_ids: tuple[UUID, ...]
    agent_id: UUID | None


@dataclass(frozen=True)  # no slots: cached properties are stored in the dictionary of the object
class Caller:
    """An API key or user with roles in organizations, the oldest membership first; or a run without roles."""

    credential: UUID  # the id of the key, the user or the run
    roles: Mapping[UUID, Role]
    run: RunScope | None = None
    is_user: bool = False
    is_confined: bool = False  # to the organization in X-Organization, the only one in `roles`
    is_link: bool = False  # of a webhook: to the approval in the path, which is the credential
    token_version: int | None = None  # of a user's tokens; None for a key or a run

    @cached_property
    def identity(self) -> str:
        """Return the kind and the id of the caller, for the log: `key:…`, `user:…`, `run:…` or `link:…`."""
        kind = "user" if self.is_user else "run" if self.run else "link" if self.is_link else "key"
        return f"{kind}:{self.credential}"

    @cached_property
    def accountable(self) -> UUID:
        """Return the organization whose limits the caller's requests count against: its first one."""
        return next(iter(self.roles), self.run.organization_id if self.run else self.credential)

    @property
    def organizations(self) -> tuple[UUID, ...]:
        return tuple(self.roles)

    @cached_property
    def reach(self) -> Reach:
        """Return what lists show the caller."""
        if self.run is None:
            return Reach(self.organizations, None)
        return Reach((self.run.organization_id,), self.run.agent_id)

    def acts_for(self, organization_id: UUID) -> bool:
        """Return whether this is an organization of the caller, or that of its run."""
        return organization_id in self.roles or (
            self.run is not None and self.run.organization_id == organization_id
        )

    def administered(self) -> tuple[UUID, ...]:
        """Return the organizations that the caller administers. Raise PermissionDenied if there are none."""
        administered = tuple(owner for owner, role in self.roles.items() if role in ADMINS)
        if not administered:
            raise PermissionDenied(f"{NEEDS_ADMIN} in one of your organizations.")
        return administered

    def confined_to(self, organization_id: UUID) -> Self:
        """Return the caller with the role in one of its organizations alone."""
        return replace(self, roles={organization_id: self.roles[organization_id]}, is_confined=True)

    def refusal(self) -> PermissionDenied:
        """Return the error for a resource outside the organizations of the caller."""
        return PermissionDenied(OUTSIDE_NAMED) if self.is_confined else PermissionDenied()

    def require_user(self) -> UUID:
        """Return the user who calls. Raise PermissionDenied for a key or a run."""
        if not self.is_user:
            raise PermissionDenied("This needs the token of a user, not an API key.")
        return self.credential

    def require(self, organization_id: UUID) -> None:
        """Raise PermissionDenied unless the caller belongs to the organization."""
        if organization_id not in self.roles:
            raise self.refusal()

    def require_agent(self, agent_id: UUID | None, organization_id: UUID) -> None:
        """Raise PermissionDenied for an agent of other organizations, and for any but a run's own agent.

        None stands for all agents of the organization, whose common resources every run of it may use.
        """
        if self.run is None:
            if organization_id not in self.roles:
                raise self.refusal()
        elif self.run.organization_id != organization_id or agent_id not in {None, self.run.agent_id}:
            raise PermissionDenied

    def require_trace(self, trace_id: UUID, organization_id: UUID) -> None:
        """Raise PermissionDenied for a trace of other organizations, and for any but a run's own trace."""
        if self.run is None:
            self.require(organization_id)
        elif self.run.run_id != trace_id:  # a run and its trace have one id
            raise PermissionDenied

    def require_admin(self, organization_id: UUID) -> None:
        """Raise PermissionDenied unless the caller is an admin or owner of the organization."""
        self.require(organization_id)
        if not self.is_admin(organization_id):
            raise PermissionDenied(f"{NEEDS_ADMIN}; yours is {self.roles[organization_id]}.")

    def require_role(self, organization_id: UUID, role: Role) -> None:
        """Raise PermissionDenied if the role is above the caller's in an organization of the caller."""
        own = self.roles[organization_id]
        if role.is_above(own):
            roles = " or ".join(each for each in reversed(Role) if not role.is_above(each))
            raise PermissionDenied(f"This needs the role {roles}; yours is {own}.")

    def is_admin(self, organization_id: UUID) -> bool:
        """Return whether the caller is an admin or owner of the organization."""
        return self.roles.get(organization_id) in ADMINS


CALLER = web.RequestKey("caller", Caller)
IS_OPERATOR = web.RequestKey("is_operator", bool)


def named_organization(request: web.Request, caller: Caller) -> UUID | None:
    """Return the organization in X-Organization; None without that header.

    Raise BadRequest for text that is no UUID, or for several such headers, and PermissionDenied for another
    organization than the caller's.
    """
    headers = request.headers.getall(ORGANIZATION_HEADER, ())
    if not headers:
        return None
    organization_id = parse_uuid(", ".join(headers))
    if organization_id is None:
        raise BadRequest(f"{ORGANIZATION_HEADER}: Must be a valid UUID.")
    if not caller.acts_for(organization_id):
        whose = "You do not belong to this organization."
        if not caller.is_user:
            whose = "The credential belongs to another organization."
        raise PermissionDenied(f"{ORGANIZATION_HEADER}: {whose}")
    return organization_id


def requested_organization(request: web.Request, caller: Caller) -> UUID:
    """Return the organization that a request is about: that of X-Organization, else the caller's only one.

    Raise Invalid without the header if the caller has several, PermissionDenied if it has none.
    """
    named = named_organization(request, caller)
    if named is not None:
        return named
    if not caller.roles:
        raise PermissionDenied(NO_ORGANIZATION)
    if len(caller.roles) > 1:
        raise Invalid({"organization": [SEVERAL_ORGANIZATIONS]})
    return next(iter(caller.roles))


async def admit_caller(
    request: web.Request, *, takes_ticket: bool = False, takes_link: bool = False
) -> Caller:
    """Return the caller, who may use a stream ticket if it has no credential and `takes_ticket`.

    With `takes_link` it may be the link to the approval in the path. Raise NotAuthenticated, or Throttled if
    the caller or the address must wait.
    """
    has_credential = not takes_ticket or "Authorization" in request.headers
    ticket = "" if has_credential else request.query.get(TICKET_PARAMETER, "")
    try:
        if takes_link and _credential(request)[0] == "approval":
            caller = await authenticate_link(request)
        else:
            caller = await (authenticate_ticket(request, ticket) if ticket else authenticate(request))
    except NotAuthenticated:
        admit_address(request)
        raise
    limit = request.app[RATE_LIMITS].of_callers
    if limit is not None:
        _take(request, limit, caller.credential)
    return caller


def admit_operator(request: web.Request, check: Callable[[web.Request], None]) -> None:
    """Check the operator's token. Raise NotAuthenticated, or Throttled if the address must wait."""
    try:
        check(request)
    except NotAuthenticated:
        admit_address(request)
        raise


def admit_address(request: web.Request) -> None:
    """Count a request without a valid credential. Raise Throttled if its address must wait."""
    limit = request.app[RATE_LIMITS].of_addresses
    if limit is not None:
        _take(request, limit, client_network(request))


def _take(request: web.Request, limit: RateLimit, client: Hashable) -> None:
    quota = limit.take(client, request.app[CLOCK].monotonic())
    seconds = max(1, math.ceil(quota.more_in_seconds))
    headers = request[HEADERS]
    headers["RateLimit-Policy"] = limit.policy_header
    headers["RateLimit"] = f"{limit.policy};r={quota.remaining};t={seconds}"
    if not quota.is_granted:
        raise Throttled(seconds, f"limits.{limit.name} is {limit.allowed}.")


def has_user_token(request: web.Request) -> bool:
    """Return whether the request has a credential that claims to be the token of a user."""
    return _credential(request)[0] == "token"


async def authenticate(request: web.Request) -> Caller:
    """Return the caller behind an API key, a user's token or a run's. Raise NotAuthenticated otherwise."""
    scheme, credential = _credential(request)
    match scheme:
        case "bearer":
            key = KEY_TEXT.fullmatch(credential)
            return await (
                _key_caller(request, credential, key[1]) if key else _run_caller(request, credential)
            )
        case "token":
            return await _user_caller(request, credential)
        case _:
            raise NotAuthenticated


def authenticate_operator(request: web.Request) -> None:
    """Raise NotAuthenticated for anything but the operator's token."""
    scheme, credential = _credential(request)
    if scheme not in {"bearer", "token"}:
        raise NotAuthenticated
    expected = request.app[SETTINGS].operator_token.encode()
    token = credential.encode(errors="replace")
    if not (hmac.compare_digest(token, expected) and scheme == "bearer"):
        raise NotAuthenticated("Invalid token.")
    request[IS_OPERATOR] = True


def authenticate_scraper(request: web.Request) -> None:
    """Raise NotAuthenticated for anything but the operator's token, unless the metrics are public."""
    if not request.app[SETTINGS].open_metrics:
        authenticate_operator(request)


def _credential(request: web.Request) -> tuple[str, str]:
    scheme, _, credential = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower(), credential.strip()


async def _key_caller(request: web.Request, credential: str, prefix: str) -> Caller:
    app = request.app
    keys, now = app[STORAGE].api_keys, app[CLOCK].now()
    candidate = await keys.get_by_prefix(prefix, now)
    if not candidate:
        raise NotAuthenticated("Invalid API key.")
    key, key_hash = candidate
    if not (hmac.compare_digest(hash_secret(credential), key_hash) and key.is_active):
        raise NotAuthenticated("Invalid API key.")
    await keys.record_use(key.id, now)
    return _caller_of_key(key.id, key.organization_id)


@lru_cache(MAX_KNOWN_KEYS)
def _caller_of_key(key_id: UUID, organization_id: UUID) -> Caller:
    """Return the caller behind a key, which depends on nothing else. Each request checks the key before."""
    return Caller(key_id, {organization_id: Role.ADMIN})


async def _user_caller(request: web.Request, credential: str) -> Caller:
    claims = request.app[USER_TOKENS].read(credential, request.app[CLOCK].now())
    caller = claims and await current_user(request.app, *claims)
    if not caller:
        raise NotAuthenticated("Invalid token.")
    return caller


async def current_user(app: web.Application, user_id: UUID, token_version: int) -> Caller | None:
    """Return the user as it is now; None if its tokens of this version are no longer valid."""
    holder = await app[STORAGE].token_holders.get(user_id, app[CLOCK].now())
    if holder is None or holder.token_version != token_version:
        return None
    return Caller(user_id, holder.roles, is_user=True, token_version=token_version)


async def _run_caller(request: web.Request, credential: str) -> Caller:
    """Return the run behind a token."""
    run_id = request.app[RUN_TOKENS].read(credential, request.app[CLOCK].now())
    if run_id is None:
        raise NotAuthenticated("Invalid API key.")
    run = await request.app[STORAGE].runs.get(run_id)
    if run is None or not _may_act(request.app, run):
        raise NotAuthenticated("Invalid token.")
    scope = RunScope(run.id, run.agent_id, run.organization_id, is_over=run.ended_at is not None)
    return Caller(run.id, roles={}, run=scope)


def _may_act(app: web.Application, run: Run) -> bool:
    """Return whether the token of the run is valid.

    At the run's own node it is until the process of the run has ended, which may report after the agent
    sleeps; at other nodes while the run is active and its node is not dead.
    """
    if app[REGISTRY].is_run_alive(run.agent_id, run.id):
        return run.outcome in {None, Outcome.SLEPT}
    nodes = app[NODES]
    is_elsewhere = run.node_id is not None and run.node_id != nodes.node_id and nodes.is_living(run.node_id)
    return is_elsewhere and run.outcome is None


async def authenticate_link(request: web.Request) -> Caller:
    """Return the caller behind the token of a link, who acts as an admin on the approval in the path.

    Raise NotAuthenticated if the token is for another one, or if that waits for nobody any more.
    """
    app = request.app
    call_id = app[APPROVAL_TOKENS].read(_credential(request)[1], app[CLOCK].now())
    if call_id is None or call_id != parse_uuid(request.match_info["id"]):
        raise NotAuthenticated("The link is not valid, or has expired.")
    call = await app[STORAGE].parked_calls.get(call_id)
    if call is None or call.state is not CallState.PENDING:
        raise NotAuthenticated("The link can be used once, and this was decided or has ended.")
    return Caller(call_id, {call.organization_id: Role.ADMIN}, is_link=True)


async def authenticate_ticket(request: web.Request, ticket: str) -> Caller:
    """Return the caller that a stream ticket was issued to, as it is now. Raise NotAuthenticated."""
    app = request.app
    holder = app[STREAM_TICKETS].read(ticket, app[CLOCK].now())
    if holder is None:
        raise NotAuthenticated("The ticket is invalid or has expired: get a new one.")
    caller = await _current_holder(app, holder)
    if caller is None:
        raise NotAuthenticated("The credential that the ticket stands for is no longer valid.")
    return caller


async def reread_caller(app: web.Application, caller: Caller) -> Caller | None:
    """Return the caller with the roles that it has now; None if its credential is no longer valid."""
    if caller.run is not None:
        if app[REGISTRY].is_run_alive(caller.run.agent_id, caller.run.run_id):
            return caller
        run = await app[STORAGE].runs.get(caller.run.run_id)
        return caller if run is not None and _may_act(app, run) else None
    return await _current_holder(app, TicketHolder(caller.credential, caller.token_version))


async def _current_holder(app: web.Application, holder: TicketHolder) -> Caller | None:
    if holder.token_version is not None:
        return await current_user(app, holder.credential, holder.token_version)
    key = await app[STORAGE].api_keys.get(holder.credential)
    return Caller(key.id, {key.organization_id: Role.ADMIN}) if key and key.is_active else None
