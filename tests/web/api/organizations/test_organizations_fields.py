"""Body and response of organizations."""

from decimal import Decimal

from storage.model import Organization
from tests.web.api.checks import BLANK, ID, ID_TEXT, NOON, NOON_TEXT, NULL, accept, refuse, serve
from web.api.organizations.organizations import OrganizationChangesBody, serialize_whole_organization


def test_cap_may_be_null_but_name_and_pause_may_not() -> None:
    cleared = accept(OrganizationChangesBody(), {"max_cost_usd_per_day": None}, partial=True)
    assert cleared == {"max_cost_usd_per_day": None}
    assert refuse(OrganizationChangesBody(), {"name": " ", "paused": None}, partial=True) == {
        "name": BLANK,
        "paused": NULL,
    }


def test_cap_is_exact() -> None:
    checked = accept(OrganizationChangesBody(), {"max_cost_usd_per_day": 0.1}, partial=True)
    assert checked == {"max_cost_usd_per_day": Decimal("0.1")}


def test_response_has_every_field() -> None:
    organization = Organization(ID, "Acme", NOON, paused=True, max_cost_usd_per_day=Decimal("12.5"))
    assert serve(serialize_whole_organization(organization)) == {
        "id": ID_TEXT,
        "name": "Acme",
        "paused": True,
        "max_cost_usd_per_day": 12.5,
        "unpriced": "refuse",
        "phone_region": "",
        "created_at": NOON_TEXT,
    }
