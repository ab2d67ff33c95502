"""Accounts of people: sign-up, login, logout, and changing or resetting the password."""

from enum import StrEnum
from typing import TypedDict
from uuid import UUID

from aiohttp import web

from storage.errors import NotUnique
from storage.identity.accounts import Membership
from storage.ids import new_id
from storage.model import Organization, Role, User
from storage.postgres.asker import act_as
from storage.storage import Storage
from web.access.auth import Caller
from web.access.login_guard import (
    AttemptKind,
    CountedAttempt,
    count_signup,
    counted_attempt,
    record_login,
    verify_password,
)
from web.app_keys import CLOCK, PASSWORDS, SETTINGS, STORAGE, USER_TOKENS
from web.credentials.formats import hash_secret
from web.errors import Invalid, NotAuthenticated, PermissionDenied, require_found
from web.fields import Email, Line, Text
from web.json import Serializer
from web.mail import MAIL
from web.request.parsing import Body, read_body
from web.routes import Access, Routes

MIN_PASSWORD = 8
MAX_PASSWORD = 128


class SignupBody(Body):
    """A new user and a new organization."""

    email = Email(required=True, blank=False, max_length=254)
    """The address to log in with, unique in the service, ignoring case. It is not verified."""
    password = Text(required=True, blank=False, min_length=MIN_PASSWORD, max_length=MAX_PASSWORD)
    """8 to 128 characters."""
    organization_name = Line(required=True, blank=False, max_length=255)
    """The name of the new organization; several may have the same."""
    name = Line(load_default="", max_length=255)
    """The name of the person; "" if you do not say."""


class LoginBody(Body):
    """The credentials of a user."""

    email = Line(required=True, blank=False, max_length=254)
    """The address of the account, ignoring case."""
    password = Text(required=True, blank=False, max_length=MAX_PASSWORD)
    """The password of the account."""


class PasswordChangeBody(Body):
    """The current password and a new one."""

    current_password = Text(required=True, blank=False, max_length=MAX_PASSWORD)
    """The password until now; a wrong one is refused with 400."""
    new_password = Text(required=True, blank=False, min_length=MIN_PASSWORD, max_length=MAX_PASSWORD)
    """8 to 128 characters."""


class ResetRequestBody(Body):
    """The address of somebody who has lost a password."""

    email = Line(required=True, blank=False, max_length=254)
    """The address of the account, ignoring case."""


class ResetBody(ResetRequestBody):
    """A code that was sent or that an operator has given, and a new password."""

    code = Line(required=True, blank=False, max_length=255)
    """Sent by e-mail, or printed by `hostsvc accounts reset-password`. It works once, within an hour."""
    new_password = Text(required=True, blank=False, min_length=MIN_PASSWORD, max_length=MAX_PASSWORD)
    """8 to 128 characters."""


class UserResponse(TypedDict):
    """A person with an account."""

    id: UUID
    """Chosen by the service."""
    email: str
    """The address that the person logs in with."""
    name: str
    """The name of the person; "" if it is not known."""


class OrganizationResponse(TypedDict):
    """An organization, by its id and name."""

    id: UUID
    """Chosen by the service; `X-Organization` takes it."""
    name: str
    """The name of the organization; several may have the same."""


class PlaceResponse(OrganizationResponse):
    """An organization with the user's role in it."""

    role: Role
    """What the user may do there."""


class FreshTokenResponse(TypedDict):
    """A token; older tokens stop working."""

    token: str
    """The new token, to be sent as `Authorization: Token …`."""


class SignedUpResponse(TypedDict):
    """A token, its user, and the organization that the user now belongs to."""

    token: str
    """To be sent as `Authorization: Token …`; valid for `accounts.token_days` (30 days)."""
    user: UserResponse
    """The user, who may have existed before an invite was accepted."""
    organization: OrganizationResponse
    """The organization that the user now belongs to."""


class LoggedInResponse(TypedDict):
    """A token, its user, and the organizations that the user belongs to."""

    token: str
    """To be sent as `Authorization: Token …`; valid for `accounts.token_days` (30 days)."""
    user: UserResponse
    """The user who logged in."""
    organizations: list[PlaceResponse]
    """The organizations of the user, at most 500; the list of organizations has all."""


class CredentialKind(StrEnum):
    """What a caller has identified itself with."""

    USER = "user"
    """A user's token."""
    API_KEY = "api_key"
    """An API key."""


class CallingKeyResponse(TypedDict):
    """The API key that calls."""

    id: UUID
    """The key's id, as in the list of keys."""
    name: str
    """The key's name."""


class CallerResponse(TypedDict):
    """Who calls, and in which roles."""

    kind: CredentialKind
    """Whether a user or an API key calls."""
    user: UserResponse | None
    """The user; null for an API key."""
    api_key: CallingKeyResponse | None
    """The API key; null for a user."""
    organizations: list[PlaceResponse]
    """The caller's organizations with its role in each, oldest membership first, at most 500. A key has one,
    in which it is an admin."""


serialize_user = Serializer(UserResponse, User)

serialize_organization = Serializer(OrganizationResponse, Organization)

serialize_membership = Serializer(PlaceResponse, Membership, id="organization_id", name="organization_name")

routes = Routes()

MAX_ORGANIZATIONS = 500  # organizations that the answer to a log-in names; a list of its own has all
WRONG_PASSWORD = {"current_password": ["Wrong password."]}


@routes.post(
    "/api/organizations/auth/signup/", access=Access.ANYONE, status=201, body=SignupBody, refusals={403, 429}
)
async def sign_up(request: web.Request) -> SignedUpResponse:
    """Create a user who owns a new organization, and return a token for the user.

    If the operator has closed the sign-up, the answer is 403; if the address has an account, 400. Too many
    attempts lead to 429.
    """
    app = request.app
    if not app[SETTINGS].signup_open:
        raise PermissionDenied("Sign-up is closed.")
    body = await read_body(request)
    async with counted_attempt(request, AttemptKind.SIGN_UP) as attempt:
        count_signup(request)
        password_hash = await request.app[PASSWORDS].hash(body["password"], attempt.network)
        now = app[CLOCK].now()
        user = User(new_id(), body["email"], body["name"], password_hash, 1, now)
        organization = Organization(new_id(), body["organization_name"], now)
        act_as(f"user:{user.id}")
        try:
            await app[STORAGE].accounts.insert_account(user, organization)
        except NotUnique as error:
            await attempt.count_wrong()  # so that nobody can quickly find out who has an account
            raise Invalid({"email": ["user with this email already exists."]}) from error
    await record_login(request, user.id)
    return {
        "token": app[USER_TOKENS].issue(user.id, user.token_version, now),
        "user": serialize_user(user),
        "organization": serialize_organization(organization),
    }


@routes.post("/api/organizations/auth/login/", access=Access.ANYONE, body=LoginBody, refusals={401, 429})
async def log_in(request: web.Request) -> LoggedInResponse:
    """Return a token for a user; earlier tokens stay valid.

    An unknown address is refused like a wrong password, with 401. Too many refused attempts lead to 429.
    """
    app = request.app
    body = await read_body(request)
    async with counted_attempt(request, AttemptKind.PASSWORD, body["email"]) as attempt:
        user = await app[STORAGE].accounts.get_user_by_email(body["email"])
        is_right = await verify_password(request, attempt, user, body["password"])
    if user is None or not is_right:
        raise NotAuthenticated("Unable to log in with provided credentials.")
    await record_login(request, user.id)
    memberships = await app[STORAGE].accounts.list_memberships(user.id)
    return {
        "token": app[USER_TOKENS].issue(user.id, user.token_version, app[CLOCK].now()),
        "user": serialize_user(user),
        "organizations": [serialize_membership(membership) for membership in memberships[:MAX_ORGANIZATIONS]],
    }


@routes.get("/api/organizations/auth/me/", refusals={404})
async def get_caller(request: web.Request, caller: Caller) -> CallerResponse:
    """Return who calls: the user or the API key, and its organizations with its role in each.

    The token of a run may not call this: the context of the run names its agent.
    """
    return await (_user_answer if caller.is_user else _key_answer)(request.app[STORAGE], caller)


async def _user_answer(storage: Storage, caller: Caller) -> CallerResponse:
    user = require_found(await storage.accounts.get_user(caller.credential))
    memberships = await storage.accounts.list_memberships(user.id)
    return {
        "kind": CredentialKind.USER,
        "user": serialize_user(user),
        "api_key": None,
        "organizations": [serialize_membership(membership) for membership in memberships[:MAX_ORGANIZATIONS]],
    }


async def _key_answer(storage: Storage, caller: Caller) -> CallerResponse:
    key = require_found(await storage.api_keys.get(caller.credential))
    organization = require_found(await storage.organizations.get(key.organization_id))
    role = caller.roles[organization.id]
    return {
        "kind": CredentialKind.API_KEY,
        "user": None,
        "api_key": {"id": key.id, "name": key.name},
        "organizations": [{"id": organization.id, "name": organization.name, "role": role}],
    }


@routes.post("/api/organizations/auth/logout/", status=204)
async def log_out(request: web.Request, caller: Caller) -> None:
    """Revoke all tokens of the user, including this one. An API key is refused with 403."""
    await request.app[STORAGE].accounts.revoke_tokens(caller.require_user())


@routes.post("/api/organizations/auth/password/", body=PasswordChangeBody, refusals={429})
async def change_password(request: web.Request, caller: Caller) -> FreshTokenResponse:
    """Change the password and revoke all tokens but the one in the answer.

    A wrong current password is refused with 400, an API key with 403.
    """
    app, user_id = request.app, caller.require_user()
    body = await read_body(request)
    user = require_found(await app[STORAGE].accounts.get_user(user_id))
    # Counted apart from log-ins, so that a guesser without the token keeps nobody from a change.
    async with counted_attempt(request, AttemptKind.PASSWORD, str(user.id)) as attempt:
        if not await verify_password(request, attempt, user, body["current_password"]):
            raise Invalid(WRONG_PASSWORD)
        new_hash = await request.app[PASSWORDS].hash(body["new_password"], attempt.network)
    version = await app[STORAGE].accounts.replace_password(user, new_hash)
    if version is None:  # another request changed the password in the meantime
        raise Invalid(WRONG_PASSWORD)
    await record_login(request, user.id)
    return {"token": app[USER_TOKENS].issue(user.id, version, app[CLOCK].now())}


@routes.post("/api/organizations/auth/reset/", access=Access.ANYONE, body=ResetBody, refusals={429})
async def reset_password(request: web.Request) -> FreshTokenResponse:
    """Set a new password by a code, and revoke all tokens but the one in the answer.

    An unknown address is refused like a wrong code, with 400. Too many refused attempts lead to 429.
    """
    app = request.app
    body = await read_body(request)
    accounts, code_hash, now = app[STORAGE].accounts, hash_secret(body["code"]), app[CLOCK].now()
    async with counted_attempt(request, AttemptKind.CODE, body["email"]) as attempt:
        user = None
        if await accounts.has_reset_code(body["email"], code_hash, now):  # else no password is hashed
            password_hash = await request.app[PASSWORDS].hash(body["new_password"], attempt.network)
            named = require_found(await accounts.get_user_by_email(body["email"]))
            act_as(f"user:{named.id}")
            user = await accounts.reset_password(body["email"], code_hash, password_hash, now)
        if user is None:
            raise await wrong_code(attempt)
    await record_login(request, user.id)
    return {"token": app[USER_TOKENS].issue(user.id, user.token_version, now)}


@routes.post(
    "/api/organizations/auth/reset/request/",
    access=Access.ANYONE,
    status=204,
    body=ResetRequestBody,
    refusals={403, 429},
)
async def request_reset(request: web.Request) -> None:
    """Send a code for a new password to the address, if it has an account.

    The answer does not tell whether it has one. Within ten minutes only one code is sent. If the service
    sends no e-mail, the answer is 403. Too many requests lead to 429.
    """
    mail = request.app[MAIL]
    if mail is None:
        raise PermissionDenied("This service sends no e-mail. Ask its operator for a code.")
    email = (await read_body(request))["email"]
    async with counted_attempt(request, AttemptKind.MAIL, email) as attempt:
        await attempt.count_wrong()
        mail.send_reset_code(email)


async def wrong_code(attempt: CountedAttempt) -> Invalid:
    """Count the attempt as wrong and return the error to raise."""
    await attempt.count_wrong()
    return Invalid({"code": ["The code is wrong, used or expired."]})
