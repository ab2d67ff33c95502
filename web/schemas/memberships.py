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
    role = Choice(Role)


class MembershipResponse(TypedDict):
    id: UUID
    user: UserResponse
    organization: UUID
    role: Role
    created_at: datetime


def serialize_member(member: Member) -> MembershipResponse:
    return {
        "id": member.id,
        "user": {"id": member.user_id, "email": member.email, "name": member.name},
        "organization": member.organization_id,
        "role": member.role,
        "created_at": member.created_at,
    }
