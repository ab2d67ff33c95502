"""Which calls of tools need an approval: the rule of a tool or of an adapter's config, and who changes it.

Schemas of tenants, such as that of a rule, are checked here before they are stored.
"""

from enum import StrEnum
from typing import Any, TypedDict
from uuid import UUID

from aiohttp import web

from storage.postgres.json_values import to_json
from web.access.auth import Caller
from web.app_keys import SCHEMA_CHECKER
from web.errors import Invalid
from web.fields import WordOrObject

MAX_SCHEMA_BYTES = 16_384


class ApprovalMode(StrEnum):
    """Which calls wait until a person allows them."""

    NEVER = "never"
    """None."""
    ALWAYS = "always"
    """All."""
    FIRST_USE = "first_use"
    """All of an agent until one of them is approved, which grants the others."""


class ApprovalWhen(TypedDict):
    """Calls whose arguments fit a schema wait until a person allows them."""

    when: dict[str, Any]
    """The JSON Schema (2020-12). If it takes too long to check, the call waits, too."""


def approval_rule(**options: Any) -> WordOrObject:
    """Return a field for a value of `ApprovalMode`, or for `{"when": <JSON Schema>}`."""
    return WordOrObject(*(each.value for each in ApprovalMode), key="when", **options)


async def check_approval(
    request: web.Request, caller: Caller, organization_id: UUID, before: Any, after: Any
) -> None:
    """Raise PermissionDenied if a member changes the rule, Invalid if it has a schema that is none."""
    if after != before:
        caller.require_admin(organization_id)
    if isinstance(after, dict):
        await check_schema(request.app, organization_id, "approval", after["when"])


async def check_schema(app: web.Application, organization_id: UUID, field: str, schema: Any) -> None:
    """Raise Invalid about the field if this is no JSON Schema, or one that is too long to be used often."""
    if len(to_json(schema)) > MAX_SCHEMA_BYTES:
        raise Invalid({field: [f"Ensure this field has no more than {MAX_SCHEMA_BYTES} bytes as JSON."]})
    if errors := await app[SCHEMA_CHECKER].find_schema_errors(organization_id, "this schema", schema):
        raise Invalid({field: errors})
