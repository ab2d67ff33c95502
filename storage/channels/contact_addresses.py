"""The addresses that contacts are found by, each of which belongs to one contact of an organization."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from storage import errors
from storage.channels.addresses import (
    NOT_DIGITS,
    InvalidAddress,
    normalize,
    normalize_email,
    normalize_phone,
)
from storage.postgres.pool import Connection

# The rows are locked in the order of their addresses, so that no two transactions can deadlock. A contact of
# a deleted agent gives its addresses up.
CLAIM = """
INSERT INTO contact_address AS held (organization_id, address, contact_id)
SELECT $1, address, $2 FROM unnest($3::text[]) AS address ORDER BY address
ON CONFLICT ON CONSTRAINT contact_address_pkey DO UPDATE SET contact_id = excluded.contact_id
WHERE held.contact_id = excluded.contact_id OR EXISTS (
    SELECT FROM contact c JOIN agent a ON a.id = c.agent_id
    WHERE c.id = held.contact_id AND a.deleted_at IS NOT NULL)
RETURNING address
"""

LIST_OWNERS = """
SELECT address, contact_id FROM contact_address WHERE organization_id = $1 AND address = ANY($2::text[])
"""

RELEASE = "DELETE FROM contact_address WHERE contact_id = $1 AND address <> ALL($2::text[])"

ADDRESS_FIELDS = frozenset({"email", "phone", "other_addresses"})


def addresses_of(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the addresses that a contact with these fields is found by, each with the name of its field.

    A phone number that an earlier version stored, which is not in the form of an address, is left out.
    """
    email, phone = fields.get("email", ""), fields.get("phone", "")
    addresses = dict.fromkeys(fields.get("other_addresses", ()), "other_addresses")
    if phone and not NOT_DIGITS.search(phone.removeprefix("+")):
        addresses[phone] = "phone"
    if email:
        addresses[email.lower()] = "email"
    return addresses


def normalized(fields: Mapping[str, Any], region: str) -> dict[str, Any]:
    """Return the fields of a contact with its phone number and its further addresses in their stored form.

    An e-mail address is only checked. Raise BadAddress.
    """
    changed = dict(fields)
    if fields.get("email"):
        _checked("email", normalize_email, fields["email"])
    if fields.get("phone"):
        changed["phone"] = _checked("phone", normalize_phone, fields["phone"], region)
    if "other_addresses" in fields:
        others = [_checked("other_addresses", normalize, text, region) for text in fields["other_addresses"]]
        changed["other_addresses"] = tuple(dict.fromkeys(others))
    return changed


def _checked(field: str, convert: Callable[..., str], *parameters: str) -> str:
    try:
        return convert(*parameters)
    except InvalidAddress as error:
        raise errors.BadAddress(field, str(error)) from error


async def claim(
    connection: Connection, organization_id: UUID, contact_id: UUID, fields: Mapping[str, Any]
) -> None:
    """Store that the addresses in these fields belong to the contact.

    Raise AddressTaken if one belongs to another contact.
    """
    addresses = addresses_of(fields)
    if not addresses:
        return
    claimed = await connection.fetch(CLAIM, organization_id, contact_id, list(addresses))
    missing = addresses.keys() - {row["address"] for row in claimed}
    for row in await connection.fetch(LIST_OWNERS, organization_id, sorted(missing)) if missing else ():
        address, owner = row["address"], row["contact_id"]
        raise errors.AddressTaken(addresses[address], address, owner)


async def release_others(connection: Connection, contact_id: UUID, fields: Mapping[str, Any]) -> None:
    """Give up all addresses of the contact but those in these fields."""
    await connection.execute(RELEASE, contact_id, list(addresses_of(fields)))
