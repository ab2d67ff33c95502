"""Organizations: listing, changing and pausing them."""

from decimal import Decimal

import pytest

from storage.identity.organizations import Organizations
from storage.ids import new_id
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.events.recorded import list_events
from tests.storage.factories import HOUR, NOW, stored_organization


@pytest.fixture
def organizations(pool: Pool) -> Organizations:
    return Organizations(pool)


async def test_update_returns_the_whole_organization(organizations: Organizations, pool: Pool) -> None:
    engines = await stored_organization(pool)

    changed = await organizations.update(
        engines.id, {"name": "Engines", "paused": True, "max_cost_usd_per_day": Decimal("0.000001")}, NOW
    )

    assert changed == await organizations.get(engines.id)
    assert changed is not None
    assert (changed.name, changed.paused, changed.max_cost_usd_per_day) == (
        "Engines",
        True,
        Decimal("0.000001"),
    )
    assert await organizations.update(engines.id, {}, NOW) == changed


async def test_update_of_unknown_organization_returns_none(organizations: Organizations) -> None:
    assert await organizations.update(new_id(), {"paused": True}, NOW) is None
    assert await organizations.update(new_id(), {}, NOW) is None


async def test_page_shows_given_organizations_newest_first(organizations: Organizations, pool: Pool) -> None:
    old, middle, recent, _ = [
        await stored_organization(pool, name=str(hours), created_at=NOW + hours * HOUR) for hours in range(4)
    ]
    wanted = [middle.id, old.id, recent.id]

    assert await organizations.list_page(wanted, Page(limit=2)) == [recent, middle]
    assert await organizations.list_page(wanted, Page(after=(middle.created_at, middle.id))) == [old]
    assert await organizations.list_page(wanted, Page(offset=1, limit=1)) == [middle]


async def test_organizations_are_found_by_exact_name(organizations: Organizations, pool: Pool) -> None:
    acme, again, _ = [await stored_organization(pool, name=name) for name in ("Acme", "Acme", "acme")]

    assert await organizations.list_by_name("Acme") == [acme, again]
    assert await organizations.list_by_name("Acme Inc") == []


async def test_paused_organizations_are_listed(organizations: Organizations, pool: Pool) -> None:
    paused, _ = await stored_organization(pool), await stored_organization(pool)
    await organizations.update(paused.id, {"paused": True}, NOW)

    assert await organizations.list_paused() == [paused.id]


async def test_pause_and_its_end_are_recorded_once(pool: Pool) -> None:
    organizations, owner = Organizations(pool), await stored_organization(pool)
    for paused in (True, True, False, False):
        await organizations.update(owner.id, {"paused": paused, "name": "Engines"}, NOW, actor="operator")

    events = await list_events(pool, "organization")
    assert [event["type"] for event in events] == ["organization.paused", "organization.unpaused"]
    assert {(event["organization_id"], event["agent_id"], event["actor"]) for event in events} == {
        (owner.id, None, "operator")
    }
