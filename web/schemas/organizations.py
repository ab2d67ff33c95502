"""Organizations: request body and response."""

from datetime import datetime
from decimal import Decimal
from typing import TypedDict
from uuid import UUID

from storage.model import Organization, Unpriced
from web.fields import Boolean, Choice, Line, Money, Region
from web.request.parsing import Body
from web.serializers import Serializer


class NewOrganizationBody(Body):
    """A further organization of the user who sends it."""

    name = Line(required=True, blank=False, max_length=255)


class OrganizationChangesBody(Body):
    """The settings of an organization that its admins and owners can change."""

    name = Line(blank=False, max_length=255)
    paused = Boolean()
    max_cost_usd_per_day = Money(allow_none=True)
    unpriced = Choice(Unpriced)
    phone_region = Region()


class WholeOrganizationResponse(TypedDict):
    """An organization, which owns agents, templates and everything else."""

    id: UUID
    """Chosen by the service; `X-Organization` takes it."""
    name: str
    """The name of the organization; several may have the same."""
    paused: bool
    """Whether its agents are held: true stops their runs and starts no others until it is false again."""
    max_cost_usd_per_day: Decimal | None
    """What all its agents together may spend in a UTC day, in US dollars with at most six decimals; null: no
    cap. 0 allows no run."""
    unpriced: Unpriced
    """Whether the cap allows calls of models whose price is not known."""
    phone_region: str
    """The region of phone numbers without a country code, as two capital letters such as `AT`; "": such
    numbers are refused."""
    created_at: datetime
    """When the organization was created."""


serialize_whole_organization = Serializer(WholeOrganizationResponse, Organization)
