"""Secrets for code and tools: precedence, and encryption of the values."""

from dataclasses import replace
from typing import Any

import pytest

from storage.agents.secrets import Secret, Secrets
from storage.agents.templates import Templates
from storage.encryption import KEY_BYTES, SecretCipher
from storage.errors import SecretUnreadable
from storage.ids import new_id
from storage.model import Template
from storage.postgres.pool import Pool
from tests.leaks import contents_by
from tests.storage.factories import HOUR, NOW, stored_organization, template


def secret(desk: Template, name: str = "MODEL_KEY", **fields: Any) -> Secret:
    """Return a secret of the template's organization."""
    return replace(Secret(new_id(), desk.organization_id, None, name, NOW, NOW), **fields)


@pytest.fixture
def secrets(pool: Pool) -> Secrets:
    return Secrets(pool, SecretCipher([b"k" * KEY_BYTES]))


@pytest.fixture
async def desk(pool: Pool) -> Template:
    stored = template((await stored_organization(pool)).id)
    await Templates(pool).insert(stored)
    return stored


async def test_template_secret_precedes_one_of_the_organization(
    pool: Pool, secrets: Secrets, desk: Template
) -> None:
    other = template(desk.organization_id)
    await Templates(pool).insert(other)
    for new, value in (
        (secret(desk, "A"), "of the organization"),
        (secret(desk, "B"), "of all"),
        (secret(desk, "A", template_id=desk.id), "of the template"),
        (secret(other, "A", template_id=other.id), "of another template"),
        (secret(template((await stored_organization(pool)).id), "C"), "of a stranger"),
    ):
        await secrets.insert(new, value)

    async def values(template_id: Any) -> dict[str, str]:
        return await secrets.get_values(desk.organization_id, template_id, ["A", "B", "C"])

    assert await values(desk.id) == {"A": "of the template", "B": "of all"}
    assert await values(None) == {"A": "of the organization", "B": "of all"}
    assert await secrets.get_values(desk.organization_id, desk.id, ["B"]) == {"B": "of all"}


async def test_update_replaces_value_and_never_sets_time_back(secrets: Secrets, desk: Template) -> None:
    stored = secret(desk)
    await secrets.insert(stored, "old")

    later = await secrets.update(stored.id, "new", NOW + HOUR)
    earlier = await secrets.update(stored.id, "newest", NOW - HOUR)

    assert later == earlier == replace(stored, updated_at=NOW + HOUR)
    values = await secrets.get_values(desk.organization_id, None, ["MODEL_KEY"])
    assert values == {"MODEL_KEY": "newest"}
    assert await secrets.delete(stored.id)
    assert not await secrets.delete(stored.id)
    assert await secrets.update(stored.id, "x", NOW) is None
    assert await secrets.get_values(desk.organization_id, None, ["MODEL_KEY"]) == {}


async def test_value_is_encrypted_and_bound_to_its_row(pool: Pool, secrets: Secrets, desk: Template) -> None:
    stored, other = secret(desk, "A"), secret(desk, "B")
    for each in (stored, other):
        await secrets.insert(each, f"sk-live-{each.name}")
    assert "sk-live" not in await contents_by(pool)

    await pool.execute("UPDATE secret SET value = (SELECT value FROM secret WHERE name = 'A')")
    with pytest.raises(SecretUnreadable) as refusal:
        await secrets.get_values(desk.organization_id, None, ["B"])
    assert refusal.value.place == f"secret.value of {other.id}"
    assert "sk-live" not in str(refusal.value)


async def test_secrets_of_template_go_with_it(pool: Pool, secrets: Secrets, desk: Template) -> None:
    stored, kept = secret(desk, template_id=desk.id), secret(desk)
    for each in (stored, kept):
        await secrets.insert(each, "value")
    assert await Templates(pool).delete_unused(desk.id) == 0
    assert await secrets.get(stored.id) is None
    assert await secrets.get(kept.id) == kept
