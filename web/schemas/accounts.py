"""What gets a person in: what is sent, and what is shown of users and their places."""

from typing import TypedDict
from uuid import UUID

from storage.model import Membership, Organization, Role, User
from web.fields import Email, Line, Text
from web.request.parsing import Body

MIN_PASSWORD = 8
MAX_PASSWORD = 128


class Signup(Body):
    email = Email(required=True, blank=False, max_length=254)
    password = Text(required=True, blank=False, min_length=MIN_PASSWORD, max_length=MAX_PASSWORD)
    organization_name = Line(required=True, blank=False, max_length=255)
    name = Line(load_default="", max_length=255)


class Login(Body):
    email = Line(required=True, blank=False, max_length=254)
    password = Text(required=True, blank=False, max_length=MAX_PASSWORD)


class PasswordChange(Body):
    current_password = Text(required=True, blank=False, max_length=MAX_PASSWORD)
    new_password = Text(required=True, blank=False, min_length=MIN_PASSWORD, max_length=MAX_PASSWORD)


class Reset(Body):
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


class FreshToken(TypedDict):
    """A token; those issued before stop working."""

    token: str


class SignedUp(TypedDict):
    """A token, its user, and the organization that the user has come to."""

    token: str
    user: UserResponse
    organization: OrganizationResponse


class LoggedIn(TypedDict):
    token: str
    user: UserResponse
    organizations: list[PlaceResponse]


def serialize_user(user: User) -> UserResponse:
    return {"id": user.id, "email": user.email, "name": user.name}


def serialize_organization(organization: Organization) -> OrganizationResponse:
    return {"id": organization.id, "name": organization.name}


def serialize_membership(place: Membership) -> PlaceResponse:
    return {"id": place.organization_id, "name": place.organization_name, "role": place.role}
