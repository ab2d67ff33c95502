"""Sign-up, login and passwords: request bodies and responses, with users and their organizations."""

from enum import StrEnum
from typing import TypedDict
from uuid import UUID

from storage.identity.accounts import Membership
from storage.model import Organization, Role, User
from web.fields import Email, Line, Text
from web.request.parsing import Body
from web.serializers import Serializer

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


class ResetBody(Body):
    """The code that an operator has given, and a new password."""

    email = Line(required=True, blank=False, max_length=254)
    """The address of the account, ignoring case."""
    code = Line(required=True, blank=False, max_length=255)
    """The code, which `hostsvc accounts reset-password` prints. It can be used once, within an hour."""
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
