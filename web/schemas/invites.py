"""Invites: request bodies and responses. Only the response to a creation contains the code."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.identity.invites import Invite
from storage.model import Role
from web.fields import Choice, Email, Line, Text
from web.request.parsing import Body
from web.schemas.accounts import MAX_PASSWORD, MIN_PASSWORD
from web.serializers import Serializer


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
    """The address that is invited. The service sends no e-mail."""
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
