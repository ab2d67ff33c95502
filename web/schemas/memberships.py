"""Memberships: request body and response."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.identity.memberships import Member
from storage.model import Role
from web.fields import Choice
from web.request.parsing import Body
from web.schemas.accounts import UserResponse


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


def serialize_member(member: Member) -> MembershipResponse:
    return {
        "id": member.id,
        "user": {"id": member.user_id, "email": member.email, "name": member.name},
        "organization": member.organization_id,
        "role": member.role,
        "created_at": member.created_at,
    }
