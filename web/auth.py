"""Who calls, and what they may reach."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from uuid import UUID

from aiohttp import web

from storage.model import Role
from web.credentials import hash_key, key_prefix
from web.errors import BadRequest, NotAuthenticated, PermissionDenied
from web.fields import parse_uuid
from web.keys import CLOCK, SETTINGS, STORAGE, USER_TOKENS

ORGANIZATION_HEADER = "X-Organization"
ADMINS = frozenset({Role.OWNER, Role.ADMIN})


@dataclass(frozen=True, slots=True)
class Caller:
    """An API key or a user, by the roles it has in organizations, its own first."""

    roles: Mapping[UUID, Role]

    @property
    def organizations(self) -> tuple[UUID, ...]:
        return tuple(self.roles)

    def require(self, organization_id: UUID) -> None:
        """PermissionDenied outside the caller's organizations."""
        if organization_id not in self.roles:
            raise PermissionDenied

    def require_admin(self, organization_id: UUID) -> None:
        """PermissionDenied unless the caller may change the organization itself, its keys for example."""
        if self.roles.get(organization_id) not in ADMINS:
            raise PermissionDenied


def organization_for_create(request: web.Request, caller: Caller) -> UUID:
    """Where a new resource goes: the organization of the header, else the caller's first."""
    named = request.headers.get(ORGANIZATION_HEADER)
    if named is None:
        if not caller.roles:
            raise PermissionDenied
        return next(iter(caller.roles))
    organization_id = parse_uuid(named)
    if organization_id is None:
        raise BadRequest(f"{ORGANIZATION_HEADER}: Must be a valid UUID.")
    caller.require(organization_id)
    return organization_id


async def authenticate(request: web.Request) -> Caller:
    """The caller behind an API key or a user's token; NotAuthenticated otherwise."""
    scheme, credential = _credential(request)
    match scheme:
        case "bearer":
            return await _key_caller(request, credential)
        case "token":
            return await _user_caller(request, credential)
        case _:
            raise NotAuthenticated


def authenticate_operator(request: web.Request) -> None:
    """NotAuthenticated for anything but the operator's token."""
    scheme, credential = _credential(request)
    if scheme not in {"bearer", "token"}:
        raise NotAuthenticated
    expected = request.app[SETTINGS].operator_token.encode()
    shown = credential.encode(errors="replace")
    if not (hmac.compare_digest(shown, expected) and scheme == "bearer"):
        raise NotAuthenticated("Invalid token.")


def _credential(request: web.Request) -> tuple[str, str]:
    scheme, _, credential = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower(), credential.strip()


async def _key_caller(request: web.Request, credential: str) -> Caller:
    keys, now = request.app[STORAGE].api_keys, request.app[CLOCK].now()
    prefix = key_prefix(credential)
    found = prefix and await keys.find(prefix, now)
    if not found:
        raise NotAuthenticated("Invalid API key.")
    key, key_hash = found
    if not (hmac.compare_digest(hash_key(credential), key_hash) and key.is_active):
        raise NotAuthenticated("Invalid API key.")
    await keys.touch(key.id, now)
    return Caller({key.organization_id: Role.ADMIN})


async def _user_caller(request: web.Request, credential: str) -> Caller:
    read = request.app[USER_TOKENS].read(credential, request.app[CLOCK].now())
    holder = read and await request.app[STORAGE].accounts.get_token_holder(read[0])
    if not (read and holder) or holder.token_version != read[1]:
        raise NotAuthenticated("Invalid token.")
    return Caller(MappingProxyType({place.organization_id: place.role for place in holder.memberships}))
