"""Limits of an organization and what it uses of them: the response."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypedDict
from uuid import UUID


class LimitScope(StrEnum):
    """What a limit applies to."""

    ORGANIZATION = "organization"
    """The organization as a whole."""
    CREDENTIAL = "credential"
    """Each API key, user or run token."""
    USER = "user"
    """Each user."""
    AGENT = "agent"
    """Each agent."""
    TRACE = "trace"
    """Each trace."""


class LimitResponse(TypedDict):
    """A limit that the operator has set."""

    name: str
    """Its name in the section `[limits]` of the configuration; a refusal names it, too."""
    per: LimitScope
    """What the limit applies to."""
    limit: int | None
    """The maximum; null: there is none."""
    used: int | None
    """How much of it is in use, a few seconds old at most; of requests per minute, how many of its own your
    credential has used up. null if the limit applies to each user, agent, trace or credential."""


class LimitsResponse(TypedDict):
    """The limits of an organization. Counts are a few seconds old at most, unless counting takes long."""

    organization: UUID
    """The organization that the limits are about."""
    limits: Sequence[LimitResponse]
    """All limits, those that are switched off included."""


def serialize_limit(name: str, per: LimitScope, limit: int, used: int | None) -> LimitResponse:
    return {"name": name, "per": per, "limit": limit or None, "used": used}
