"""Statements derived from the declaration of a table; each store of one runs them against PostgreSQL."""

from dataclasses import dataclass
from uuid import UUID

from storage.ids import new_id
from storage.postgres.owned_tables import OfAgents, OwnedTable
from storage.postgres.page_conditions import OrganizationsPage
from storage.postgres.paging import Page


@dataclass(frozen=True, slots=True)
class Thing:
    id: UUID
    organization_id: UUID


def test_statement_reads_the_columns_of_the_model() -> None:
    table = OwnedTable("thing", "t", Thing)
    assert "SELECT t.id, t.organization_id FROM thing t\n" in table.get
    assert "SELECT t.id, t.organization_id FROM thing t\n" in table.page


def test_rows_of_deleted_agents_are_left_out() -> None:
    kept = "(SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = t.agent_id)"
    assert f"AND {kept}" in OwnedTable("thing", "t", Thing, OfAgents.ALL).get
    table = OwnedTable("thing", "t", Thing, OfAgents.SOME)
    assert f"AND coalesce({kept}, true)" in table.get
    assert f"AND coalesce({kept}, true)" in table.page


def test_listing_is_of_organizations_or_of_what_an_agent_sees() -> None:
    table, owner = OwnedTable("thing", "t", Thing, OfAgents.SOME), new_id()
    statement, conditions = table.listing((owner,), None, Page(limit=10))
    assert (statement, type(conditions)) == (table.page, OrganizationsPage)
    statement, conditions = table.listing((owner,), new_id(), Page(limit=10))
    assert statement == table.page_for_agent
