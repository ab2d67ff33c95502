"""Limits of an organization and what it uses of them: the response."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypedDict
from uuid import UUID


class LimitScope(StrEnum):
    """What a limit applies to."""

    ORGANIZATION = "organization"
    CREDENTIAL = "credential"  # each API key, user or run token
    AGENT = "agent"
    TRACE = "trace"


class LimitResponse(TypedDict):
    """A limit by its name in the configuration.

    `limit` is null if there is none. `used` is null if the limit applies to each agent, trace or
    credential. Of requests per minute, `used` is what the caller's own credential has to wait for to be
    refilled.
    """

    name: str
    per: LimitScope
    limit: int | None
    used: int | None


class LimitsResponse(TypedDict):
    """The limits of an organization. Counts are a few seconds old at most, unless counting takes long."""

    organization: UUID
    limits: Sequence[LimitResponse]


def serialize_limit(name: str, per: LimitScope, limit: int, used: int | None) -> LimitResponse:
    return {"name": name, "per": per, "limit": limit or None, "used": used}
