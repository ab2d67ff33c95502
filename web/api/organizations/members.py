"""Members of organizations: memberships with their roles, and invites. Owners and admins manage them."""

import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypedDict
from uuid import UUID

from aiohttp import web

from storage.errors import NotUnique
from storage.identity.organizations import Invite, Member
from storage.ids import new_id
from storage.model import Role, User
from storage.postgres.asker import act_as
from web.access.auth import Caller, authenticate, has_user_token, requested_organization
from web.access.login_guard import AttemptKind, CountedAttempt, counted_attempt, record_login, verify_password
from web.access.path_access import load_owned, path_id
from web.api.organizations.accounts import (
    MAX_PASSWORD,
    MIN_PASSWORD,
    SignedUpResponse,
    UserResponse,
    serialize_organization,
    serialize_user,
    wrong_code,
)
from web.app_keys import CLOCK, PASSWORDS, STORAGE, USER_TOKENS
from web.credentials.formats import hash_secret, make_code
from web.errors import Invalid, NotAuthenticated, PermissionDenied, Throttled, require_found
from web.fields import Choice, Email, Line, Text
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.mail import MAIL
from web.paging import PageQuery, answer_owned
from web.request.parsing import Body, read_body, read_query
from web.routes import Access, Routes


class MembershipChangesBody(Body):
    """The role is all that can be changed."""

    role = Choice(Role)


class MembershipResponse(TypedDict):
    """A user's membership in an organization."""

    id: UUID
    """Chosen by the service; the id of the user is another one."""
    user: UserResponse
    """The member."""
    organization: UUID
    """The organization that the user belongs to."""
    role: Role
    """What the member may do. Nobody can change or grant a role above their own."""
    created_at: datetime
    """When the user joined."""


serialize_member = Serializer(
    MembershipResponse,
    Member,
    user=lambda member: {"id": member.user_id, "email": member.email, "name": member.name},
)


class NewInviteBody(Body):
    """An invitation."""

    email = Email(required=True, blank=False, max_length=254)
    role = Choice(Role, load_default=Role.MEMBER)
    """The role that the person will have, not above your own."""


class AcceptanceBody(Body):
    """The code of the invite, and a password or else the token of the invited user."""

    code = Line(required=True, blank=False, max_length=255)
    """The code from the answer to the invitation. It can be used once."""
    password = Text(blank=False, min_length=MIN_PASSWORD, max_length=MAX_PASSWORD)
    """8 to 128 characters: that of the account if the invited address has one, else the password of the new
    account. Required unless the request has the token of that account."""
    name = Line(load_default="", max_length=255)
    """The name of a new user; "" if you do not say. It does not rename an existing user."""


class PasswordAcceptanceBody(AcceptanceBody):
    """The same without a user's token."""

    password = Text(required=True, blank=False, min_length=MIN_PASSWORD, max_length=MAX_PASSWORD)


class InviteResponse(TypedDict):
    """An invitation to an organization."""

    id: UUID
    """Chosen by the service; the invited person needs it together with the code."""
    email: str
    """The address that is invited. If the service sends e-mail, it sends the link there."""
    role: Role
    """The role that the person will have."""
    expires_at: datetime
    """Until when it can be accepted: seven days after its creation."""
    accepted_at: datetime | None
    """When it was accepted; null if it was not."""
    created_at: datetime
    """When it was created."""


class NewInviteResponse(InviteResponse):
    """An invite with its code, which no other response contains."""

    code: str | None
    """The secret with which the invite is accepted. Pass it on, as it cannot be read again: the answer to a
    repeated request with the same `Idempotency-Key` has null."""


serialize_invite = Serializer(InviteResponse, Invite)

routes = Routes()


@routes.get("/api/organizations/memberships/", answer=list[MembershipResponse], query=PageQuery)
async def list_memberships(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the members of the organizations that you administer, newest first.

    Members are refused with 403.
    """
    organization_ids = caller.administered()
    query = read_query(request)
    memberships = request.app[STORAGE].memberships
    fetch = partial(memberships.list_page, organization_ids)
    return await answer_owned(request, query, organization_ids, memberships.get, fetch, serialize_member)


@routes.get("/api/organizations/memberships/{id}/")
async def get_membership(request: web.Request, caller: Caller) -> MembershipResponse:
    """Read one membership of an organization that you administer."""
    member = await load_owned(request, caller, request.app[STORAGE].memberships.get, Caller.require_admin)
    return serialize_member(member)


@routes.patch("/api/organizations/memberships/{id}/", body=MembershipChangesBody)
async def change_membership(request: web.Request, caller: Caller) -> MembershipResponse:
    """Give a member another role.

    A role above your own is refused with 403, and so is the demotion of somebody above you. The last owner
    stays: 400.
    """
    member = await _load_manageable_member(request, caller)
    changes = await read_body(request)
    if "role" not in changes:
        return serialize_member(member)
    caller.require_role(member.organization_id, changes["role"])
    changed = await request.app[STORAGE].memberships.update_role(
        member.id, changes["role"], by=caller.roles[member.organization_id]
    )
    return serialize_member(require_found(changed))


@routes.delete("/api/organizations/memberships/{id}/", refusals={400})
async def delete_membership(request: web.Request, caller: Caller) -> None:
    """Remove a member, who loses access with the next request.

    A member above you is refused with 403. The last owner stays: 400.
    """
    member = await _load_manageable_member(request, caller)
    await request.app[STORAGE].memberships.delete(member.id, by=caller.roles[member.organization_id])


async def _load_manageable_member(request: web.Request, caller: Caller) -> Member:
    """Return the member whose id is in the path. Raise PermissionDenied if the role is above the caller's."""
    member = await load_owned(request, caller, request.app[STORAGE].memberships.get, Caller.require_admin)
    caller.require_role(member.organization_id, member.role)
    return member


PASSWORD_ACCEPTANCE = PasswordAcceptanceBody()
LIFETIME = timedelta(days=7)


@routes.create("/api/organizations/invites/", body=NewInviteBody, by_header=True)
async def create_invite(request: web.Request, caller: Caller) -> NewInviteResponse:
    """Create an invite. Only this answer contains the code, which you pass on, unless the service mails it.

    Members are refused with 403, and so is a role above your own.
    """
    organization_id = requested_organization(request, caller)
    caller.require_admin(organization_id)
    body = await read_body_once(request, caller)
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
    await request.app[STORAGE].invites.insert(invite, receipt_of(request, answer, "code"))
    if mail := request.app[MAIL]:
        organization = require_found(await request.app[STORAGE].organizations.get(organization_id))
        mail.send_invitation(invite, organization.name, code)
    return answer


@routes.get("/api/organizations/invites/", answer=list[InviteResponse], query=PageQuery)
async def list_invites(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the invites of the organizations that you administer, accepted and expired ones included."""
    organization_ids = caller.administered()
    query = read_query(request)
    invites = request.app[STORAGE].invites
    fetch = partial(invites.list_page, organization_ids)
    return await answer_owned(request, query, organization_ids, invites.get, fetch, serialize_invite)


@routes.delete("/api/organizations/invites/{id}/")
async def delete_invite(request: web.Request, caller: Caller) -> None:
    """Delete an invite; its code stops working. An invite to a role above your own is refused with 403."""
    invites = request.app[STORAGE].invites
    invite = await load_owned(request, caller, invites.get, Caller.require_admin)
    caller.require_role(invite.organization_id, invite.role)
    await invites.delete(invite.id)


@routes.post(
    "/api/organizations/invites/{id}/accept/",
    access=Access.ANYONE,
    body=AcceptanceBody,
    user_token=True,
    refusals={401, 403, 429},
)
async def accept_invite(request: web.Request) -> SignedUpResponse:
    """Accept an invite with the password of the account, or with a new one if there is no account yet.

    The token of the invited user's account takes the place of the password. A wrong, used or expired code is
    refused with 400, a wrong password of an existing account with 401, the token of another account with 403.
    """
    app = request.app
    invite = require_found(await app[STORAGE].invites.get(path_id(request)))
    body = await read_body(request, None if has_user_token(request) else PASSWORD_ACCEPTANCE)
    now = app[CLOCK].now()
    async with counted_attempt(request, AttemptKind.CODE, str(invite.id)) as attempt:
        is_right_code = hmac.compare_digest(hash_secret(body["code"]), invite.code_hash)
        if not (is_right_code and invite.is_open(now)):
            raise await wrong_code(attempt)
        user, is_new = await _accepting_user(request, attempt, invite.email, body, now)
        act_as(f"user:{user.id}")
        try:
            is_accepted = await app[STORAGE].invites.accept(invite.id, user, now, is_new=is_new)
        except NotUnique as error:  # the person has signed up in the meantime; the invite stays valid
            raise Invalid({"email": ["user with this email already exists."]}) from error
        organization = await app[STORAGE].organizations.get(invite.organization_id)
        if organization is None or not is_accepted:
            raise await wrong_code(attempt)
    if "password" in body:
        await record_login(request, user.id)
    return {
        "token": app[USER_TOKENS].issue(user.id, user.token_version, now),
        "user": serialize_user(user),
        "organization": serialize_organization(organization),
    }


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
    async with counted_attempt(request, AttemptKind.SIGN_UP) as asked:
        if user is None:
            password_hash = await request.app[PASSWORDS].hash(body["password"], attempt.network)
            return User(new_id(), email, body["name"], password_hash, 1, now), True
        try:
            await _check_password(request, user, body["password"])
        except (NotAuthenticated, Throttled):
            await asked.count_wrong()
            raise
    return user, False


async def _check_password(request: web.Request, user: User, password: str) -> None:
    """Raise NotAuthenticated for a wrong password, Throttled after too many."""
    async with counted_attempt(request, AttemptKind.PASSWORD, user.email) as login:
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
