"""Invites: owners and admins create them, and the invited person accepts with the code."""

import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from aiohttp import web

from storage.errors import NotUnique
from storage.identity.invites import Invite
from storage.ids import new_id
from storage.model import User
from web.access.auth import Caller, authenticate, has_user_token, requested_organization
from web.access.login_attempts import counted_attempt, hash_password, record_login, verify_password
from web.access.path_access import load_owned, path_id
from web.app_keys import CLOCK, STORAGE, USER_TOKENS
from web.credentials.formats import hash_secret, make_code
from web.credentials.throttle import AttemptKind, CountedAttempt
from web.errors import Invalid, NotAuthenticated, PermissionDenied, Throttled, require_found
from web.idempotency import read_body_once, receipt_without
from web.json import json_response
from web.page_reader import Listing
from web.paging import PageQuery, answer_list, find_owned
from web.request.parsing import read_body, read_query
from web.routes import Access, Routes
from web.schemas.accounts import SignedUpResponse, serialize_organization, serialize_user
from web.schemas.invites import (
    AcceptanceBody,
    InviteResponse,
    NewInviteBody,
    NewInviteResponse,
    PasswordAcceptanceBody,
    serialize_invite,
)

routes = Routes()

NEW = NewInviteBody()
ACCEPTANCE = AcceptanceBody()
PASSWORD_ACCEPTANCE = PasswordAcceptanceBody()
QUERY = PageQuery()
LIFETIME = timedelta(days=7)


@routes.create("/api/organizations/invites/", answer=NewInviteResponse, body=NEW, by_header=True)
async def create_invite(request: web.Request, caller: Caller) -> web.Response:
    """Create an invite. Only this answer contains the code, which you pass on.

    Members are refused with 403, and so is a role above your own.
    """
    organization_id = requested_organization(request, caller)
    caller.require_admin(organization_id)
    body = await read_body_once(request, caller, NEW)
    caller.require_role(organization_id, body["role"])
    code, now = make_code(), request.app[CLOCK].now()
    invite = Invite(
        id=new_id(),
        organization_id=organization_id,
        email=body["email"],
        role=body["role"],
        code_hash=hash_secret(code),
        expires_at=now + LIFETIME,
        accepted_at=None,
        created_at=now,
    )
    answer: NewInviteResponse = {**serialize_invite(invite), "code": code}
    await request.app[STORAGE].invites.insert(invite, receipt_without(request, answer, "code"))
    return json_response(answer, status=201)


@routes.get("/api/organizations/invites/", answer=list[InviteResponse], query=QUERY)
async def list_invites(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the invites of the organizations that you administer, accepted and expired ones included."""
    organization_ids = caller.administered()
    query = read_query(request, QUERY)
    invites = request.app[STORAGE].invites
    listing = Listing(
        partial(invites.list_page, organization_ids),
        serialize_invite,
        find_owned(organization_ids, invites.get),
    )
    return await answer_list(request, query, listing)


@routes.delete("/api/organizations/invites/{id}/")
async def delete_invite(request: web.Request, caller: Caller) -> web.Response:
    """Delete an invite; its code stops working. An invite to a role above your own is refused with 403."""
    invites = request.app[STORAGE].invites
    invite = await load_owned(request, caller, invites.get, Caller.require_admin)
    caller.require_role(invite.organization_id, invite.role)
    await invites.delete(invite.id)
    return web.Response(status=204)


@routes.post(
    "/api/organizations/invites/{id}/accept/",
    access=Access.ANYONE,
    answer=SignedUpResponse,
    body=ACCEPTANCE,
    user_token=True,
    refusals={401, 403, 429},
)
async def accept_invite(request: web.Request) -> web.Response:
    """Accept an invite with the password of the account, or with a new one if there is no account yet.

    The token of the invited user's account takes the place of the password. A wrong, used or expired code is
    refused with 400, a wrong password of an existing account with 401, the token of another account with 403.
    """
    app = request.app
    invite = require_found(await app[STORAGE].invites.get(path_id(request)))
    body = await read_body(request, ACCEPTANCE if has_user_token(request) else PASSWORD_ACCEPTANCE)
    now = app[CLOCK].now()
    with counted_attempt(request, AttemptKind.CODE, str(invite.id)) as attempt:
        is_right_code = hmac.compare_digest(hash_secret(body["code"]), invite.code_hash)
        if not (is_right_code and invite.is_open(now)):
            raise _wrong_code(attempt)
        user, is_new = await _accepting_user(request, attempt, invite.email, body, now)
        try:
            is_accepted = await app[STORAGE].invites.accept(invite.id, user, now, is_new=is_new)
        except NotUnique as error:  # the person has signed up in the meantime; the invite stays valid
            raise Invalid({"email": ["user with this email already exists."]}) from error
        organization = await app[STORAGE].organizations.get(invite.organization_id)
        if organization is None or not is_accepted:
            raise _wrong_code(attempt)
    if "password" in body:
        await record_login(request, user.id)
    answer: SignedUpResponse = {
        "token": app[USER_TOKENS].issue(user.id, user.token_version, now),
        "user": serialize_user(user),
        "organization": serialize_organization(organization),
    }
    return json_response(answer)


async def _accepting_user(
    request: web.Request, attempt: CountedAttempt, email: str, body: Mapping[str, Any], now: datetime
) -> tuple[User, bool]:
    """Return the invited user, and whether it is a new one.

    Raise NotAuthenticated for a wrong password, PermissionDenied for the token of another user.
    """
    user = await request.app[STORAGE].accounts.get_user_by_email(email)
    if "password" not in body:
        return await _user_of_token(request, user), False
    # Whoever invites somebody has the code: the answer tells them who has an account, as a sign-up does.
    with counted_attempt(request, AttemptKind.SIGN_UP) as asked:
        if user is None:
            password_hash = await hash_password(request, attempt, body["password"])
            return User(new_id(), email, body["name"], password_hash, 1, now), True
        try:
            await _check_password(request, user, body["password"])
        except (NotAuthenticated, Throttled):
            asked.count_wrong()
            raise
    return user, False


async def _check_password(request: web.Request, user: User, password: str) -> None:
    """Raise NotAuthenticated for a wrong password, Throttled after too many."""
    with counted_attempt(request, AttemptKind.PASSWORD, user.email) as login:
        if not await verify_password(request, login, user, password):
            raise NotAuthenticated("Unable to log in with provided credentials.")


async def _user_of_token(request: web.Request, invited: User | None) -> User:
    """Return the invited user. Raise PermissionDenied if the token of the request belongs to another one."""
    caller = await authenticate(request)
    if invited is None or caller.require_user() != invited.id:
        raise PermissionDenied(
            "The invitation is for another e-mail address than yours; accept it with that account's password."
        )
    return invited


def _wrong_code(attempt: CountedAttempt) -> Invalid:
    """Count the attempt as wrong and return the error to raise."""
    attempt.count_wrong()
    return Invalid({"code": ["The code is wrong, used or expired."]})
