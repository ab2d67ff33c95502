"""Organizations as they are listed, changed and paused."""

from decimal import Decimal

import pytest

from storage.identity.organizations import Organizations
from storage.ids import new_id
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, stored_organization


@pytest.fixture
def organizations(pool: Pool) -> Organizations:
    return Organizations(pool)


async def test_a_change_is_answered_with_the_whole_organization(
    organizations: Organizations, pool: Pool
) -> None:
    engines = await stored_organization(pool)

    changed = await organizations.update(
        engines.id, {"name": "Engines", "paused": True, "max_cost_usd_per_day": Decimal("0.000001")}
    )

    assert changed == await organizations.get(engines.id)
    assert changed is not None
    assert (changed.name, changed.paused, changed.max_cost_usd_per_day) == (
        "Engines",
        True,
        Decimal("0.000001"),
    )
    assert await organizations.update(engines.id, {}) == changed


async def test_what_does_not_exist_is_not_changed(organizations: Organizations) -> None:
    assert await organizations.update(new_id(), {"paused": True}) is None
    assert await organizations.update(new_id(), {}) is None


async def test_a_page_holds_only_those_asked_for_newest_first(
    organizations: Organizations, pool: Pool
) -> None:
    old, middle, recent, _ = [
        await stored_organization(pool, name=str(hours), created_at=NOW + hours * HOUR) for hours in range(4)
    ]
    wanted = [middle.id, old.id, recent.id]

    assert await organizations.page(wanted, Page(limit=2)) == [recent, middle]
    assert await organizations.page(wanted, Page(after=(middle.created_at, middle.id))) == [old]
    assert await organizations.page(wanted, Page(offset=1, limit=1)) == [middle]


async def test_a_name_finds_all_who_have_exactly_it(organizations: Organizations, pool: Pool) -> None:
    acme, again, _ = [await stored_organization(pool, name=name) for name in ("Acme", "Acme", "acme")]

    assert await organizations.find_by_name("Acme") == [acme, again]
    assert await organizations.find_by_name("Acme Inc") == []


async def test_the_paused_ones_are_listed(organizations: Organizations, pool: Pool) -> None:
    paused, _ = await stored_organization(pool), await stored_organization(pool)
    await organizations.update(paused.id, {"paused": True})

    assert await organizations.list_paused() == [paused.id]
