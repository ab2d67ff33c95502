"""Organizations: request body and response."""

from datetime import datetime
from decimal import Decimal
from typing import TypedDict
from uuid import UUID

from storage.model import Organization
from web.fields import Boolean, Line, Money
from web.request.parsing import Body


class OrganizationChangesBody(Body):
    name = Line(blank=False, max_length=255)
    paused = Boolean()
    max_cost_usd_per_day = Money(allow_none=True)


class WholeOrganizationResponse(TypedDict):
    id: UUID
    name: str
    paused: bool
    max_cost_usd_per_day: Decimal | None
    created_at: datetime


def serialize_whole_organization(organization: Organization) -> WholeOrganizationResponse:
    return {
        "id": organization.id,
        "name": organization.name,
        "paused": organization.paused,
        "max_cost_usd_per_day": organization.max_cost_usd_per_day,
        "created_at": organization.created_at,
    }
