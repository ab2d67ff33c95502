"""Memberships: what may be changed, and what is shown."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.identity.memberships import Member
from storage.model import Role
from web.fields import Choice
from web.request.parsing import Body
from web.schemas.accounts import UserShown


class MembershipChanges(Body):
    role = Choice(Role)


class MembershipShown(TypedDict):
    id: UUID
    user: UserShown
    organization: UUID
    role: Role
    created_at: datetime


def show_member(member: Member) -> MembershipShown:
    return {
        "id": member.id,
        "user": {"id": member.user_id, "email": member.email, "name": member.name},
        "organization": member.organization_id,
        "role": member.role,
        "created_at": member.created_at,
    }
