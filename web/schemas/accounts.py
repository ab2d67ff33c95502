"""Sign-up, login and passwords: request bodies and responses, with users and their organizations."""

from typing import TypedDict
from uuid import UUID

from storage.identity.accounts import Membership
from storage.model import Organization, Role, User
from web.fields import Email, Line, Text
from web.request.parsing import Body

MIN_PASSWORD = 8
MAX_PASSWORD = 128


class SignupBody(Body):
    email = Email(required=True, blank=False, max_length=254)
    password = Text(required=True, blank=False, min_length=MIN_PASSWORD, max_length=MAX_PASSWORD)
    organization_name = Line(required=True, blank=False, max_length=255)
    name = Line(load_default="", max_length=255)


class LoginBody(Body):
    email = Line(required=True, blank=False, max_length=254)
    password = Text(required=True, blank=False, max_length=MAX_PASSWORD)


class PasswordChangeBody(Body):
    current_password = Text(required=True, blank=False, max_length=MAX_PASSWORD)
    new_password = Text(required=True, blank=False, min_length=MIN_PASSWORD, max_length=MAX_PASSWORD)


class ResetBody(Body):
    email = Line(required=True, blank=False, max_length=254)
    code = Line(required=True, blank=False, max_length=255)
    new_password = Text(required=True, blank=False, min_length=MIN_PASSWORD, max_length=MAX_PASSWORD)


class UserResponse(TypedDict):
    id: UUID
    email: str
    name: str


class OrganizationResponse(TypedDict):
    id: UUID
    name: str


class PlaceResponse(OrganizationResponse):
    """An organization with the user's role in it."""

    role: Role


class FreshTokenResponse(TypedDict):
    """A token; older tokens stop working."""

    token: str


class SignedUpResponse(TypedDict):
    """A token, its user, and the organization that the user now belongs to."""

    token: str
    user: UserResponse
    organization: OrganizationResponse


class LoggedInResponse(TypedDict):
    token: str
    user: UserResponse
    organizations: list[PlaceResponse]


def serialize_user(user: User) -> UserResponse:
    return {"id": user.id, "email": user.email, "name": user.name}


def serialize_organization(organization: Organization) -> OrganizationResponse:
    return {"id": organization.id, "name": organization.name}


def serialize_membership(membership: Membership) -> PlaceResponse:
    return {"id": membership.organization_id, "name": membership.organization_name, "role": membership.role}
