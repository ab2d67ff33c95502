"""Invites: request bodies and responses. Only the response to a creation contains the code."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.identity.invites import Invite
from storage.model import Role
from web.fields import Choice, Email, Line, Text
from web.request.parsing import Body
from web.schemas.accounts import MAX_PASSWORD, MIN_PASSWORD


class NewInviteBody(Body):
    email = Email(required=True, blank=False, max_length=254)
    role = Choice(Role, load_default=Role.MEMBER)


class AcceptanceBody(Body):
    code = Line(required=True, blank=False, max_length=255)
    password = Text(required=True, blank=False, min_length=MIN_PASSWORD, max_length=MAX_PASSWORD)
    name = Line(load_default="", max_length=255)


class InviteResponse(TypedDict):
    id: UUID
    email: str
    role: Role
    expires_at: datetime
    accepted_at: datetime | None
    created_at: datetime


class NewInviteResponse(InviteResponse):
    """With the code, which no other response contains; null in an answer to a repeated request."""

    code: str | None


def serialize_invite(invite: Invite) -> InviteResponse:
    return {
        "id": invite.id,
        "email": invite.email,
        "role": invite.role,
        "expires_at": invite.expires_at,
        "accepted_at": invite.accepted_at,
        "created_at": invite.created_at,
    }
